#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/reference.h"
#include "tests/kernels/sequence_reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

std::vector<float> OutputsOf(const model::ModelSpec& spec, const std::vector<float>& params,
                             const std::vector<float>& x, Isa isa) {
  const std::size_t rows = x.size() / spec.input_values();
  Network network(spec, 1, isa);
  std::vector<float> outputs(rows * spec.positions() * spec.outputs());
  network.Outputs(params, x.data(), rows, outputs);
  return outputs;
}

TEST_CASE("attention of two heads gives the values of PyTorch's", "[unit]") {
  const std::vector<float> params{1.0F,  0.5F,  -0.5F, 1.0F, 0.25F, -1.0F,  // weight_qkv
                                  2.0F,  0.5F,  1.0F,  0.0F, 0.0F,  -1.0F,  //
                                  0.1F,  -0.1F, 0.2F,  0.3F, 0.0F,  0.5F,   // bias_qkv
                                  1.0F,  2.0F,  -1.0F, 0.5F,                // weight_out
                                  0.25F, -0.75F};                           // bias_out
  const std::vector<float> x{1.0F, -2.0F, 0.5F, 0.25F, -1.0F, 1.5F};
  const std::vector<double> open{-1.430334089209663,  -1.5381207608504504, 2.0109733522718387,
                                 -1.3577190114097943, 2.68128106771498,    -0.11037548786680607};
  const std::vector<double> causal{
      6.25, -0.5, 3.9382474121814646, -0.9831695160597249, 2.68128106771498, -0.11037548786680607};
  for (const Isa isa : AvailableIsas()) {
    for (const bool is_causal : {false, true}) {
      const model::ModelSpec spec =
          test::SequenceSpec({3, 2}, {is_causal ? "attention 2 causal" : "attention 2"});
      const std::vector<float> y = OutputsOf(spec, params, x, isa);
      for (std::size_t i = 0; i < y.size(); ++i) {
        INFO(IsaName(isa) << ", causal " << is_causal << ", value " << i);
        const double expected = is_causal ? causal[i] : open[i];
        CHECK(std::abs(static_cast<double>(y[i]) - expected) < 2e-6);
      }
    }
  }
}

TEST_CASE("attention follows the double reference at every length", "[unit]") {
  for (const char* line : {"attention 2", "attention 2 causal"}) {
    for (const std::uint32_t length : {1U, 2U, 7U, 15U, 16U, 17U, 24U, 25U, 33U}) {
      const model::ModelSpec spec = test::SequenceSpec({length, 6}, {line, "dense 3"});
      test::CheckAgainstReference(spec, 2, {.stride = length > 7 ? 37U : 1U});
    }
  }
}

TEST_CASE("attention follows the double reference at every width and number of heads", "[unit]") {
  struct Size {
    std::uint32_t features;
    const char* line;
  };
  for (const Size& size :
       {Size{1, "attention 1"}, Size{2, "attention 2 causal"}, Size{7, "attention 1"},
        Size{15, "attention 3 causal"}, Size{16, "attention 4"}, Size{17, "attention 1 causal"},
        Size{33, "attention 3"}, Size{34, "attention 2 causal"}}) {
    const model::ModelSpec spec = test::SequenceSpec({5, size.features}, {size.line, "dense 3"});
    test::CheckAgainstReference(spec, 3, {.stride = size.features > 7 ? 41U : 1U, .scale = 0.4F});
  }
}

TEST_CASE("gradients of attention over many places are made in several blocks", "[unit]") {
  for (const char* line : {"attention 2", "attention 2 causal"}) {
    const model::ModelSpec spec = test::SequenceSpec({45, 4}, {line, "dense 3"});
    test::CheckAgainstReference(spec, 7, {.stride = 11});
  }
}

TEST_CASE("attention passes the gradient on to what is below it", "[unit]") {
  for (const char* line : {"attention 2", "attention 3 causal"}) {
    test::CheckAgainstReference(test::SequenceSpec({5, 3}, {"dense 6", line, line, "dense 3"}), 2,
                                {});
    test::CheckAgainstReference(test::SequenceSpec({5, 3}, {"dense 6", "relu", line, "dense 3"}), 2,
                                {});
  }
}

TEST_CASE("scores far apart do not overflow", "[unit]") {
  test::CheckAgainstReference(test::SequenceSpec({6, 4}, {"attention 1", "dense 3"}), 2,
                              {.scale = 6, .tolerance = 1e-2});
}

