// Whole simulated rounds: what the engine costs per client task, what work over the parameters
// costs per value, and how two workers compare with one.
//
//   simulation_benchmark [--pairs N]
//
// The data are random images; only the amount of work matters. The engine's own cost is what a task
// of a model of 20 values with one example costs the simulation's thread: nothing else is left of
// it. Two workers and one are run in interleaved pairs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "aggregator/inspector.h"
#include "benchmarks/measure.h"
#include "kernels/fixed_point.h"
#include "kernels/vector_ops.h"
#include "shared/base/check.h"
#include "shared/base/rng.h"
#include "shared/base/sha256.h"
#include "simulator/plan.h"
#include "simulator/simulation.h"

namespace skep::bench {
namespace {

using simulator::Plan;

class NoCheckpoints final : public simulator::CheckpointWriter {
 public:
  Status Write(const simulator::RoundState&) override { return Ok(); }
};

struct Shape {
  std::string architecture;
  std::uint32_t inputs = 0;
  std::uint32_t clients = 0;
  std::uint32_t examples_per_client = 0;
  std::uint32_t cohort = 0;
  std::uint32_t rounds = 0;
};

std::shared_ptr<const data::Dataset> RandomImages(std::uint32_t inputs, std::uint32_t rows) {
  auto images = std::make_shared<data::Dataset>();
  images->input_shape = {inputs};
  images->rows = rows;
  images->values = inputs;
  images->byte_scale = 255;
  RandomStream stream(1, {.purpose = Purpose::kSyntheticData});
  images->bytes.resize(std::size_t{rows} * inputs);
  for (std::uint8_t& byte : images->bytes) byte = static_cast<std::uint8_t>(stream.Word());
  images->labels.resize(rows);
  for (std::int32_t& label : images->labels) label = static_cast<std::int32_t>(stream.Below(10));
  return images;
}

Plan MakeBenchmarkPlan(const Shape& shape) {
  const std::string text = fmt::format(
      "schema = 1\n[data]\nnum_clients = {}\npartition = \"iid\"\n"
      "[model]\narchitecture = \"{}\"\n"
      "[training]\nrounds = {}\nclients_per_round = {}\neval_every = 0\nclient_eval_every = 0\n"
      "[client]\nbatch_size = 10\nlearning_rate = 0.01\n",
      shape.clients, shape.architecture, shape.rounds, shape.cohort);
  simulator::Prepared prepared{
      .loaded = config::ParseExperiment(text, "benchmark.toml", {}).value(),
      .data = {},
      .partition = {},
      .labels = {}};
  prepared.data.train = RandomImages(shape.inputs, shape.clients * shape.examples_per_client);
  data::Feature image;
  image.name = "x";
  image.scale = 255;
  prepared.data.spec.features = {image};
  for (int digit = 0; digit < 10; ++digit) {
    prepared.data.spec.classes.push_back(std::to_string(digit));
  }
  data::PartitionOptions options;
  options.rule = "iid";
  options.num_clients = shape.clients;
  prepared.partition = data::Split(*prepared.data.train, 10, options).value();
  config::DataFacts facts;
  facts.rows = prepared.data.train->rows;
  facts.classes = 10;
  facts.input = {shape.inputs};
  const auto problems = config::FinishExperiment(prepared.loaded, facts);
  SKEP_CHECK(problems.empty());
  RunId run;
  run.bytes[0] = 1;
  return simulator::MakePlan(std::move(prepared), run).value();
}

struct Cost {
  double wall_s = 0;
  double main_cpu_s = 0;  // of the simulation's thread
  double cpu_s = 0;       // of all threads
};

Cost RunOnce(const Plan& plan, std::size_t jobs) {
  simulator::SimulationSetup setup = simulator::MakeSetup(plan);
  setup.jobs = jobs;
  simulator::Recorder recorder;
  NoCheckpoints checkpoints;
  const simulator::StopRequest stop{simulator::StopLevel::kNone};
  simulator::Simulation simulation(std::move(setup), recorder, checkpoints, stop);
  const SteadyTime wall = ReadClock().steady;
  const Nanoseconds thread = ThreadCpuTime();
  const Nanoseconds process = ProcessCpuTime();
  const simulator::RunEnd end = simulation.Run(nullptr);
  SKEP_CHECK(end.exit_code == 0);
  return {.wall_s = Seconds(ReadClock().steady - wall),
          .main_cpu_s = Seconds(ThreadCpuTime() - thread),
          .cpu_s = Seconds(ProcessCpuTime() - process)};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void ReportEngineCost(std::size_t repeats) {
  const Shape shape{.architecture = "softmax",
                    .inputs = 1,
                    .clients = 1000,
                    .examples_per_client = 1,
                    .cohort = 100,
                    .rounds = 100};
  const Plan plan = MakeBenchmarkPlan(shape);
  const double tasks = static_cast<double>(shape.cohort) * shape.rounds;
  std::vector<double> main_us;
  std::vector<double> all_us;
  for (std::size_t i = 0; i < repeats; ++i) {
    const Cost cost = RunOnce(plan, 1);
    main_us.push_back(cost.main_cpu_s * 1e6 / tasks);
    all_us.push_back(cost.cpu_s * 1e6 / tasks);
  }
  fmt::print("engine's own cost per client task (softmax of 20 values, 1 example, {} tasks)\n",
             tasks);
  fmt::print("  simulation's thread  {:6.1f} us CPU   all threads {:6.1f} us CPU\n",
             Median(main_us), Median(all_us));
}

void ReportWorkPerValue() {
  constexpr std::size_t kValues = 199'210;
  const model::FloatVector update(kValues, 0.001F);
  const BytesView bytes = AsBytes(std::span<const float>(update));
  model::FloatVector difference(kValues);
  kernels::ExactSum sum(kValues, 23);
  const auto per_value = [&](const std::function<void()>& run) {
    return Measure(run, 20, 9).cpu_us * 1000 / kValues;
  };
  fmt::print("work over the parameters, ns per value ({} values)\n", kValues);
  fmt::print(
      "  difference {:.2f}   sha-256 {:.2f}   inspect {:.2f}   add to the exact sum {:.2f}\n",
      per_value([&] { kernels::Difference(update, update, difference); }),
      per_value([&] { (void)Sha256::Of(bytes); }),
      per_value([&] { (void)kernels::MeasureUpdate(update); }),
      per_value([&] { sum.Add(update, 600); }));
}

void ReportWorkers(std::size_t pairs) {
  const Shape shape{.architecture = "2nn",
                    .inputs = 784,
                    .clients = 100,
                    .examples_per_client = 600,
                    .cohort = 100,
                    .rounds = 3};
  const Plan plan = MakeBenchmarkPlan(shape);
  (void)RunOnce(plan, 1);
  std::vector<double> ratios;
  std::vector<double> one_s;
  std::vector<double> two_s;
  std::vector<double> cpu_s;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const Cost one = RunOnce(plan, 1);
    const Cost two = RunOnce(plan, 2);
    ratios.push_back(one.wall_s / two.wall_s);
    one_s.push_back(one.wall_s);
    two_s.push_back(two.wall_s);
    cpu_s.push_back(two.cpu_s / one.cpu_s);
  }
  const auto [smallest, largest] = std::minmax_element(ratios.begin(), ratios.end());
  const double smallest_ratio = *smallest;
  const double largest_ratio = *largest;
  fmt::print(
      "two workers against one (2NN, 100 IID clients of 600 a round, {} rounds, no evaluation)\n",
      shape.rounds);
  fmt::print("  wall {:.3f} s and {:.3f} s: {:.2f}x ({:.2f} to {:.2f}), CPU time {:.2f}x\n",
             Median(one_s), Median(two_s), Median(ratios), smallest_ratio, largest_ratio,
             Median(cpu_s));
}

}  // namespace
}  // namespace skep::bench

int main(int argc, char** argv) {
  std::size_t pairs = 9;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--pairs")
      pairs = static_cast<std::size_t>(std::strtoul(argv[i + 1], nullptr, 10));
  }
  if (pairs == 0) {
    fmt::print(stderr, "simulation_benchmark: --pairs takes a number of at least 1\n");
    return 2;
  }
  fmt::print("{}, {}\n", skep::bench::ProcessorName(),
             skep::kernels::IsaName(skep::kernels::DetectIsa()));
  skep::bench::ReportEngineCost(pairs);
  skep::bench::ReportWorkPerValue();
  skep::bench::ReportWorkers(pairs);
  return 0;
}
