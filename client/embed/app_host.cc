#include "client/embed/app_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "client/embed/app_source.h"
#include "kernels/cuda/loader.h"
#include "shared/base/try.h"

namespace skep::embed {
namespace {

constexpr Nanoseconds kLookEvery = std::chrono::seconds(1);
constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();

std::optional<bool> YesNo(std::int8_t state) {
  if (state < 0) return std::nullopt;
  return state != 0;
}

// The model as named tensors over `values`, which both must outlive.
class Tensors {
 public:
  Tensors(const model::Layout& layout, std::span<float> values) {
    const std::vector<model::TensorSpec>& specs = layout.tensors();
    shapes_.reserve(specs.size());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      shapes_.emplace_back(specs[i].shape.begin(), specs[i].shape.end());
      tensors_.push_back({.name = specs[i].name.c_str(),
                          .data = values.data() + layout.Offset(i),
                          .shape = shapes_[i].data(),
                          .nbytes = static_cast<std::size_t>(specs[i].Count()) * sizeof(float),
                          .dtype = SKEP_F32,
                          .rank = static_cast<std::uint32_t>(shapes_[i].size())});
    }
  }
  [[nodiscard]] std::vector<skep_tensor>& list() { return tensors_; }

 private:
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<skep_tensor> tensors_;
};

// The first tensor that holds what is no number.
const model::TensorSpec* FindNotFinite(const model::Layout& layout, std::span<const float> values) {
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const auto own = values.subspan(layout.Offset(i), layout.tensors()[i].Count());
    if (!std::all_of(own.begin(), own.end(), [](float value) { return std::isfinite(value); })) {
      return &layout.tensors()[i];
    }
  }
  return nullptr;
}

agent::OfferedTask OfferOf(const client::StartTraining& start) {
  return {.manifest = start.manifest, .client = start.client, .plan = start.wire_plan};
}

Error TooManyExamples(std::uint64_t examples) {
  return Error{7413, fmt::format("{} examples are more than a task can count", examples), ""};
}

}  // namespace

AppHost::AppHost(const Options& options, const skep_data_source& data, const skep_trainer* trainer,
                 Log& log)
    : options_(options), data_(data), log_(log) {
  if (trainer != nullptr) trainer_ = *trainer;
}

Status AppHost::ChooseDevice() {
  if (trainer_ || built_in_) return Ok();
  SKEP_ASSIGN(const kernels::DeviceChoice choice, kernels::ParseDevice(options_.device));
  SKEP_ASSIGN(kernels::ChosenDevice chosen, kernels::ChooseDevice(choice));
  agent::TrainingDevice device;
  device.is_required = choice.kind == kernels::DeviceChoice::Kind::kCuda;
  if (chosen.device != nullptr) {
    SKEP_ASSIGN(device.budget_bytes, client::DeviceBudget(*chosen.device));
  }
  device.api = std::move(chosen.device);
  if (choice.kind != kernels::DeviceChoice::Kind::kCpu) log_.Info("trains on " + chosen.said);
  UseDevice(std::move(device));
  return Ok();
}

agent::Conditions AppHost::Look() {
  const SteadyTime now = ReadClock().steady;
  if (!seen_ || now - seen_at_ >= kLookEvery) {
    seen_ = on_state_.fn == nullptr ? agent::ProbeConditions() : AskForState();
    seen_at_ = now;
  }
  return *seen_;
}

agent::Conditions AppHost::AskForState() {
  skep_device_state state{.struct_size = sizeof(skep_device_state),
                          .charging = -1,
                          .idle = -1,
                          .unmetered = -1,
                          .thermal_ok = -1,
                          .battery_level = -1,
                          .reserved = 0};
  const skep_status asked = CallApp(SKEP_E_INTERNAL, [&]() -> skep_status {
    on_state_.fn(on_state_.user, &state);
    return SKEP_OK;
  });
  if (asked != SKEP_OK) return {};
  agent::Conditions conditions{.is_charging = YesNo(state.charging),
                               .is_idle = YesNo(state.idle),
                               .is_unmetered = YesNo(state.unmetered),
                               .is_cool = YesNo(state.thermal_ok)};
  if (state.battery_level >= 0) conditions.battery = double{state.battery_level};
  // A machine without a battery meets the conditions on power, also if the application knows
  // nothing.
  conditions.has_battery =
      conditions.is_charging || conditions.battery ? true : agent::ProbeConditions().has_battery;
  return conditions;
}

Status AppHost::CheckPolicy(const wire::Manifest& manifest) const {
  const Policy& policy = options_.policy;
  if (policy.wants_privacy) {
    return Error{6203, "this device insists on privacy that the plan does not give", ""};
  }
  if (policy.wants_secure_aggregation) {
    return Error{6203, "this device insists on secure aggregation, which the plan does not have",
                 ""};
  }
  if (policy.max_weight == 0 || manifest.max_weight <= policy.max_weight) return Ok();
  return Error{6203,
               fmt::format("the run allows a weight of {}, this device at most {}",
                           manifest.max_weight, policy.max_weight),
               ""};
}

Result<std::size_t> AppHost::CountRows(const skep_task& task) {
  std::int64_t rows = 0;
  const skep_status status = CallApp(SKEP_E_DATA, [&]() -> skep_status {
    rows = data_.count(data_.user, &task);
    return SKEP_OK;
  });
  if (status == SKEP_OK && rows >= 0) return static_cast<std::size_t>(rows);
  TellFailure(task);
  const auto said =
      status != SKEP_OK
          ? status
          : static_cast<skep_status>(std::max<std::int64_t>(rows, std::numeric_limits<int>::min()));
  if (said == SKEP_E_MEMORY) return Error{7404, "no memory to read the examples", ""};
  return Error{7414, "the data source says that its data do not suit the plan",
               "skep_task_fail says why, at log level debug"};
}

