// Whole steps of the char-lstm, its layers pass by pass, and the products that they are made of.
//
//   sequence_benchmark [--isa auto|portable|avx2|avx512] [--repeats N]
//
// FLOPs are counted, not measured: a multiply and an add for each weight at each place, forward,
// and for the gradients of weights and input. The ceiling beside them is a loop of fused
// multiply-adds that touches no memory. Times are medians of CPU time of one thread.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/fma_loop.h"
#include "benchmarks/measure.h"
#include "kernels/nn/layer.h"
#include "kernels/nn/network.h"
#include "kernels/sequence_loops.h"
#include "shared/base/rng.h"

namespace skep::bench {
namespace {

constexpr std::uint32_t kLength = 80;
constexpr std::uint32_t kSymbols = 65;
constexpr std::uint32_t kHidden = 256;

struct Options {
  kernels::Isa isa = kernels::DetectIsa();
  std::size_t repeats = 15;
};

std::vector<float> RandomFloats(std::size_t count, double scale) {
  RandomStream stream(1, {.purpose = Purpose::kSyntheticData});
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(scale * (2 * stream.Uniform() - 1));
  return values;
}

std::vector<std::int32_t> RandomSymbols(std::size_t count) {
  RandomStream stream(2, {.purpose = Purpose::kSyntheticData});
  std::vector<std::int32_t> symbols(count);
  for (std::int32_t& symbol : symbols) symbol = static_cast<std::int32_t>(stream.Below(kSymbols));
  return symbols;
}

// One layer of a model over sequences, by itself.
class LayerRun {
 public:
  LayerRun(std::uint32_t inputs, const std::string& line, std::size_t rows, const Options& options)
      : spec_(model::ModelSpec::Parse({kLength, inputs}, {line}).value()),
        rows_(rows),
        inputs_(std::size_t{kLength} * inputs),
        outputs_(spec_.shapes().back().Values()),
        layer_(kernels::MakeLayer(spec_.layers().front(), {.isa = options.isa,
                                                           .layout = *spec_.layout(),
                                                           .training_rows = rows,
                                                           .capacity = rows})),
        params_(RandomFloats(spec_.layout()->values(), 0.1)),
        gradient_(params_),
        x_(RandomFloats(rows * inputs_, 1)),
        dx_(x_),
        y_(rows * outputs_),
        dy_(RandomFloats(y_.size(), 1)) {}

  // Of a forward pass; a backward pass has twice as many with the gradient of the input.
  [[nodiscard]] double Flops() const {
    double weights = 0;
    for (const model::TensorSpec& tensor : spec_.layout()->tensors()) {
      if (tensor.shape.size() == 2) weights += static_cast<double>(tensor.Count());
    }
    return 2 * weights * static_cast<double>(rows_) * kLength;
  }
  void Forward() { layer_->Forward(MakePass(), {x_.data(), inputs_}, {y_.data(), outputs_}); }
  void Backward() {
    layer_->Backward(MakePass(),
                     {.x = {x_.data(), inputs_},
                      .y = {y_.data(), outputs_},
                      .dy = {dy_.data(), outputs_},
                      .dx = {dx_.data(), inputs_},
                      .x_is_rectified = false},
                     {.values = gradient_, .accumulate = true, .scale = 1e-9F});
  }

 private:
  [[nodiscard]] kernels::Pass MakePass() const {
    return {.params = params_, .rows = rows_, .is_training = true, .step_key = 0};
  }

