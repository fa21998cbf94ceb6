// Convolutions, each pass by itself, and whole steps of the FedAvg CNN.
//
//   conv_benchmark [--isa auto|portable|avx2|avx512] [--repeats N]
//
// FLOPs are counted, not measured: a multiply and an add for each weight at each place. The ceiling
// beside them is a loop of fused multiply-adds that touches no memory, at the registers' width of
// the set. Times are medians of CPU time of one thread.
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
#include "shared/base/rng.h"

namespace skep::bench {
namespace {

struct Options {
  kernels::Isa isa = kernels::DetectIsa();
  std::size_t repeats = 15;
};

std::vector<float> RandomFloats(std::size_t count, double low, double high) {
  RandomStream stream(1, {.purpose = Purpose::kSyntheticData});
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(low + (high - low) * stream.Uniform());
  }
  return values;
}

struct Workload {
  std::vector<std::uint32_t> input;  // channels, height, width
  std::string line;
};

// Runs that take about ten milliseconds.
std::size_t CallsFor(double flops) {
  return static_cast<std::size_t>(1e9 / flops) + 1;
}

class ConvRun {
 public:
  ConvRun(const Workload& load, const Options& options)
      : spec_(model::ModelSpec::Parse(load.input, {load.line}).value()) {
    std::size_t index = 0;
    while (!std::holds_alternative<model::ConvLayer>(spec_.layers()[index])) ++index;
    const model::Layer& layer = spec_.layers()[index];
    conv_ = std::get<model::ConvLayer>(layer);
    layer_ = kernels::MakeLayer(layer, {.isa = options.isa,
                                        .layout = *spec_.layout(),
                                        .training_rows = kRows,
                                        .capacity = kRows,
                                        .rectify = true});
    params_ = RandomFloats(spec_.layout()->values(), -0.1, 0.1);
    gradient_ = params_;
    x_ = RandomFloats(kRows * conv_.in.Values(), -1, 1);
    dx_ = x_;
    y_.resize(kRows * conv_.out.Values());
    dy_ = RandomFloats(y_.size(), -1, 1);
  }

  // Of one pass.
  [[nodiscard]] double Flops() const {
    const std::uint32_t group_inputs = conv_.in.channels / conv_.groups;
    return 2.0 * kRows * conv_.out.Values() * group_inputs * conv_.kernel_height *
           conv_.kernel_width;
  }
  void Forward() {
    layer_->Forward(MakePass(), {x_.data(), conv_.in.Values()}, {y_.data(), conv_.out.Values()});
  }
  void Backward(bool has_input_gradient) {
    layer_->Backward(MakePass(),
                     {.x = {x_.data(), conv_.in.Values()},
                      .y = {y_.data(), conv_.out.Values()},
                      .dy = {dy_.data(), conv_.out.Values()},
                      .dx = {has_input_gradient ? dx_.data() : nullptr, conv_.in.Values()},
                      .x_is_rectified = true},
                     {.values = gradient_, .accumulate = true, .scale = 1e-9F});
  }

 private:
  static constexpr std::size_t kRows = 10;
  [[nodiscard]] kernels::Pass MakePass() const {
    return {.params = params_, .rows = kRows, .is_training = true, .step_key = 0};
  }

  model::ModelSpec spec_;
  model::ConvLayer conv_;
  std::unique_ptr<kernels::Layer> layer_;
  std::vector<float> params_;
  std::vector<float> gradient_;
  std::vector<float> x_;
  std::vector<float> dx_;
  std::vector<float> y_;
  std::vector<float> dy_;
};

void MeasureConv(const Workload& load, const Options& options) {
  ConvRun run(load, options);
  const double flops = run.Flops();
  const std::size_t calls = CallsFor(flops);
  const double forward = Measure([&] { run.Forward(); }, calls, options.repeats).cpu_us;
  const double weight = Measure([&] { run.Backward(false); }, calls, options.repeats).cpu_us;
  const double both = Measure([&] { run.Backward(true); }, calls, options.repeats).cpu_us;
  const auto rate = [&](double us) { return flops * 1e-3 / std::max(us, 1e-3); };
  fmt::print(
      "{:>3} x {:>2} x {:>2}  {:34} {:7.1f} MFLOP  forward {:8.1f} us {:6.1f} GFLOP/s  "
      "input {:8.1f} us {:6.1f}  weight {:8.1f} us {:6.1f}\n",
      load.input[0], load.input[1], load.input[2], load.line, flops * 1e-6, forward, rate(forward),
      both - weight, rate(both - weight), weight, rate(weight));
}

void MeasureFedAvgCnn(std::size_t batch, const Options& options) {
  const auto lines =
      model::PresetLines("fedavg-cnn", {.input = {1, 28, 28}, .classes = 10, .hidden = {}}).value();
  const auto spec = model::ModelSpec::Parse({1, 28, 28}, lines).value();
  model::Params params = model::InitialParams(spec, model::Initialiser::kFanIn, 1);
  const std::vector<float> x = RandomFloats(batch * 784, 0, 1);
  std::vector<std::int32_t> labels(batch);
  for (std::size_t i = 0; i < batch; ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  kernels::Network network(spec, batch, options.isa);
  double sum = 0;
  const Side step = Measure(
      [&] {
        sum += network.TrainStep(params.values(), {x.data(), labels.data(), batch},
                                 {.learning_rate = 1e-3F});
      },
      100 / batch + 1, options.repeats);
  if (sum < 0) std::abort();
  const double flops = 72.4e6 * static_cast<double>(batch);
  fmt::print("fedavg-cnn step, B {:2}: {:8.2f} ms   {:6.1f} GFLOP/s\n", batch, step.cpu_us * 1e-3,
             flops * 1e-3 / step.cpu_us);
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
      fmt::print(stderr, "usage: conv_benchmark [--isa auto|portable|avx2|avx512] [--repeats N]\n");
      return 2;
    }
  }
  const FmaLoop peak = FmaLoopFor(options.isa);
  constexpr std::size_t kSteps = 1'000'000;
  float sink = 0;
  const double us = Measure([&] { sink += peak.run(kSteps); }, 1, options.repeats).cpu_us;
  fmt::print("{}, isa {}, peak {:.1f} GFLOP/s\n", ProcessorName(), kernels::IsaName(options.isa),
             peak.flops_per_step * kSteps * 1e-3 / us);
  if (sink < 0) std::abort();
  for (const Workload& load :
       {Workload{{1, 28, 28}, "conv 32 5x5 same"}, Workload{{32, 14, 14}, "conv 64 5x5 same"},
        Workload{{3, 32, 32}, "conv 32 3x3"}, Workload{{32, 30, 30}, "conv 64 3x3"},
        Workload{{16, 32, 32}, "conv 16 3x3 same"}, Workload{{32, 16, 16}, "conv 32 3x3 same"},
        Workload{{64, 8, 8}, "conv 64 3x3 same"},
        Workload{{16, 32, 32}, "conv 32 3x3 same stride 2"}, Workload{{64, 16, 16}, "conv 128 1x1"},
        Workload{{64, 16, 16}, "conv 64 3x3 same groups 64"},
        Workload{{6, 12, 12}, "conv 16 5x5"}}) {
    MeasureConv(load, options);
  }
  for (const std::size_t batch : {10U, 32U, 50U}) MeasureFedAvgCnn(batch, options);
  return 0;
}

}  // namespace
}  // namespace skep::bench

int main(int argc, char** argv) {
  return skep::bench::Run(argc, argv);
}
