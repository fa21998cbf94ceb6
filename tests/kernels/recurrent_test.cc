#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/reference.h"
#include "tests/kernels/sequence_reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

// Parameters are in layout order: weight_ih, weight_hh, bias, and a GRU's bias_hn.
std::vector<float> OutputsOf(const model::ModelSpec& spec, const std::vector<float>& params,
                             const std::vector<float>& x, Isa isa) {
  const std::size_t rows = x.size() / spec.input_values();
  Network network(spec, 1, isa);
  std::vector<float> outputs(rows * spec.positions() * spec.outputs());
  network.Outputs(params, x.data(), rows, outputs);
  return outputs;
}

void CheckValues(const std::vector<float>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(std::abs(static_cast<double>(values[i]) - expected[i]) < 1e-7);
  }
}

TEST_CASE("an LSTM of one unit gives the values of PyTorch's", "[unit]") {
  const model::ModelSpec spec = test::SequenceSpec({3, 1}, {"lstm 1"});
  const std::vector<float> params{0.5F,   -0.25F, 0.75F, 1.0F,   //
                                  0.125F, 0.5F,   -0.5F, 0.25F,  //
                                  0.1F,   0.2F,   -0.3F, 0.4F};
  for (const Isa isa : AvailableIsas()) {
    INFO(IsaName(isa));
    CheckValues(OutputsOf(spec, params, {1.0F, -2.0F, 0.5F}, isa),
                {0.21326720736590707, -0.01636751138275271, 0.00023650077159570815});
  }
}

TEST_CASE("a GRU of one unit gives the values of PyTorch's", "[unit]") {
  const model::ModelSpec spec = test::SequenceSpec({3, 1}, {"gru 1"});
  // The reset gate multiplies the recurrent bias of the new gate: 0.6.
  const std::vector<float> params{0.5F,   -0.25F, 0.75F,  //
                                  0.125F, 0.5F,   -0.5F,  //
                                  0.1F,   0.2F,   -0.3F,  //
                                  0.6F};
  for (const Isa isa : AvailableIsas()) {
    INFO(IsaName(isa));
    CheckValues(OutputsOf(spec, params, {1.0F, -2.0F, 0.5F}, isa),
                {0.35076663003743663, -0.026540486650633133, 0.18445065048293763});
  }
}

TEST_CASE("recurrent layers follow the double reference at every size of their state", "[unit]") {
  for (const char* kind : {"lstm", "gru"}) {
    for (const std::size_t hidden : test::Sizes{1, 2, 7, 15, 16, 17, 33}) {
      const model::ModelSpec spec =
          test::SequenceSpec({3, 2}, {std::string(kind) + " " + std::to_string(hidden), "dense 3"});
      test::CheckAgainstReference(spec, 3, {.stride = hidden > 7 ? 29U : 1U});
    }
  }
}

TEST_CASE("recurrent layers follow the double reference at every size of their input", "[unit]") {
  for (const char* line : {"lstm 5", "gru 5"}) {
    for (const std::uint32_t inputs : {1U, 2U, 7U, 15U, 16U, 17U, 33U}) {
      const model::ModelSpec spec = test::SequenceSpec({2, inputs}, {line, "dense 3"});
      test::CheckAgainstReference(spec, 2, {.stride = inputs > 7 ? 13U : 1U});
    }
  }
}

TEST_CASE("recurrent layers follow the double reference at every batch size", "[unit]") {
  for (const char* line : {"lstm 9", "gru 9"}) {
    const model::ModelSpec spec = test::SequenceSpec({4, 3}, {line, "dense 4"});
    for (const std::size_t rows : test::Sizes{1, 2, 7, 15, 16, 17, 33}) {
      test::CheckAgainstReference(spec, rows, {.stride = 17});
    }
  }
}

TEST_CASE("a sequence may be one step long", "[unit]") {
  for (const char* line : {"lstm 6", "gru 6"}) {
    test::CheckAgainstReference(test::SequenceSpec({1, 4}, {line, "dense 3"}), 5, {});
  }
}

TEST_CASE("gradients go back through 80 steps, made in several blocks", "[unit]") {
  for (const char* line : {"lstm 6", "gru 6"}) {
    const model::ModelSpec spec = test::SequenceSpec({80, 3}, {line, "dense 4"});
    test::CheckAgainstReference(spec, 7, {.stride = 19, .tolerance = 5e-5});
  }
}

TEST_CASE("recurrent layers pass the gradient on to what is below them", "[unit]") {
  for (const char* line : {"lstm 5", "gru 5"}) {
    test::CheckAgainstReference(test::SequenceSpec({4, 3}, {"dense 6", line, line, "dense 3"}), 3,
                                {});
    test::CheckAgainstReference(test::SequenceSpec({4, 3}, {"dense 6", "relu", line, "dense 3"}), 3,
                                {});
  }
}

