// The runs of the stub: what drives the callbacks of data source and trainer, and skep_task_...
//
// NOLINTBEGIN(readability-identifier-naming): the names are those of skep/skep.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>

#include "tests/embed/stub_client.h"

struct skep_task {
  skep_client& client;
  std::uint64_t round;
  std::string id;
  std::int32_t code = 0;  // of the latest error that the library found itself
  std::size_t x_cols = 0;
  std::uint64_t rows = 0;  // taken in the current epoch
  std::vector<std::string> metrics;
};

namespace skep::test {
namespace {

constexpr std::size_t kMostMetrics = 32;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool IsCancelled(const skep_client& client) {
  const std::lock_guard lock(client.mutex);
  return client.is_cancelled;
}

void Log(const skep_client& client, std::int32_t level, const std::string& line) {
  if (client.on_log.fn != nullptr && level <= client.options.values.log_level)
    client.on_log.fn(client.on_log.user, level, line.c_str());
}

void Report(const skep_client& client, const skep_task* task, std::int32_t phase, double fraction,
            double loss) {
  if (client.on_progress.fn == nullptr) return;
  skep_progress progress{};
  progress.struct_size = sizeof progress;
  progress.phase = phase;
  progress.task_id = task != nullptr ? task->id.c_str() : "";
  progress.round = task != nullptr ? task->round : 0;
  progress.fraction = fraction;
  progress.loss = loss;
  client.on_progress.fn(client.on_progress.user, &progress);
}

// The first required condition that does not hold, as "charging: unknown"; empty if all do.
std::string NotEligible(const skep_client& client) {
  if (client.on_device_state.fn == nullptr) return {};  // this device is always ready
  skep_device_state state{sizeof state, -1, -1, -1, -1, -1.0F, 0};
  client.on_device_state.fn(client.on_device_state.user, &state);
  const skep_options& options = client.options.values;
  struct Condition {
    const char* name;
    bool is_required;
    std::int8_t value;
  };
  const std::array conditions{
      Condition{"charging", options.require_charging != 0, state.charging},
      Condition{"idle", options.require_idle != 0, state.idle},
      Condition{"unmetered", options.require_unmetered != 0, state.unmetered}};
  for (const Condition& c : conditions) {
    if (c.is_required && c.value != 1)
      return std::string(c.name) + (c.value == 0 ? ": no" : ": unknown");
  }
  if (state.thermal_ok == 0) return "thermal: no";
  if (state.charging != 1 && state.battery_level < options.min_battery) return "battery: low";
  return {};
}

bool IsFinite(const skep_batch& batch) {
  if (batch.x_dtype != SKEP_F32) return true;
  const std::span x(static_cast<const float*>(batch.x), batch.rows * batch.x_cols);
  return std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
}

bool HasKnownLabels(const skep_batch& batch, std::int64_t classes) {
  if (batch.y_dtype != SKEP_I64) return true;
  const std::span y(static_cast<const std::int64_t*>(batch.y), batch.rows * batch.y_cols);
  return std::all_of(y.begin(), y.end(), [=](std::int64_t v) { return v >= 0 && v < classes; });
}

// The number of what is wrong with a batch, or 0.
std::int32_t Wrong(const skep_task& task, const skep_batch& batch, std::size_t max_rows) {
  if (batch.rows > max_rows) return 7104;
  if (task.x_cols != 0 && batch.x_cols != task.x_cols) return 7101;
  if (!IsFinite(batch)) return 7102;
  if (!HasKnownLabels(batch, task.client.script.classes)) return 7103;
  return 0;
}

// One epoch after the other, without learning anything.
skep_status BuiltInTraining(skep_task& task, std::uint64_t& num_examples) {
  for (std::uint32_t epoch = 0; epoch < task.client.script.epochs; ++epoch) {
    skep_status status = skep_task_rewind(&task, skep_task_seed(&task, epoch));
    if (status != SKEP_OK) return status;
    skep_batch batch{};
    batch.struct_size = sizeof batch;
    do {
      status = skep_task_next(&task, task.client.script.batch_size, &batch);
      if (status != SKEP_OK) return status;
    } while (batch.rows > 0);
    skep_task_progress(&task, (epoch + 1.0) / task.client.script.epochs, 0.5);
  }
  num_examples = task.rows;
  return SKEP_OK;
}

// A softmax of the width that the data have: "weight" [classes, x_cols] and "bias" [classes].
skep_status OwnTraining(skep_task& task, std::uint64_t& num_examples) {
  const skep_client& client = task.client;
  const std::size_t classes = client.script.classes;
  std::vector<float> weight(classes * task.x_cols, 0.5F);
  std::vector<float> bias(classes, 0.5F);
  const std::array<std::int64_t, 2> weight_shape{static_cast<std::int64_t>(classes),
                                                 static_cast<std::int64_t>(task.x_cols)};
  const std::array<std::int64_t, 1> bias_shape{static_cast<std::int64_t>(classes)};
  std::array<skep_tensor, 2> model{skep_tensor{"weight", weight.data(), weight_shape.data(),
                                               weight.size() * sizeof(float), SKEP_F32, 2},
                                   skep_tensor{"bias", bias.data(), bias_shape.data(),
                                               bias.size() * sizeof(float), SKEP_F32, 1}};
  const skep_trainer& trainer = *client.trainer;
  if (client.script.is_evaluation)
    return trainer.evaluate(trainer.user, &task, model.data(), model.size(), &num_examples);
  const skep_status status =
      trainer.train(trainer.user, &task, model.data(), model.size(), &num_examples);
  const auto is_finite = [](float v) { return std::isfinite(v); };
  if (status == SKEP_OK && !(std::all_of(weight.begin(), weight.end(), is_finite) &&
                             std::all_of(bias.begin(), bias.end(), is_finite)))
    return SKEP_E_TRAINER;
  return status;
}

// Learns the width of the data from one row, as the stub has no plan to compare it with.
skep_status Probe(skep_task& task) {
  skep_batch batch{};
  batch.struct_size = sizeof batch;
  skep_status status = skep_task_rewind(&task, skep_task_seed(&task, 0));
  if (status == SKEP_OK) status = skep_task_next(&task, 1, &batch);
  task.x_cols = batch.x_cols;
  return status;
}

void WorkOn(skep_task& task, skep_outcome& outcome) {
  skep_client& client = task.client;
  outcome.round = task.round;
  Report(client, &task, SKEP_PHASE_DOWNLOAD, 1, kNaN);
  if (client.script.is_evaluation && client.trainer && client.trainer->evaluate == nullptr)
    return Say(outcome, SKEP_NO_WORK, 2219, "the trainer does not evaluate");
  const std::int64_t count = client.data.count(client.data.user, &task);
  if (count == 0) return Say(outcome, SKEP_NO_WORK, 7402, "no data for this task");
  skep_status status = count < 0 ? static_cast<skep_status>(count) : Probe(task);
  if (status == SKEP_OK) {
    status = client.trainer ? OwnTraining(task, outcome.num_examples)
                            : BuiltInTraining(task, outcome.num_examples);
  }
  if (status == SKEP_OK && outcome.num_examples == 0) {
    status = SKEP_E_TRAINER;
    task.code = 7402;
  }
  if (status != SKEP_OK) {
    if (task.code == 0) task.code = status == SKEP_CANCELLED ? 7407 : 7406;
    return Say(outcome, status, task.code, "the task ended early");
  }
  Report(client, &task, SKEP_PHASE_ENCODE, 1, kNaN);
  Report(client, &task, SKEP_PHASE_UPLOAD, 1, kNaN);
  outcome.bytes_down = outcome.bytes_up = 1000;
  Say(outcome, SKEP_OK, 0, "round " + std::to_string(task.round) + " contributed to");
  const std::lock_guard lock(client.mutex);
  client.history.push_back(
      {task.round, outcome.num_examples, client.script.is_evaluation, task.metrics});
}

}  // namespace

void Say(skep_outcome& outcome, skep_status status, std::int32_t code, const std::string& message) {
  outcome.status = status;
  outcome.code = code;
  std::snprintf(outcome.message, sizeof outcome.message, "%s", message.c_str());
}

skep_outcome Run(skep_client& client, std::uint32_t budget_s) {
  skep_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  outcome.retry_after_s = client.script.retry_s;
  const std::string missing = NotEligible(client);
  if (!missing.empty()) {
    Say(outcome, SKEP_NOT_ELIGIBLE, 7401, missing);
    return outcome;
  }
  Report(client, nullptr, SKEP_PHASE_CHECK_IN, -1, kNaN);
  Log(client, SKEP_LOG_INFO, "checking in");
  if (client.script.has_wait) {
    Report(client, nullptr, SKEP_PHASE_WAIT, -1, kNaN);
    std::unique_lock lock(client.mutex);
    client.changed.wait(lock, [&] { return client.is_cancelled; });
  }
  if (IsCancelled(client)) {
    outcome.retry_after_s = 0;
    Say(outcome, SKEP_CANCELLED, 7407, "cancelled");
  } else if (client.script.status != SKEP_OK) {
    Say(outcome, client.script.status, client.script.code, "as the script says");
  } else if (budget_s == 0) {
    Say(outcome, SKEP_LIMIT, 7410, "the budget is used up");
  } else {
    skep_task task{client, ++client.round, "stub-" + std::to_string(client.round), 0, 0, 0, {}};
    WorkOn(task, outcome);
  }
  return outcome;
}

}  // namespace skep::test

