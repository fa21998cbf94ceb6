#include "client/device_trainer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "client/example_source.h"
#include "shared/base/rng.h"
#include "shared/base/try.h"

namespace skep::client {
namespace {

// Steps between two passes of the gate, and as many orders on the host.
constexpr std::uint32_t kPieceSteps = 64;

std::size_t CountedLabels(const data::Dataset& dataset, std::span<const std::uint32_t> rows) {
  std::size_t counted = 0;
  for (const std::uint32_t row : rows) {
    const auto labels = dataset.LabelsOf(row);
    counted += labels.size() -
               static_cast<std::size_t>(std::count(labels.begin(), labels.end(), data::kNoLabel));
  }
  return counted;
}

std::uint64_t DeviceBytes(const data::Dataset& dataset) {
  return dataset.bytes.size() + dataset.floats.size() * sizeof(float) +
         dataset.labels.size() * sizeof(std::int32_t);
}

kernels::LaneLimits LimitsOf(const TrainingPlan& plan, std::uint32_t lanes, std::size_t rows) {
  return {.lanes = lanes,
          .rows = static_cast<std::uint32_t>(rows),
          .loss = plan.loss,
          .step = StepOf(plan)};
}

std::size_t LongestEpoch(const LaneTask& task) {
  std::size_t longest = task.data->train.size();
  for (std::size_t i = 1; i < task.ends.size(); ++i) {
    longest = std::max<std::size_t>(longest, task.ends[i] - task.ends[i - 1]);
  }
  return longest;
}

// What a source gave for a task, in its order.
struct Taken {
  LocalData data;  // to train: the rows of the first epoch
  std::vector<std::uint32_t> ends;
};

// Appends an epoch.
Status TakeEpoch(ExampleSource& source, data::Dataset& to) {
  constexpr std::size_t kPiece = 256;
  while (true) {
    to.floats.resize((to.rows + kPiece) * to.values);
    to.labels.resize((to.rows + kPiece) * to.labels_per_row);
    SKEP_ASSIGN(const std::size_t count,
                source.Next(kPiece, to.floats.data() + to.rows * to.values,
                            to.labels.data() + to.rows * to.labels_per_row));
    to.rows += count;
    if (count > 0) continue;
    to.floats.resize(to.rows * to.values);
    to.labels.resize(to.rows * to.labels_per_row);
    return Ok();
  }
}

Result<Taken> TakeTask(const TrainingPlan& plan, const TaskIdentity& task, ExampleSource& source) {
  auto dataset = std::make_shared<data::Dataset>();
  dataset->input_shape = plan.model.input();
  dataset->values = plan.model.input_values();
  dataset->labels_per_row = plan.model.positions();
  Taken taken;
  const auto is_enough = [&] {
    if (taken.ends.empty()) return false;
    if (plan.local_steps == 0) return taken.ends.size() == plan.local_epochs;
    Batches batches;
    batches.BeginListed(plan, task, taken.ends);
    return batches.all_steps() == plan.local_steps;
  };
  while (!is_enough()) {
    const auto epoch = static_cast<std::uint32_t>(taken.ends.size());
    SKEP_TRY(source.Rewind(EpochSeed(task.round_seed, task.client, task.round, epoch)));
    const std::size_t before = dataset->rows;
    SKEP_TRY(TakeEpoch(source, *dataset));
    if (dataset->rows == before) return Error{7402, "no examples for this task", ""};
    taken.ends.push_back(static_cast<std::uint32_t>(dataset->rows));
  }
  taken.data.train.resize(taken.ends.front());
  std::iota(taken.data.train.begin(), taken.data.train.end(), 0U);
  taken.data.dataset = std::move(dataset);
  return taken;
}

// Whether both keep the same beside the parameters.
bool KeepAlike(const kernels::OptimiserStep& a, const kernels::OptimiserStep& b) {
  return a.rule == b.rule && (a.momentum != 0) == (b.momentum != 0) &&
         (a.weight_decay != 0) == (b.weight_decay != 0) &&
         (a.gradient_clip != 0) == (b.gradient_clip != 0);
}

}  // namespace

struct DeviceTrainer::Lane {
  const LaneTask* task = nullptr;
  Result<TrainReport>* result = nullptr;
  Batches* batches = nullptr;
  std::size_t labels = 0;      // of the last epoch, that count
  std::optional<Error> error;  // its batches end here

