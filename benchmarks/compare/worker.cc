// compare_worker: this project's side of benchmarks/compare, kept alive and told what to do.
//
// Reads one command a line and answers each with one line of JSON; {"error": ...} if it failed.
//   about                     processor, variants (instruction sets, the widest first)
//   make CASE BATCH FOLDER    writes the case for all sides; parameters and counted work
//   open VARIANT FOLDER       the case made last, from its initial weights
//   reset VARIANT             initial weights and the first batch again
//   run VARIANT STEPS         seconds of CPU and wall time, and the last loss
//   weights VARIANT PATH      writes the weights, tensors in layout order
//   ceilings VARIANT BYTES    fused multiply-adds in registers; reading memory of that size
//   close VARIANT
// The peers' workers (peer_worker.py) answer the same commands but make and ceilings. One thread.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/compare/training_case.h"
#include "benchmarks/fma_loop.h"
#include "benchmarks/measure.h"
#include "benchmarks/read_loop.h"
#include "kernels/nn/network.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::bench {
namespace {

constexpr int kBadCommand = 1102;

// One model in training, with the gathering of its batches.
class Training {
 public:
  Training(std::shared_ptr<const TrainingCase> training, kernels::Isa isa)
      : case_(std::move(training)),
        params_(case_->initial),
        network_(case_->spec, case_->batch, isa),
        x_(case_->batch * case_->spec.input_values()),
        labels_(case_->batch * case_->spec.positions()) {}

  void Reset() {
    params_ = case_->initial;
    step_ = 0;
    network_.BeginTask();
  }
  double Step() {
    Gather();
    step_ = step_ + 1 == case_->Steps() ? 0 : step_ + 1;
    return network_.TrainStep(params_.values(), {x_.data(), labels_.data(), case_->batch},
                              {.learning_rate = case_->learning_rate});
  }
  [[nodiscard]] const model::Params& params() const { return params_; }

 private:
  void Gather() {
    const std::size_t values = case_->spec.input_values();
    const std::size_t positions = case_->spec.positions();
    for (std::size_t row = 0; row < case_->batch; ++row) {
      const std::size_t example = case_->order[step_ * case_->batch + row];
      std::copy_n(&case_->x[example * values], values, &x_[row * values]);
      std::copy_n(&case_->labels[example * positions], positions, &labels_[row * positions]);
    }
  }

  std::shared_ptr<const TrainingCase> case_;
  model::Params params_;
  kernels::Network network_;
  model::FloatVector x_;
  std::vector<std::int32_t> labels_;
  std::size_t step_ = 0;
};

class Worker {
 public:
  // The answer to one command.
  Result<std::string> Do(std::istringstream& line) {
    std::string command;
    line >> command;
    if (command == "about") return About();
    if (command == "make") return Make(line);
    std::string variant;
    line >> variant;
    SKEP_ASSIGN(const kernels::Isa isa, kernels::ParseIsa(variant));
    if (command == "open") return Open(isa);
    if (command == "ceilings") return Ceilings(isa, line);
    const auto training = trainings_.find(isa);
    if (training == trainings_.end()) return Error{kBadCommand, "not open: " + variant, "open it"};
    if (command == "close") {
      trainings_.erase(training);
      return std::string("{}");
    }
    return Use(training->second, command, line);
  }

 private:
  static std::string About() {
    std::vector<std::string> variants;
    for (const kernels::Isa isa : kernels::AvailableIsas()) {
      variants.insert(variants.begin(), fmt::format("\"{}\"", kernels::IsaName(isa)));
    }
    return fmt::format("{{\"processor\": \"{}\", \"compiler\": \"{}\", \"variants\": [{}]}}",
                       ProcessorName(), "g++ " __VERSION__, fmt::join(variants, ", "));
  }
  Result<std::string> Make(std::istringstream& line) {
    std::string name;
    std::string folder;
    std::size_t batch = 0;
    line >> name >> batch >> std::ws;
    std::getline(line, folder);
    SKEP_ASSIGN(auto training, MakeTrainingCase(name, batch));
    SKEP_TRY(WriteTrainingCase(training, folder));
    const StepWork work = CountStep(training.spec, batch);
    const std::uint64_t parameters = training.spec.layout()->values();
    case_ = std::make_shared<const TrainingCase>(std::move(training));
    return fmt::format("{{\"parameters\": {}, \"flops\": {}, \"weight_bytes\": {}}}", parameters,
                       work.flops, work.weight_bytes);
  }
  Result<std::string> Open(kernels::Isa isa) {
    if (case_ == nullptr) return Error{kBadCommand, "no case was made", "make one"};
    trainings_.erase(isa);
    trainings_.try_emplace(isa, case_, isa);
    return std::string("{}");
  }
  static Result<std::string> Use(Training& training, const std::string& command,
                                 std::istringstream& line) {
    if (command == "reset") {
      training.Reset();
      return std::string("{}");
    }
    if (command == "run") {
      std::size_t steps = 0;
      line >> steps;
      double loss = 0;
      const SteadyTime wall = ReadClock().steady;
      const Nanoseconds cpu = ProcessCpuTime();
      for (std::size_t i = 0; i < steps; ++i) loss = training.Step();
      return fmt::format("{{\"cpu\": {}, \"wall\": {}, \"loss\": {}}}",
                         Seconds(ProcessCpuTime() - cpu), Seconds(ReadClock().steady - wall), loss);
    }
    if (command == "weights") {
      std::string path;
      std::getline(line >> std::ws, path);
      SKEP_TRY(WriteFileAtomically(path, AsBytes(training.params().values())));
      return std::string("{}");
    }
    return Error{kBadCommand, "unknown command: " + command, ""};
  }
  static Result<std::string> Ceilings(kernels::Isa isa, std::istringstream& line) {
    constexpr std::size_t kRepeats = 15;
    constexpr std::size_t kFmaSteps = 1'000'000;
    constexpr double kReadBytes = 1e8;
    std::size_t bytes = 0;
    line >> bytes;
    float sink = 0;
    const FmaLoop fma = FmaLoopFor(isa);
    const double fma_us = Measure([&] { sink += fma.run(kFmaSteps); }, 1, kRepeats).cpu_us;
    const ReadLoop read = ReadLoopFor(isa);
    const model::FloatVector values(std::max<std::size_t>(bytes / sizeof(float), 1024), 1.0F);
    const double size = static_cast<double>(values.size() * sizeof(float));
    const auto calls = static_cast<std::size_t>(kReadBytes / size) + 1;
    const double read_us =
        Measure([&] { sink += read(values.data(), values.size()); }, calls, kRepeats).cpu_us;
    return fmt::format("{{\"gflops\": {}, \"gbytes\": {}, \"sum\": {}}}",
                       fma.flops_per_step * kFmaSteps * 1e-3 / fma_us, size * 1e-3 / read_us, sink);
  }

  std::shared_ptr<const TrainingCase> case_;
  std::map<kernels::Isa, Training> trainings_;
};

int Run() {
  Worker worker;
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    const auto answer = worker.Do(line);
    // Messages hold no quotation marks but those around names.
    std::string failure = answer.has_value() ? "" : answer.error().message;
    std::replace(failure.begin(), failure.end(), '"', '\'');
    fmt::print("{}\n",
               answer.has_value() ? answer.value() : fmt::format("{{\"error\": \"{}\"}}", failure));
    if (std::fflush(stdout) != 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace skep::bench

int main() {
  return skep::bench::Run();
}