TEST_CASE("attention answers a sequence alike, bit for bit, whatever the batch it is in",
          "[unit]") {
  for (const char* line : {"attention 3", "attention 3 causal"}) {
    const model::ModelSpec spec = test::SequenceSpec({29, 15}, {line, line, "dense 7"});
    const std::vector<float> params = test::RandomFloats(spec.layout()->values(), 1, 0.5F);
    const test::SequenceBatch batch = test::RandomSequences(spec, 40, 2);
    const std::size_t width = spec.positions() * spec.outputs();
    for (const Isa isa : AvailableIsas()) {
      const std::vector<float> whole = OutputsOf(spec, params, batch.x, isa);
      for (const std::size_t rows : test::Sizes{1, 2, 7, 13}) {
        Network network(spec, 16, isa);
        std::vector<float> some(rows * width);
        network.Outputs(params, batch.x.data(), rows, some);
        INFO(IsaName(isa) << ", " << line << ", " << rows << " rows");
        CHECK(std::equal(some.begin(), some.end(), whole.begin()));
      }
    }
  }
}

TEST_CASE("a place of causal attention sees nothing behind it", "[unit]") {
  const model::ModelSpec spec = test::SequenceSpec({30, 4}, {"attention 2 causal"});
  const std::vector<float> params = test::RandomFloats(spec.layout()->values(), 1);
  std::vector<float> x = test::RandomFloats(120, 2);
  for (const Isa isa : AvailableIsas()) {
    const std::vector<float> before = OutputsOf(spec, params, x, isa);
    std::vector<float> other = x;
    for (std::size_t i = 13 * 4; i < other.size(); ++i) other[i] = -other[i];
    const std::vector<float> after = OutputsOf(spec, params, other, isa);
    INFO(IsaName(isa));
    CHECK(std::equal(before.begin(), before.begin() + 13 * 4, after.begin()));
    CHECK_FALSE(
        std::equal(before.begin() + 13 * 4, before.begin() + 14 * 4, after.begin() + 13 * 4));
  }
}

TEST_CASE("adding the gradient of attention straight into its weights changes no bit", "[unit]") {
  for (const std::uint32_t length : {6U, 40U}) {  // one block and several
    const model::ModelSpec spec =
        test::SequenceSpec({length, 6}, {"attention 2 causal", "attention 3", "dense 3"});
    for (const Isa isa : AvailableIsas()) {
      std::vector<float> fused = test::RandomFloats(spec.layout()->values(), 6, 0.5F);
      std::vector<float> separate = fused;
      Network network(spec, 10, isa);
      for (std::uint64_t t = 0; t < 3; ++t) {
        const test::SequenceBatch batch = test::RandomSequences(spec, 10 - 3 * t, t);
        network.TrainStep(fused, batch.View(), {.learning_rate = 0.1F});
        network.TrainStep(separate, batch.View(), {.learning_rate = 0.1F, .gradient_clip = 1e30});
      }
      INFO(IsaName(isa) << ", length " << length);
      double furthest = 0;
      for (std::size_t i = 0; i < fused.size(); ++i) {
        furthest = std::max(furthest, std::abs(static_cast<double>(fused[i] - separate[i])));
      }
      CHECK(furthest < 1e-6);
      if (isa != Isa::kPortable) CHECK(fused == separate);
    }
  }
}

TEST_CASE("NaN in one sequence is seen wherever attention sees it", "[unit]") {
  for (const bool is_causal : {false, true}) {
    const model::ModelSpec spec =
        test::SequenceSpec({5, 4}, {is_causal ? "attention 2 causal" : "attention 2"});
    const std::vector<float> params = test::RandomFloats(spec.layout()->values(), 6);
    std::vector<float> x = test::RandomFloats(3 * 20, 1);
    x[20 + 2 * 4] = std::numeric_limits<float>::quiet_NaN();  // second row, third place
    for (const Isa isa : AvailableIsas()) {
      const std::vector<float> outputs = OutputsOf(spec, params, x, isa);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const std::size_t row = i / 20;
        const std::size_t place = i % 20 / 4;
        INFO(IsaName(isa) << ", causal " << is_causal << ", row " << row << ", place " << place);
        if (row != 1) CHECK_FALSE(std::isnan(outputs[i]));
        if (row == 1 && (!is_causal || place >= 2)) CHECK(std::isnan(outputs[i]));
      }
    }
  }
}

}  // namespace
}  // namespace skep::kernels