  [[nodiscard]] bool is_over() const {
    return error.has_value() || batches->steps() == batches->all_steps();
  }
};

Result<std::uint64_t> DeviceBudget(kernels::DeviceApi& device) {
  SKEP_ASSIGN(const kernels::DeviceInfo info, device.Info());
  return static_cast<std::uint64_t>(kShareOfDeviceMemory * static_cast<double>(info.free_bytes));
}

Result<LanePlan> PlanLanes(const TrainingPlan& plan, const LaneNeeds& needs) {
  const std::size_t rows = LargestBatch(plan, needs.most_rows);
  const std::uint64_t data = DeviceBytes(needs.dataset);
  const auto bytes_for = [&](std::uint32_t lanes) -> Result<std::uint64_t> {
    SKEP_ASSIGN(const std::uint64_t bytes,
                kernels::LaneNetwork::BytesFor(plan.model, LimitsOf(plan, lanes, rows)));
    return data + bytes;
  };
  SKEP_ASSIGN(const std::uint64_t one, bytes_for(1));
  if (one > needs.budget_bytes) {
    return Error{1401,
                 "the data take " + std::to_string(data) + " bytes of the device, one client " +
                     std::to_string(one - data) + ", together more than the " +
                     std::to_string(needs.budget_bytes) + " that it may have",
                 "use a smaller batch or model, or device = \"cpu\""};
  }
  std::uint32_t fits = 1;
  std::uint32_t too_many = needs.clients + 1;
  while (too_many - fits > 1) {
    const std::uint32_t middle = fits + (too_many - fits) / 2;
    SKEP_ASSIGN(const std::uint64_t bytes, bytes_for(middle));
    (bytes <= needs.budget_bytes ? fits : too_many) = middle;
  }
  // The last of the groups is as large as the others, as far as that goes.
  const std::uint32_t groups = (needs.clients + fits - 1) / fits;
  const std::uint32_t lanes = groups == 0 ? 1 : (needs.clients + groups - 1) / groups;
  SKEP_ASSIGN(const std::uint64_t bytes, bytes_for(lanes));
  return LanePlan{.lanes = lanes, .bytes = bytes};
}

DeviceTrainer::DeviceTrainer(DeviceTrainerSetup setup)
    : setup_(std::move(setup)), evaluator_(MakeBuiltInTrainer(setup_.isa)) {}

DeviceTrainer::~DeviceTrainer() {
  LetGo();
}

void DeviceTrainer::LetGo() {
  network_.reset();
  made_.reset();
  data_.reset();
  arena_.reset();
  dataset_.reset();
}

bool DeviceTrainer::Fits(const TrainingPlan& plan, std::size_t rows) const {
  return made_ && made_->lines == plan.model.lines() && made_->input == plan.model.input() &&
         made_->loss == plan.loss && made_->rows == rows && KeepAlike(made_->step, StepOf(plan));
}

Status DeviceTrainer::Prepare(const TrainingPlan& plan,
                              const std::shared_ptr<const data::Dataset>& dataset,
                              std::size_t most_rows) {
  // A step that was captured reads these data: it goes with them.
  if (dataset_ != dataset) LetGo();
  const std::size_t rows = LargestBatch(plan, most_rows);
  if (!Fits(plan, rows)) {
    network_.reset();  // never two at once
    made_.reset();
    checked_.assign(dataset->rows, false);  // for another model
    SKEP_ASSIGN(const LanePlan lanes, PlanLanes(plan, {.dataset = *dataset,
                                                       .most_rows = most_rows,
                                                       .clients = setup_.clients,
                                                       .budget_bytes = setup_.budget_bytes}));
    SKEP_ASSIGN(network_, kernels::LaneNetwork::Make(plan.model, LimitsOf(plan, lanes.lanes, rows),
                                                     *setup_.device,
                                                     setup_.budget_bytes - DeviceBytes(*dataset)));
    made_ = Made{plan.model.input(), plan.model.lines(), plan.loss, StepOf(plan), rows};
    batches_.resize(lanes.lanes);
  }
  return dataset_ == nullptr ? Upload(dataset) : Ok();
}

Status DeviceTrainer::Upload(std::shared_ptr<const data::Dataset> dataset) {
  arena_ = std::make_unique<kernels::Arena>(*setup_.device, DeviceBytes(*dataset));
  SKEP_ASSIGN(data_, kernels::LaneData::Make({.bytes = dataset->bytes,
                                              .floats = dataset->floats,
                                              .offset = dataset->byte_offset,
                                              .scale = dataset->byte_scale,
                                              .labels = dataset->labels,
                                              .values = dataset->values,
                                              .positions = dataset->labels_per_row},
                                             *arena_, network_->queue()));
  dataset_ = std::move(dataset);
  return Ok();
}

// A class beyond the outputs would be read out of bounds there: looked at before the device sees
// it.
Status DeviceTrainer::CheckRow(const TrainingPlan& plan, std::uint32_t row) {
  if (checked_[row]) return Ok();
  x_.resize(dataset_->values);
  y_.resize(dataset_->labels_per_row);
  const std::span<const std::uint32_t> rows(&row, 1);
  dataset_->Gather(rows, x_.data(), y_.data());
  SKEP_TRY(CheckExamples(plan, rows, x_.data(), y_.data()));
  checked_[row] = true;
  return Ok();
}

// The next batches of all lanes, in the form of LaneEpoch.
void DeviceTrainer::FillPiece(const TrainingPlan& plan, std::span<Lane> lanes,
                              std::uint32_t steps) {
  const std::size_t width = network_->lanes();
  const std::size_t rows = network_->rows();
  order_.assign(steps * width * rows, kernels::kNoExample);
  keys_.assign(steps * width, 0);
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      Lane& lane = lanes[i];
      if (lane.is_over()) continue;
      const std::span<const std::uint32_t> batch = lane.batches->Next();
      for (const std::uint32_t row : batch) {
        if (lane.error) break;
        if (Status suits = CheckRow(plan, row); !suits) lane.error = std::move(suits).error();
      }
      if (lane.error) continue;
      if (lane.batches->starts_epoch()) lane.labels = 0;
      lane.labels += CountedLabels(*dataset_, batch);
      const std::size_t at = step * width + i;
      std::copy(batch.begin(), batch.end(),
                order_.begin() + static_cast<std::ptrdiff_t>(at * rows));
      keys_[at] = lane.batches->StepKey();
    }
  }
}