using skep::test::Report;

int32_t skep_task_kind(const skep_task* task) {
  return task->client.script.is_evaluation ? SKEP_TASK_EVALUATE : SKEP_TASK_TRAIN;
}

const char* skep_task_id(const skep_task* task) {
  return task->id.c_str();
}

uint64_t skep_task_round(const skep_task* task) {
  return task->round;
}

uint64_t skep_task_seed(const skep_task* task, uint32_t epoch) {
  return task->round * 0x9E3779B97F4A7C15U + epoch;
}

skep_status skep_task_check(const skep_task* task) {
  return skep::test::IsCancelled(task->client) ? SKEP_CANCELLED : SKEP_OK;
}

double skep_task_number(const skep_task* task, const char* key, double fallback) {
  const std::string name(key);
  if (name == "client.local_epochs") return task->client.script.epochs;
  if (name == "client.local_steps") return task->client.script.steps;
  if (name == "client.batch_size") return task->client.script.batch_size;
  if (name == "client.num_classes") return task->client.script.classes;
  if (name == "client.learning_rate") return 0.1;
  return fallback;
}

const char* skep_task_text(const skep_task*, const char* key, const char* fallback) {
  const std::string name(key);
  if (name == "model.loss") return "cross-entropy";
  if (name == "model.architecture") return "softmax";
  return fallback;
}