  model::ModelSpec spec_;
  std::size_t rows_;
  std::size_t inputs_;
  std::size_t outputs_;
  std::unique_ptr<kernels::Layer> layer_;
  std::vector<float> params_;
  std::vector<float> gradient_;
  std::vector<float> x_;
  std::vector<float> dx_;
  std::vector<float> y_;
  std::vector<float> dy_;
};

void PrintLine(const std::string& what, double us, double flops, double peak) {
  const double rate = flops * 1e-3 / us;
  fmt::print("  {:34} {:9.3f} ms  {:8.1f} MFLOP  {:6.1f} GFLOP/s  {:3.0f} % of peak\n", what,
             us * 1e-3, flops * 1e-6, rate, 100 * rate / peak);
}

// Microseconds of both passes.
double MeasureLayer(std::uint32_t inputs, const std::string& line, std::size_t rows,
                    const Options& options, double peak) {
  LayerRun run(inputs, line, rows, options);
  const std::size_t calls = 100 / rows + 1;
  const double forward = Measure([&] { run.Forward(); }, calls, options.repeats).cpu_us;
  const double backward = Measure([&] { run.Backward(); }, calls, options.repeats).cpu_us;
  PrintLine(fmt::format("{} of {} forward", line, inputs), forward, run.Flops(), peak);
  PrintLine(fmt::format("{} of {} backward", line, inputs), backward, 2 * run.Flops(), peak);
  return forward + backward;
}

// The product of one step with a recurrent matrix, which is read from beyond the first-level cache.
void MeasureProduct(std::size_t rows, std::size_t depth, std::size_t columns,
                    const Options& options, double peak) {
  std::vector<float> panels = RandomFloats(kernels::PanelFloats(depth, columns), 1);
  const std::vector<float> a = RandomFloats(rows * depth, 1);
  std::vector<float> result(rows * columns);
  const kernels::PanelProduct product{.a = a.data(),
                                      .a_row = depth,
                                      .rows = rows,
                                      .panels = panels.data(),
                                      .panel_depth = depth,
                                      .panel_columns = columns,
                                      .depth = depth,
                                      .columns = columns,
                                      .bias = nullptr,
                                      .result = result.data(),
                                      .result_row = columns,
                                      .adds = false};
  const auto& loops = kernels::SequenceLoopsFor(options.isa);
  const double us =
      Measure([&] { loops.panel_product(product); }, 1000 / rows, options.repeats).cpu_us;
  PrintLine(fmt::format("product {} x {} x {}", rows, depth, columns), us,
            2.0 * static_cast<double>(rows * depth * columns), peak);
}

void MeasureBatch(std::size_t rows, const Options& options, double peak) {
  const auto lines =
      model::PresetLines("char-lstm", {.input = {kLength}, .classes = kSymbols, .hidden = {}})
          .value();
  const auto spec = model::ModelSpec::Parse({kLength}, lines).value();
  model::Params params = model::InitialParams(spec, model::Initialiser::kFanIn, 1);
  const std::vector<std::int32_t> labels = RandomSymbols(rows * kLength);
  const std::vector<float> x(labels.begin(), labels.end());
  kernels::Network network(spec, rows, options.isa);
  double sum = 0;
  const double step = Measure(
                          [&] {
                            sum +=
                                network.TrainStep(params.values(), {x.data(), labels.data(), rows},
                                                  {.learning_rate = 1e-3F});
                          },
                          50 / rows, options.repeats)
                          .cpu_us;
  if (sum < 0) std::abort();
  // The gradient of the embedded symbols is asked for; the embedding itself multiplies nothing.
  const double weights = 4.0 * kHidden * (8 + 3 * kHidden) + kSymbols * kHidden;
  fmt::print("char-lstm, B {}\n", rows);
  PrintLine("whole step", step, 6 * weights * static_cast<double>(rows) * kLength, peak);
  double layers = MeasureLayer(8, "lstm 256", rows, options, peak);
  layers += MeasureLayer(kHidden, "lstm 256", rows, options, peak);
  layers += MeasureLayer(kHidden, "dense 65", rows, options, peak);
  fmt::print("  {:34} {:9.3f} ms\n", "embedding, loss and the rest", (step - layers) * 1e-3);
  MeasureProduct(rows, kHidden, std::size_t{4} * kHidden, options, peak);
  MeasureProduct(rows, std::size_t{4} * kHidden, kHidden, options, peak);
}

int Run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string value = i + 1 < argc ? argv[++i] : "";
    if (argument == "--isa" && kernels::ParseIsa(value).has_value()) {
      options.isa = kernels::ParseIsa(value).value();
    } else if (argument == "--repeats" && std::atoi(value.c_str()) > 0) {
      options.repeats = static_cast<std::size_t>(std::atoi(value.c_str()));
    } else {
      fmt::print(stderr,
                 "usage: sequence_benchmark [--isa auto|portable|avx2|avx512] [--repeats N]\n");
      return 2;
    }
  }
  const FmaLoop loop = FmaLoopFor(options.isa);
  constexpr std::size_t kSteps = 1'000'000;
  float sink = 0;
  const double us = Measure([&] { sink += loop.run(kSteps); }, 1, options.repeats).cpu_us;
  if (sink < 0) std::abort();
  const double peak = loop.flops_per_step * kSteps * 1e-3 / us;
  fmt::print("{}, isa {}, peak {:.1f} GFLOP/s\n", ProcessorName(), kernels::IsaName(options.isa),
             peak);
  for (const std::size_t rows : {10U, 50U}) MeasureBatch(rows, options, peak);
  return 0;
}

}  // namespace
}  // namespace skep::bench

int main(int argc, char** argv) {
  return skep::bench::Run(argc, argv);
}