// A piece ends where some lane begins its last epoch, whose losses are asked for:
// each lane then adds up its own in the order of its steps, whatever the others do.
Status DeviceTrainer::TrainPieces(const TrainingPlan& plan, std::span<Lane> lanes,
                                  BatchGate* gate) {
  std::uint32_t all = 0;
  for (const Lane& lane : lanes) all = std::max(all, lane.batches->all_steps());
  for (std::uint32_t done = 0; done < all;) {
    std::uint32_t end = std::min(done + kPieceSteps, all);
    for (std::uint32_t i = 0; i < lanes.size(); ++i) {
      const std::uint32_t last_epoch = lanes[i].batches->steps_before_last_epoch();
      if (last_epoch > done) end = std::min(end, last_epoch);
      if (last_epoch == done && done > 0) SKEP_TRY(network_->ForgetLoss(i));
    }
    if (gate != nullptr) SKEP_TRY(gate->Pass());
    const std::uint32_t steps = end - done;
    FillPiece(plan, lanes, steps);
    if (std::all_of(lanes.begin(), lanes.end(), [](const Lane& l) { return l.error.has_value(); }))
      return Ok();
    SKEP_TRY(network_->Train({.data = *data_,
                              .steps = steps,
                              .order = order_,
                              .keys = keys_,
                              .step = StepOf(plan),
                              .adds_losses = done > 0}));
    done = end;
  }
  return Ok();
}

Status DeviceTrainer::RunLanes(const TrainingPlan& plan, std::span<Lane> lanes, BatchGate* gate) {
  std::vector<std::span<const float>> given;
  std::vector<std::span<float>> taken;
  for (const Lane& lane : lanes) {
    given.emplace_back(lane.task->params);
    taken.push_back(lane.task->params);
  }
  SKEP_TRY(network_->Begin(given));
  SKEP_TRY(TrainPieces(plan, lanes, gate));
  losses_.resize(lanes.size());
  SKEP_TRY(network_->ReadLosses(losses_));
  SKEP_TRY(network_->ReadParams(taken));
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Lane& lane = lanes[i];
    if (lane.error) continue;
    const double none = std::numeric_limits<double>::quiet_NaN();
    *lane.result = TrainReport{
        .examples = static_cast<std::uint32_t>(lane.batches->first_epoch_rows()),
        .steps = lane.batches->steps(),
        .loss = lane.labels == 0 ? none : losses_[i] / static_cast<double>(lane.labels)};
  }
  return Ok();
}