// What this device cannot do it declines before anything is sent for it.
Status AppHost::CheckAbility(const agent::OfferedTask& task, const client::TrainingPlan& plan,
                             std::size_t rows) const {
  const bool is_evaluation = task.manifest.kind == wire::TaskKind::kEvaluate;
  if (trainer_) {
    if (is_evaluation && trainer_->evaluate == nullptr) {
      return Error{2219, "the application's trainer does not evaluate", ""};
    }
    return Ok();
  }
  const std::uint64_t needed = client::WorkerBytes(plan, is_evaluation ? 1 : rows);
  if (needed <= options_.caps.memory) return Ok();
  return Error{7404,
               fmt::format("training takes {} bytes of memory, the limit is {}", needed,
                           options_.caps.memory),
               "raise max_memory"};
}

Result<std::uint32_t> AppHost::Count(const agent::OfferedTask& offered) {
  SKEP_TRY(CheckPolicy(offered.manifest));
  const skep_task task(offered);
  SKEP_ASSIGN(const std::size_t rows, CountRows(task));
  if (rows > kMost) return TooManyExamples(rows);
  // A plan that cannot be read is declined by the session, which says why.
  const Result<client::TrainingPlan> plan = client::ReadTrainingPlan(*offered.plan);
  if (plan.has_value()) SKEP_TRY(CheckAbility(offered, *plan, rows));
  return static_cast<std::uint32_t>(rows);
}

agent::Worked AppHost::Work(const client::StartTraining& start, client::BatchGate& gate) {
  agent::Worked worked;
  skep_task task(OfferOf(start));
  task.gate = &gate;
  task.on_progress = [&](double fraction, double loss) {
    if (on_training_) on_training_(task, fraction, loss);
  };
  const Result<std::size_t> rows = CountRows(task);
  if (!rows.has_value()) {
    worked.update = rows.error();
    return worked;
  }
  AppSource source(data_, task, *start.plan, *rows);
  task.source = &source;
  if (trainer_) {
    WorkOwn(start, task, worked);
  } else {
    WorkBuiltIn(start, task, source, worked);
  }
  if (!worked.update.has_value()) TellFailure(task);
  return worked;
}

void AppHost::WorkBuiltIn(const client::StartTraining& start, skep_task& task, AppSource& source,
                          agent::Worked& worked) {
  worked.update =
      client::RunTaskFrom(start, source, built_in_->Get(), scratch_, task.gate, &worked.report);
  worked.device_failure = built_in_->TakeFailure();
  worked.is_device_required = built_in_->device().is_required;
}

void AppHost::WorkOwn(const client::StartTraining& start, skep_task& task, agent::Worked& worked) {
  Result<client::PendingUpdate> update = TrainOwn(start, task, worked);
  // Why the task had to end says more than what the trainer made of it.
  if (task.stopped) {
    worked.update = *task.stopped;
    return;
  }
  if (update.has_value()) client::AddMetrics(start, task.metrics, *update);
  worked.update = std::move(update);
}

Result<client::PendingUpdate> AppHost::TrainOwn(const client::StartTraining& start, skep_task& task,
                                                agent::Worked& worked) {
  const model::Layout& layout = *start.plan->model.layout();
  const std::size_t values = layout.values();
  scratch_.resize(2 * values);
  const auto trained = std::span<float>(scratch_).first(values);
  const auto received = std::span<float>(scratch_).last(values);
  SKEP_TRY(client::ReadModel(start, trained));
  std::copy(trained.begin(), trained.end(), received.begin());
  Tensors tensors(layout, trained);
  std::uint64_t examples = 0;
  const bool is_evaluation = start.manifest.kind == wire::TaskKind::kEvaluate;
  const skep_status status = CallApp(SKEP_E_TRAINER, [&] {
    std::vector<skep_tensor>& list = tensors.list();
    return is_evaluation
               ? trainer_->evaluate(trainer_->user, &task, list.data(), list.size(), &examples)
               : trainer_->train(trainer_->user, &task, list.data(), list.size(), &examples);
  });
  if (status != SKEP_OK) {
    return Error{7151, fmt::format("the trainer ended with {}", skep_status_name(status)),
                 "skep_task_fail says why, at log level debug"};
  }
  if (examples == 0) return Error{7402, "the trainer used no examples", ""};
  if (examples > kMost) return TooManyExamples(examples);
  if (const model::TensorSpec* bad = FindNotFinite(layout, trained); bad != nullptr) {
    return Error{7152, "the trainer left values that are not finite in " + bad->name, ""};
  }
  worked.report.examples = static_cast<std::uint32_t>(examples);
  worked.report.loss = std::nan("");
  if (is_evaluation) return client::MakeEvaluation(start, worked.report.examples);
  return client::MakeUpdate(start, worked.report, received, trained);
}

// The application's own words: for this device's log alone, and only where details are wanted.
void AppHost::TellFailure(const skep_task& task) {
  if (task.failure.empty()) return;
  log_.Write({.level = LogLevel::kDebug,
              .event = "task.failed",
              .message = "the application says: " + task.failure});
}

void AppHost::Rest() {
  scratch_ = {};
  if (built_in_) built_in_->Rest();
}

}  // namespace skep::embed
