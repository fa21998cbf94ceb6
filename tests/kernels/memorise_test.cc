// Named architectures learn a small batch by heart: forward, backward and update belong together.
#include "kernels/nn/network.h"
#include "shared/model/model_spec.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

// The loss of eight random examples after so many steps of Adam.
double LossAfter(const std::string& architecture, std::vector<std::uint32_t> input,
                 std::uint32_t classes, int steps) {
  constexpr std::size_t kRows = 8;
  const auto lines =
      model::PresetLines(architecture, {.input = input, .classes = classes, .hidden = {}}).value();
  const auto spec = model::ModelSpec::Parse(std::move(input), lines).value();
  model::Params params = model::InitialParams(spec, model::Initialiser::kFanIn, 1);
  const std::vector<float> x = test::RandomFloats(kRows * spec.input_values(), 2);
  std::vector<std::int32_t> labels(kRows);
  for (std::size_t i = 0; i < kRows; ++i) labels[i] = static_cast<std::int32_t>(i % classes);
  Network network(spec, kRows, DetectIsa());
  const Batch batch{.x = x.data(), .labels = labels.data(), .rows = kRows};
  for (int i = 0; i < steps; ++i) {
    network.TrainStep(params.values(), batch, {.learning_rate = 0.003F, .rule = Rule::kAdam});
  }
  const Evaluation found = network.Evaluate(params.values(), batch);
  return found.loss_sum / static_cast<double>(found.counted);
}

TEST_CASE("resnet8 learns a batch by heart", "[unit]") {
  CHECK(LossAfter("resnet8", {3, 32, 32}, 10, 0) > 2);
  CHECK(LossAfter("resnet8", {3, 32, 32}, 10, 200) < 0.001);
}

TEST_CASE("har-cnn learns a batch by heart", "[unit]") {
  CHECK(LossAfter("har-cnn", {128, 6}, 5, 0) > 1);
  CHECK(LossAfter("har-cnn", {128, 6}, 5, 60) < 0.001);
}

}  // namespace
}  // namespace skep::kernels
