// Initial weights: the order of draws, what takes none, and the spread of each initialiser.
#include <algorithm>
#include <cmath>

#include "shared/base/rng.h"
#include "shared/model/model_spec.h"
#include "tests/support/catch.h"

namespace skep::model {
namespace {

ModelSpec Parse(std::vector<std::uint32_t> input, std::vector<std::string> lines) {
  return ModelSpec::Parse(std::move(input), std::move(lines)).value();
}

RandomStream Stream(std::uint64_t seed) {
  return RandomStream(seed, {.purpose = Purpose::kInitialWeights});
}

// Takes the next draws as uniform in +-bound and compares the tensor with them.
bool IsUniform(RandomStream& stream, std::span<const float> tensor, double bound) {
  return std::all_of(tensor.begin(), tensor.end(), [&](float value) {
    return value == static_cast<float>((2.0 * stream.Uniform() - 1.0) * bound);
  });
}
bool IsNormal(RandomStream& stream, std::span<const float> tensor, double deviation) {
  return std::all_of(tensor.begin(), tensor.end(), [&](float value) {
    return value == static_cast<float>(stream.Normal() * deviation);
  });
}
bool IsAll(std::span<const float> tensor, float constant) {
  return std::all_of(tensor.begin(), tensor.end(), [&](float v) { return v == constant; });
}

TEST_CASE("fan-in draws weights and biases in layout order, rounded once", "[unit]") {
  const Params params =
      InitialParams(Parse({3}, {"dense 2", "relu", "dense 2"}), Initialiser::kFanIn, 42);
  RandomStream stream = Stream(42);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(IsUniform(stream, params.Tensor(i), 1.0 / std::sqrt(i < 2 ? 3.0 : 2.0)));
  }
}

TEST_CASE("the first weights of seed 42 are known", "[unit]") {
  const Params params = InitialParams(Parse({4}, {"dense 1"}), Initialiser::kFanIn, 42);
  // Philox4x32-10, key 42, counter [0, 2^32 - 1, 0, 1].
  const PhiloxBlock block = Philox(42, {0, kNone, 0, 1});
  const auto uniform = [&](std::size_t i) {
    const std::uint64_t word = (std::uint64_t{block.at(i + 1)} << 32U) | block.at(i);
    return static_cast<double>(word >> 11U) * 0x1p-53;
  };
  CHECK(params.values()[0] == static_cast<float>((2 * uniform(0) - 1) * 0.5));
  CHECK(params.values()[1] == static_cast<float>((2 * uniform(2) - 1) * 0.5));
}

TEST_CASE("the fan-in of a convolution is that of its window and its group", "[unit]") {
  const Params params =
      InitialParams(Parse({4, 5, 5}, {"conv 2 3x2 groups 2"}), Initialiser::kFanIn, 1);
  RandomStream stream = Stream(1);
  CHECK(IsUniform(stream, params.Tensor(0), 1.0 / std::sqrt(12.0)));
  CHECK(IsUniform(stream, params.Tensor(1), 1.0 / std::sqrt(12.0)));
}

TEST_CASE("norms start at 1, 0, 0, 1 and take no draw", "[unit]") {
  for (const Initialiser initialiser :
       {Initialiser::kFanIn, Initialiser::kGlorot, Initialiser::kHe, Initialiser::kZeros}) {
    const Params params = InitialParams(Parse({3}, {"norm batch", "dense 2"}), initialiser, 7);
    CHECK(IsAll(params.Tensor(0), 1));
    CHECK(IsAll(params.Tensor(1), 0));
    CHECK(IsAll(params.Tensor(2), 0));
    CHECK(IsAll(params.Tensor(3), 1));
    const Params alone = InitialParams(Parse({3}, {"dense 2"}), initialiser, 7);
    CHECK(std::equal(alone.values().begin(), alone.values().end(), params.Tensor(4).begin()));
  }
  const Params group = InitialParams(Parse({4}, {"norm group 2"}), Initialiser::kFanIn, 7);
  CHECK(IsAll(group.Tensor(0), 1));
  CHECK(IsAll(group.Tensor(1), 0));
}

TEST_CASE("embeddings are normal, positions narrower, whatever the initialiser", "[unit]") {
  const ModelSpec spec = Parse({3}, {"embedding 2 symbols 5", "positions", "dense 1"});
  for (const Initialiser initialiser : {Initialiser::kFanIn, Initialiser::kHe}) {
    const Params params = InitialParams(spec, initialiser, 3);
    RandomStream stream = Stream(3);
    CHECK(IsNormal(stream, params.Tensor(0), 1));
    CHECK(IsNormal(stream, params.Tensor(1), 0.02));
  }
  CHECK(IsAll(InitialParams(spec, Initialiser::kZeros, 3).values(), 0));
}

TEST_CASE("all tensors of recurrent layers are drawn by their hidden values", "[unit]") {
  for (const char* line : {"lstm 9", "gru 9"}) {
    const ModelSpec spec = Parse({3, 2}, {line});
    const Params params = InitialParams(spec, Initialiser::kFanIn, 5);
    RandomStream stream = Stream(5);
    for (std::size_t i = 0; i < spec.layout()->tensors().size(); ++i) {
      INFO(spec.layout()->tensors()[i].name);
      CHECK(IsUniform(stream, params.Tensor(i), 1.0 / 3.0));
    }
  }
}

TEST_CASE("attention is drawn by its features", "[unit]") {
  const Params params = InitialParams(Parse({3, 16}, {"attention 2"}), Initialiser::kFanIn, 5);
  RandomStream stream = Stream(5);
  for (std::size_t i = 0; i < 4; ++i) CHECK(IsUniform(stream, params.Tensor(i), 0.25));
}

TEST_CASE("glorot counts both sides, he the inputs; their biases are 0 and undrawn", "[unit]") {
  const ModelSpec spec = Parse({4, 5, 5}, {"conv 6 3x3", "dense 2"});
  const Params glorot = InitialParams(spec, Initialiser::kGlorot, 1);
  RandomStream stream = Stream(1);
  CHECK(IsUniform(stream, glorot.Tensor(0), std::sqrt(6.0 / (9 * 4 + 9 * 6))));
  CHECK(IsAll(glorot.Tensor(1), 0));
  CHECK(IsUniform(stream, glorot.Tensor(2), std::sqrt(6.0 / (54 + 2))));
  CHECK(IsAll(glorot.Tensor(3), 0));
  const Params he = InitialParams(spec, Initialiser::kHe, 1);
  stream = Stream(1);
  CHECK(IsNormal(stream, he.Tensor(0), std::sqrt(2.0 / 36)));
  CHECK(IsAll(he.Tensor(1), 0));
  CHECK(IsNormal(stream, he.Tensor(2), std::sqrt(2.0 / 54)));
}

TEST_CASE("glorot and he keep their variances", "[unit]") {
  const ModelSpec spec = Parse({300}, {"dense 200"});
  for (const Initialiser initialiser : {Initialiser::kGlorot, Initialiser::kHe}) {
    const Params params = InitialParams(spec, initialiser, 1);
    double squares = 0;
    for (const float w : params.Tensor(0)) squares += double{w} * w;
    const double expected = initialiser == Initialiser::kGlorot ? 2.0 / 500 : 2.0 / 300;
    CHECK(squares / 60000 == Approx(expected).epsilon(0.03));
  }
}

TEST_CASE("the same seed gives the same model, another one another", "[unit]") {
  const ModelSpec spec = Parse({10}, {"dense 3"});
  const auto hash = [&](std::uint64_t seed) {
    return InitialParams(spec, Initialiser::kFanIn, seed).ModelHash();
  };
  CHECK(hash(1) == hash(1));
  CHECK_FALSE(hash(1) == hash(2));
}

}  // namespace
}  // namespace skep::model