skep_status skep_task_rewind(skep_task* task, uint64_t seed) {
  const skep_status status = skep_task_check(task);
  if (status != SKEP_OK) return status;
  task->rows = 0;
  return task->client.data.rewind(task->client.data.user, task, seed);
}

skep_status skep_task_next(skep_task* task, size_t max_rows, skep_batch* out) {
  skep_status status = skep_task_check(task);
  if (status != SKEP_OK) return status;
  *out = skep_batch{};
  out->struct_size = sizeof *out;
  status = task->client.data.next(task->client.data.user, task, max_rows, out);
  if (status != SKEP_OK) return status;
  task->code = out->rows == 0 ? 0 : skep::test::Wrong(*task, *out, max_rows);
  task->rows += out->rows;
  return task->code == 0 ? SKEP_OK : SKEP_E_DATA;
}

void skep_task_progress(skep_task* task, double fraction, double loss) {
  Report(task->client, task, SKEP_PHASE_TRAIN, fraction, loss);
}

skep_status skep_task_metric(skep_task* task, const char* name, double) {
  if (std::find(task->metrics.begin(), task->metrics.end(), name) != task->metrics.end())
    return SKEP_OK;
  if (task->metrics.size() == skep::test::kMostMetrics) return SKEP_E_ARGUMENT;
  task->metrics.emplace_back(name);
  return SKEP_OK;
}

void skep_task_fail(const skep_task* task, const char* local_message) {
  skep::test::Log(task->client, SKEP_LOG_DEBUG, local_message);
}
// NOLINTEND(readability-identifier-naming)
