// SGD steps of this project against a bare Eigen loop with fused update, and the loops over
// vectors.
//
//   step_benchmark [--json] [--isa auto|portable|avx2|avx512] [--pairs N]
//
// Both sides train on the same batches from the same weights, one thread, in interleaved pairs;
// their weights are compared afterwards, so that the work is known to be equal. FLOPs and bytes are
// counted, not measured.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include "benchmarks/eigen_loop.h"
#include "benchmarks/measure.h"
#include "kernels/fixed_point.h"
#include "kernels/nn/network.h"
#include "kernels/vector_ops.h"
#include "shared/base/rng.h"

namespace skep::bench {
namespace {

constexpr std::size_t kExamples = 600;  // one client's share of 60,000
constexpr float kRate = 0.01F;

struct Options {
  bool is_json = false;
  kernels::Isa isa = kernels::DetectIsa();
  std::size_t pairs = 15;
};

struct Workload {
  std::string name;
  std::vector<std::size_t> widths;
  std::size_t batch;
};

struct Work {
  double flops;
  double bytes;  // of weights, read or written, if each pass reads them once
};

Work Count(const Workload& load) {
  Work work{0, 0};
  for (std::size_t i = 0; i + 1 < load.widths.size(); ++i) {
    const double weights = static_cast<double>(load.widths[i] * load.widths[i + 1]);
    // Forward, gradient of the weights and, above the first layer, of the input: a multiply and an
    // add each.
    work.flops += (i == 0 ? 4.0 : 6.0) * weights * static_cast<double>(load.batch);
    // Read forward, read and written by the update, read for the gradient of the input.
    work.bytes += (i == 0 ? 3.0 : 4.0) * 4 * weights;
  }
  return work;
}

struct Data {
  std::vector<float> x;
  std::vector<std::int32_t> y;
};

Data MakeData(std::size_t values) {
  RandomStream stream(1, {.purpose = Purpose::kSyntheticData});
  Data data{std::vector<float>(kExamples * values), std::vector<std::int32_t>(kExamples)};
  for (float& value : data.x) value = static_cast<float>(std::max(0.0, stream.Uniform() - 0.5));
  for (std::int32_t& label : data.y) label = static_cast<std::int32_t>(stream.Below(10));
  return data;
}

model::ModelSpec SpecOf(const Workload& load) {
  std::vector<std::string> lines;
  for (std::size_t i = 1; i < load.widths.size(); ++i) {
    if (i > 1) lines.push_back("relu");
    lines.push_back("dense " + std::to_string(load.widths[i]));
  }
  return model::ModelSpec::Parse({static_cast<std::uint32_t>(load.widths[0])}, lines).value();
}

const EigenLoop& EigenLoopFor(kernels::Isa isa) {
#ifdef SKEP_X86_KERNELS
  if (isa == kernels::Isa::kAvx2) return kEigenAvx2;
  if (isa == kernels::Isa::kAvx512) return kEigenAvx512;
#endif
  static_cast<void>(isa);
  return kEigenPortable;
}

struct StepResult {
  Comparison time;
  Work work;
  double largest_difference;  // between the weights of the two sides after 20 steps
};

StepResult CompareSteps(const Workload& load, const Options& options) {
  const model::ModelSpec spec = SpecOf(load);
  const Data data = MakeData(load.widths[0]);
  const model::Params initial = model::InitialParams(spec, model::Initialiser::kFanIn, 1);
  model::Params ours = initial;
  model::Params theirs = initial;
  kernels::Network network(spec, load.batch, options.isa);
  const EigenLoop& eigen = EigenLoopFor(options.isa);
  void* workspace = eigen.make(load.widths.data(), load.widths.size(), load.batch);

  std::size_t our_row = 0;
  std::size_t their_row = 0;
  const auto next = [&](std::size_t& row) {
    const std::size_t at = row;
    row = row + 2 * load.batch <= kExamples ? row + load.batch : 0;
    return at;
  };
  const auto our_step = [&] {
    const std::size_t row = next(our_row);
    network.TrainStep(ours.values(), {&data.x[row * load.widths[0]], &data.y[row], load.batch},
                      {.learning_rate = kRate});
  };
  const auto their_step = [&] {
    const std::size_t row = next(their_row);
    eigen.step(workspace, theirs.values().data(), &data.x[row * load.widths[0]], &data.y[row],
               load.batch, kRate);
  };
  StepResult result{{}, Count(load), 0};
  for (int i = 0; i < 20; ++i) {
    our_step();
    their_step();
  }
  for (std::size_t i = 0; i < ours.values().size(); ++i) {
    const double difference = std::abs(static_cast<double>(ours.values()[i] - theirs.values()[i]));
    result.largest_difference = std::max(result.largest_difference, difference);
  }
  const auto calls = static_cast<std::size_t>(1e9 / result.work.flops) + 20;
  result.time = ComparePairs(our_step, their_step, calls, options.pairs);
  eigen.free(workspace);
  return result;
}

void PrintStep(const Workload& load, const StepResult& r, const Options& options) {
  const double gflops = r.work.flops / r.time.a.cpu_us * 1e-3;
  if (options.is_json) {
    fmt::print(
        "{{\"step\":\"{}\",\"batch\":{},\"isa\":\"{}\",\"ratio\":{:.4f},\"smallest\":{:.4f},"
        "\"largest\":{:.4f},"
        "\"cpu_us\":{:.3f},\"wall_us\":{:.3f},\"eigen_cpu_us\":{:.3f},\"eigen_wall_us\":{:.3f},"
        "\"gflops\":{:.2f},"
        "\"flops\":{:.0f},\"weight_bytes\":{:.0f},\"largest_difference\":{:.3g}}}\n",
        load.name, load.batch, kernels::IsaName(options.isa), r.time.median_ratio,
        r.time.smallest_ratio, r.time.largest_ratio, r.time.a.cpu_us, r.time.a.wall_us,
        r.time.b.cpu_us, r.time.b.wall_us, gflops, r.work.flops, r.work.bytes,
        r.largest_difference);
    return;
  }
  fmt::print(
      "{:8} B {:3}  {:8.2f} us ({:8.2f} wall)   Eigen {:8.2f} us   ratio {:.3f} ({:.3f} to {:.3f}) "
      "  {:6.1f} "
      "GFLOP/s, {:.3f} MFLOP, {:.2f} MB of weights   differ by {:.1e}\n",
      load.name, load.batch, r.time.a.cpu_us, r.time.a.wall_us, r.time.b.cpu_us,
      r.time.median_ratio, r.time.smallest_ratio, r.time.largest_ratio, gflops, r.work.flops * 1e-6,
      r.work.bytes * 1e-6, r.largest_difference);
}

struct VectorResult {
  std::string name;
  std::size_t values;
  double bytes_per_value;
  Side time;
};

void PrintVector(const VectorResult& r, const Options& options) {
  const double values = static_cast<double>(r.values);
  const double ns = r.time.cpu_us * 1e3 / values;
  const double rate = r.bytes_per_value / ns;
  fmt::print(
      fmt::runtime(
          options.is_json
              ? "{{\"loop\":\"{}\",\"values\":{},\"ns_per_value\":{:.4f},\"gb_per_s\":{:.2f}}}\n"
              : "{:12} {:9} values   {:7.3f} ns per value   {:6.1f} GB/s\n"),
      r.name, r.values, ns, rate);
}

void MeasureVectors(std::size_t size, const Options& options) {
  const std::vector<float> update(size, 0.001F);
  const std::vector<float> received(size, 0.5F);
  std::vector<float> out(size);
  kernels::ExactSum sum(size, 23);
  kernels::ExactSum other(size, 23);
  other.Add(update, 2.0);
  const std::size_t calls = 200'000'000 / size / 10 + 1;
  double norm = 0;
  const auto measure = [&](const std::string& name, double bytes,
                           const std::function<void()>& run) {
    PrintVector({name, size, bytes, Measure(run, calls, options.pairs)}, options);
  };
  measure("add", 20, [&] { sum.Add(update, 1.0); });
  measure("merge", 24, [&] { sum.Merge(other); });
  measure("step", 16, [&] { sum.Step(received, 1.0, out); });
  measure("norm", 4, [&] { norm += kernels::MeasureUpdate(update).l2; });
  measure("difference", 12, [&] { kernels::Difference(update, received, out); });
  if (norm < 0) std::abort();
}

int Run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (argument == "--json") {
      options.is_json = true;
    } else if (argument == "--isa" && kernels::ParseIsa(value).has_value()) {
      options.isa = kernels::ParseIsa(value).value();
      ++i;
    } else if (argument == "--pairs" && std::atoi(value.c_str()) > 0) {
      options.pairs = static_cast<std::size_t>(std::atoi(value.c_str()));
      ++i;
    } else {
      fmt::print(stderr,
                 "usage: step_benchmark [--json] [--isa auto|portable|avx2|avx512] [--pairs N]\n");
      return 2;
    }
  }
  if (!options.is_json) fmt::print("{}, isa {}\n", ProcessorName(), kernels::IsaName(options.isa));
  const std::vector<std::size_t> softmax{784, 10};
  const std::vector<std::size_t> two_hidden{784, 200, 200, 10};
  for (const Workload& load : {Workload{"softmax", softmax, 10}, Workload{"softmax", softmax, 50},
                               Workload{"2nn", two_hidden, 10}, Workload{"2nn", two_hidden, 50}}) {
    PrintStep(load, CompareSteps(load, options), options);
  }
  for (const std::size_t size : std::initializer_list<std::size_t>{7'850, 199'210, 1'663'370})
    MeasureVectors(size, options);
  return 0;
}

}  // namespace
}  // namespace skep::bench

int main(int argc, char** argv) {
  return skep::bench::Run(argc, argv);
}