Status DeviceTrainer::TrainAll(const TrainingPlan& plan, std::span<Lane> lanes, BatchGate* gate) {
  std::size_t most = setup_.most_rows;
  for (const Lane& lane : lanes) most = std::max(most, LongestEpoch(*lane.task));
  SKEP_TRY(Prepare(plan, lanes.front().task->data->dataset, most));
  for (std::size_t first = 0; first < lanes.size(); first += network_->lanes()) {
    const std::size_t count = std::min<std::size_t>(network_->lanes(), lanes.size() - first);
    const std::span<Lane> group = lanes.subspan(first, count);
    for (std::size_t i = 0; i < count; ++i) {
      group[i].batches = &batches_[i];
      const LaneTask& given = *group[i].task;
      if (given.ends.empty()) {
        batches_[i].Begin(plan, given.task, given.data->train);
      } else {
        batches_[i].BeginListed(plan, given.task, given.ends);
      }
    }
    SKEP_TRY(RunLanes(plan, group, gate));
    for (const Lane& lane : group) {
      if (lane.error) *lane.result = *lane.error;
    }
  }
  return Ok();
}

// The error of a device as one of a task. A stop passes through.
Error DeviceTrainer::Explain(const Error& error) {
  if (error.code == 7407) return error;
  failure_ = error;
  LetGo();
  return Error{7406, "the device failed: SKEP-" + std::to_string(error.code) + " " + error.message,
               error.hint};
}

std::vector<Result<TrainReport>> DeviceTrainer::TrainMany(const TrainingPlan& plan,
                                                          std::span<const LaneTask> tasks,
                                                          BatchGate* gate) {
  std::vector<Result<TrainReport>> results(tasks.size(), Result<TrainReport>(Error{}));
  std::vector<Lane> lanes;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const LaneTask& task = tasks[i];
    if (Status sound = CheckTask(plan, *task.data, task.params.size()); !sound) {
      results[i] = std::move(sound).error();
      continue;
    }
    Lane lane;
    lane.task = &task;
    lane.result = &results[i];
    lanes.push_back(std::move(lane));
  }
  if (lanes.empty()) return results;
  const Status done = TrainAll(plan, lanes, gate);
  if (done) return results;
  // No result of the group before is used either: the caller asked for all of them.
  const Error error = Explain(done.error());
  for (const Lane& lane : lanes) *lane.result = error;
  return results;
}

Result<TrainReport> DeviceTrainer::Train(const TrainingPlan& plan, const TaskIdentity& task,
                                         const LocalData& data, std::span<float> params,
                                         BatchGate* gate) {
  const LaneTask only{.task = task, .data = &data, .params = params};
  return TrainMany(plan, {&only, 1}, gate).front();
}

Result<TrainReport> DeviceTrainer::TrainFrom(const TrainingPlan& plan, const TaskIdentity& task,
                                             ExampleSource& source, std::span<float> params,
                                             BatchGate* gate) {
  SKEP_ASSIGN(const Taken taken, TakeTask(plan, task, source));
  const LaneTask only{.task = task, .data = &taken.data, .params = params, .ends = taken.ends};
  return TrainMany(plan, {&only, 1}, gate).front();
}

Result<EvaluationReport> DeviceTrainer::EvaluateFrom(const TrainingPlan& plan,
                                                     const TaskIdentity& task,
                                                     ExampleSource& source,
                                                     std::span<const float> params,
                                                     BatchGate* gate) {
  return evaluator_->EvaluateFrom(plan, task, source, params, gate);
}

Result<EvaluationReport> DeviceTrainer::Evaluate(const TrainingPlan& plan, const LocalData& data,
                                                 std::span<const float> params, BatchGate* gate) {
  return evaluator_->Evaluate(plan, data, params, gate);
}

}  // namespace skep::client