TEST_CASE("a sequence is answered alike, bit for bit, whatever the batch it is in", "[unit]") {
  for (const char* line : {"lstm 33", "gru 33"}) {
    const model::ModelSpec spec = test::SequenceSpec({9, 5}, {line, line, "dense 7"});
    const std::vector<float> params = test::RandomFloats(spec.layout()->values(), 1, 0.5F);
    const test::SequenceBatch batch = test::RandomSequences(spec, 40, 2);
    const std::size_t width = spec.positions() * spec.outputs();
    for (const Isa isa : AvailableIsas()) {
      std::vector<float> whole = OutputsOf(spec, params, batch.x, isa);
      for (const std::size_t rows : test::Sizes{1, 2, 7, 13, 40}) {
        for (const std::size_t training_rows : test::Sizes{1, 16}) {
          Network network(spec, training_rows, isa);
          std::vector<float> some(rows * width);
          network.Outputs(params, batch.x.data(), rows, some);
          INFO(IsaName(isa) << ", " << line << ", " << rows << " rows");
          CHECK(std::equal(some.begin(), some.end(), whole.begin()));
        }
      }
    }
  }
}

TEST_CASE("adding the gradient of a recurrent layer straight into its weights changes no bit",
          "[unit]") {
  for (const char* line : {"lstm 10", "gru 10"}) {
    for (const std::uint32_t length : {5U, 60U}) {  // one block and several
      const model::ModelSpec spec = test::SequenceSpec({length, 4}, {line, line, "dense 3"});
      for (const Isa isa : AvailableIsas()) {
        std::vector<float> fused = test::RandomFloats(spec.layout()->values(), 6, 0.5F);
        std::vector<float> separate = fused;
        Network network(spec, 10, isa);
        for (std::uint64_t t = 0; t < 3; ++t) {
          const test::SequenceBatch batch = test::RandomSequences(spec, 10 - 3 * t, t);
          network.TrainStep(fused, batch.View(), {.learning_rate = 0.1F});
          // A clip that is never reached takes the path with a gradient of its own.
          network.TrainStep(separate, batch.View(), {.learning_rate = 0.1F, .gradient_clip = 1e30});
        }
        INFO(IsaName(isa) << ", " << line << ", length " << length);
        double furthest = 0;
        for (std::size_t i = 0; i < fused.size(); ++i) {
          furthest = std::max(furthest, std::abs(static_cast<double>(fused[i] - separate[i])));
        }
        CHECK(furthest < 1e-6);
        if (isa != Isa::kPortable) CHECK(fused == separate);
      }
    }
  }
}

TEST_CASE("the gradient does not depend on the batch before", "[unit]") {
  for (const char* line : {"lstm 10", "gru 10"}) {
    const model::ModelSpec spec = test::SequenceSpec({30, 4}, {line, "dense 3"});
    const std::vector<float> params = test::RandomFloats(spec.layout()->values(), 6, 0.5F);
    const test::SequenceBatch large = test::RandomSequences(spec, 20, 1);
    const test::SequenceBatch small = test::RandomSequences(spec, 6, 2);
    for (const Isa isa : AvailableIsas()) {
      std::vector<float> after(params.size());
      std::vector<float> alone(params.size());
      Network used(spec, 20, isa);
      used.Gradient(params, large.View(), after);
      used.Evaluate(params, large.View());
      used.Gradient(params, small.View(), after);
      Network fresh(spec, 20, isa);
      fresh.Gradient(params, small.View(), alone);
      INFO(IsaName(isa) << ", " << line);
      CHECK(after == alone);
    }
  }
}

TEST_CASE("NaN in one sequence is seen in its outputs and the loss, and in no other sequence",
          "[unit]") {
  for (const char* line : {"lstm 17", "gru 17"}) {
    const model::ModelSpec spec = test::SequenceSpec({6, 4}, {line, "dense 3"});
    const std::vector<float> params = test::RandomFloats(spec.layout()->values(), 6, 0.5F);
    test::SequenceBatch batch = test::RandomSequences(spec, 3, 1);
    batch.x[1 * 24 + 2 * 4] = std::numeric_limits<float>::quiet_NaN();  // second row, third step
    for (const Isa isa : AvailableIsas()) {
      INFO(IsaName(isa) << ", " << line);
      const std::vector<float> outputs = OutputsOf(spec, params, batch.x, isa);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const std::size_t row = i / 18;
        const std::size_t step = i % 18 / 3;
        CHECK(std::isnan(outputs[i]) == (row == 1 && step >= 2));
      }
      Network network(spec, 3, isa);
      std::vector<float> gradient(params.size());
      CHECK(std::isnan(network.Gradient(params, batch.View(), gradient)));
      CHECK(std::all_of(gradient.begin(), gradient.end(), [](float g) { return std::isnan(g); }));
    }
  }
}

}  // namespace
}  // namespace skep::kernels
