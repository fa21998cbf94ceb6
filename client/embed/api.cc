// The C functions of skep/skep.h: what crosses the boundary is checked here, and no exception does.
//
// NOLINTBEGIN(readability-identifier-naming): the names are those of skep/skep.h.
#include <skep/skep.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "client/embed/app_source.h"
#include "client/embed/client.h"
#include "client/embed/diagnosis.h"
#include "client/embed/report.h"
#include "client/embed/result.h"
#include "client/embed/structures.h"
#include "shared/base/error_catalogue.h"

struct skep_client {
  std::unique_ptr<skep::embed::Client> own;
};

namespace skep::embed {
namespace {

constexpr std::size_t kMostMetrics = 32;

// What the library throws itself, which is only for want of memory, ends here.
template <class F>
skep_status Guarded(F&& f) noexcept {
  return CallApp(SKEP_E_INTERNAL, std::forward<F>(f));
}

skep_status Tell(const skep_outcome& outcome, skep_outcome* to) {
  Write(outcome, to);
  return outcome.status;
}

// Where even the text of an error is too much.
skep_status TellStatus(skep_status status, skep_outcome* to) {
  if (status != SKEP_E_MEMORY && status != SKEP_E_INTERNAL) return status;
  skep_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  outcome.status = status;
  outcome.retry_after_s = 60;
  Write(outcome, to);
  return status;
}

Result<skep_data_source> ReadSource(const skep_data_source* from) {
  if (from == nullptr) return Error{7003, "a data source is required", ""};
  if (!HasSize(*from)) {
    return Error{7002, "struct_size of skep_data_source is not one of its sizes", ""};
  }
  const skep_data_source source = Read(*from);
  if (source.count != nullptr && source.rewind != nullptr && source.next != nullptr) return source;
  return Error{7003, "a data source has three functions: count, rewind and next", ""};
}

Result<std::optional<skep_trainer>> ReadTrainer(const skep_trainer* from) {
  if (from == nullptr) return std::optional<skep_trainer>();
  if (!HasSize(*from)) {
    return Error{7002, "struct_size of skep_trainer is not one of its sizes", ""};
  }
  const skep_trainer trainer = Read(*from);
  if (trainer.train == nullptr) return Error{7001, "a trainer has a function train", ""};
  return std::optional<skep_trainer>(trainer);
}

Result<std::unique_ptr<Client>> Open(const skep_options* options, const skep_data_source* data,
                                     const skep_trainer* trainer) {
  Result<Options> read = ReadOptions(options);
  if (!read.has_value()) return std::move(read).error();
  const Result<skep_data_source> source = ReadSource(data);
  if (!source.has_value()) return source.error();
  const Result<std::optional<skep_trainer>> own = ReadTrainer(trainer);
  if (!own.has_value()) return own.error();
  return Client::Open(std::move(read).value(), *source, own->has_value() ? &**own : nullptr);
}

// The contract of the JSON calls: see skep_client_history_json.
skep_status Give(const std::string& text, char* buffer, std::size_t* length) {
  if (length == nullptr) return SKEP_E_ARGUMENT;
  if (*length < text.size() + 1 || buffer == nullptr) {
    *length = text.size() + 1;
    return SKEP_E_BUFFER;
  }
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  *length = text.size();
  return SKEP_OK;
}

// `report` of the folder that the options name.
template <class F>
skep_status GiveOfFolder(const skep_options* from, char* buffer, std::size_t* length,
                         skep_outcome* why_not, F&& report) {
  return TellStatus(Guarded([&] {
                      const Result<Options> options = ReadOptions(from);
                      if (!options.has_value()) return Tell(OutcomeOf(options.error()), why_not);
                      const Result<agent::Storage> storage =
                          agent::Storage::Look(options->storage_dir);
                      if (!storage.has_value()) return Tell(OutcomeOf(storage.error()), why_not);
                      return Give(report(*storage, *options), buffer, length);
                    }),
                    why_not);
}

const wire::Param* FindParam(const skep_task& task, std::string_view key) {
  for (const wire::Param& param : task.offered.plan->params) {
    if (param.key == key) return &param;
  }
  return nullptr;
}

// Texts of the catalogue live as long as the process: made once, never freed, so that nothing has
// to be done when a process ends.
const char* ExplainText(int code) {
  static auto* const mutex = new std::mutex;
  static auto* const texts = new std::map<int, std::string>;
  if (FindError(code) == nullptr) return nullptr;
  const std::lock_guard lock(*mutex);
  return texts->try_emplace(code, Explain(code)).first->second.c_str();
}

}  // namespace
}  // namespace skep::embed

using namespace skep::embed;  // NOLINT(google-build-using-namespace)

uint32_t skep_abi_version(void) {
  return SKEP_ABI_VERSION;
}

const char* skep_version(void) {
  return SKEP_VERSION;
}

const char* skep_status_name(skep_status status) {
  static constexpr std::array kNames{
      "SKEP_E_INTERNAL", "SKEP_E_BUFFER",  "SKEP_E_MEMORY", "SKEP_E_BUSY",       "SKEP_E_TRAINER",
      "SKEP_E_ARGUMENT", "SKEP_E_STORAGE", "SKEP_E_DATA",   "SKEP_E_PROTOCOL",   "SKEP_E_AUTH",
      "SKEP_E_NETWORK",  "SKEP_OK",        "SKEP_NO_WORK",  "SKEP_NOT_ELIGIBLE", "SKEP_CANCELLED",
      "SKEP_LIMIT",      "SKEP_REJECTED"};
  if (status < SKEP_E_INTERNAL || status > SKEP_REJECTED) return "SKEP_UNKNOWN";
  return kNames[static_cast<std::size_t>(status - SKEP_E_INTERNAL)];
}

const char* skep_explain(int32_t code) {
  const char* text = nullptr;
  const skep_status found = Guarded([&]() -> skep_status {
    text = ExplainText(code);
    return SKEP_OK;
  });
  return found == SKEP_OK ? text : nullptr;
}

void skep_options_init(skep_options* options, size_t size) {
  if (options == nullptr || size < sizeof(std::uint32_t)) return;
  skep_options defaults = DefaultOptions();
  defaults.struct_size = static_cast<std::uint32_t>(size);
  std::memset(options, 0, size);
  std::memcpy(options, &defaults, std::min(size, sizeof defaults));
}

skep_status skep_client_new(const skep_options* options, const skep_data_source* data,
                            const skep_trainer* trainer, skep_client** out, skep_outcome* why_not) {
  if (out == nullptr) return SKEP_E_ARGUMENT;
  *out = nullptr;
  return TellStatus(Guarded([&] {
                      auto client = std::make_unique<skep_client>();
                      auto own = Open(options, data, trainer);
                      if (!own.has_value()) return Tell(OutcomeOf(own.error()), why_not);
                      client->own = std::move(own).value();
                      *out = client.release();
                      return static_cast<skep_status>(SKEP_OK);
                    }),
                    why_not);
}

void skep_client_free(skep_client* client) {
  delete client;
}

skep_status skep_client_on_device_state(skep_client* client, skep_state_fn fn, void* user) {
  if (client == nullptr) return SKEP_E_ARGUMENT;
  return Guarded([&] { return client->own->SetDeviceState({fn, user}); });
}

skep_status skep_client_on_progress(skep_client* client, skep_progress_fn fn, void* user) {
  if (client == nullptr) return SKEP_E_ARGUMENT;
  return Guarded([&] { return client->own->SetProgress({fn, user}); });
}

skep_status skep_client_on_outcome(skep_client* client, skep_outcome_fn fn, void* user) {
  if (client == nullptr) return SKEP_E_ARGUMENT;
  return Guarded([&] { return client->own->SetOutcome({fn, user}); });
}

skep_status skep_client_on_log(skep_client* client, skep_log_fn fn, void* user) {
  if (client == nullptr) return SKEP_E_ARGUMENT;
  return Guarded([&] { return client->own->SetLog({fn, user}); });
}

skep_status skep_client_enrol(skep_client* client, const char* name, skep_outcome* outcome) {
  if (client == nullptr) return SKEP_E_ARGUMENT;
  return TellStatus(Guarded([&] {
                      const std::string given = name == nullptr ? "" : name;
                      return Tell(client->own->Enrol(given), outcome);
                    }),
                    outcome);
}

skep_status skep_client_run_once(skep_client* client, uint32_t budget_s, skep_outcome* outcome) {
  if (client == nullptr) return SKEP_E_ARGUMENT;
  return TellStatus(Guarded([&] { return Tell(client->own->RunOnce(budget_s), outcome); }),
                    outcome);
}

skep_status skep_client_start(skep_client* client) {
  if (client == nullptr) return SKEP_E_ARGUMENT;
  return Guarded([&] { return client->own->Start(); });
}

void skep_client_stop(skep_client* client) {
  if (client != nullptr) client->own->Stop();
}

void skep_client_cancel(skep_client* client) {
  if (client != nullptr) client->own->Cancel();
}

skep_status skep_client_forget(skep_client* client) {
  if (client == nullptr) return SKEP_E_ARGUMENT;
  return Guarded([&] { return client->own->Forget().status; });
}

skep_status skep_client_history_json(const skep_client* client, char* buf, size_t* len) {
  if (client == nullptr) return SKEP_E_ARGUMENT;
  return Guarded([&] {
    const std::optional<std::string> text = client->own->History();
    return text ? Give(*text, buf, len) : static_cast<skep_status>(SKEP_E_ARGUMENT);
  });
}

skep_status skep_client_status_json(const skep_client* client, char* buf, size_t* len) {
  if (client == nullptr) return SKEP_E_ARGUMENT;
  return Guarded([&] {
    const std::optional<std::string> text = client->own->Status();
    return text ? Give(*text, buf, len) : static_cast<skep_status>(SKEP_E_ARGUMENT);
  });
}

skep_status skep_status_json(const skep_options* options, char* buf, size_t* len,
                             skep_outcome* why_not) {
  return GiveOfFolder(options, buf, len, why_not,
                      [](const skep::agent::Storage& storage, const Options& read) {
                        return StatusJson(storage, read, std::nullopt, TrainsOn(read));
                      });
}

skep_status skep_history_json(const skep_options* options, char* buf, size_t* len,
                              skep_outcome* why_not) {
  return GiveOfFolder(
      options, buf, len, why_not,
      [](const skep::agent::Storage& storage, const Options&) { return HistoryJson(storage); });
}

skep_status skep_diagnose(const skep_options* options, skep_step_fn fn, void* user) {
  if (fn == nullptr) return SKEP_E_ARGUMENT;
  return Guarded([&] {
    const skep::Result<Options> read = ReadOptions(options);
    if (!read.has_value()) {
      const skep::Error& why = read.error();
      fn(user, "configuration", why.code, why.message.c_str(), why.hint.c_str());
      return StatusOfCode(why.code);
    }
    return Diagnose(*read, {fn, user});
  });
}

int32_t skep_task_kind(const skep_task* task) {
  return task->offered.manifest.kind == skep::wire::TaskKind::kEvaluate ? SKEP_TASK_EVALUATE
                                                                        : SKEP_TASK_TRAIN;
}

const char* skep_task_id(const skep_task* task) {
  return task->id.c_str();
}

uint64_t skep_task_round(const skep_task* task) {
  return task->offered.manifest.round;
}

uint64_t skep_task_seed(const skep_task* task, uint32_t epoch) {
  return task->Seed(epoch);
}

skep_status skep_task_check(const skep_task* task) {
  return Guarded([&] {
    const skep::Status passed = task->Check();
    return passed.has_value() ? static_cast<skep_status>(SKEP_OK) : StatusOf(passed.error());
  });
}

double skep_task_number(const skep_task* task, const char* key, double fallback) {
  const std::string_view wanted = key == nullptr ? "" : key;
  if (wanted == "client.number") return task->offered.client;
  const skep::wire::Param* param = FindParam(*task, wanted);
  return param != nullptr && param->text.empty() ? param->number : fallback;
}

const char* skep_task_text(const skep_task* task, const char* key, const char* fallback) {
  const auto found = task->texts.find(key == nullptr ? std::string_view() : key);
  return found == task->texts.end() ? fallback : found->second.c_str();
}

skep_status skep_task_rewind(skep_task* task, uint64_t seed) {
  if (task->source == nullptr) return SKEP_E_ARGUMENT;
  return Guarded([&] {
    if (!task->stopped) {
      skep::Status done = task->source->Rewind(seed);
      if (!done.has_value()) task->stopped = std::move(done).error();
    }
    return task->stopped ? StatusOf(*task->stopped) : static_cast<skep_status>(SKEP_OK);
  });
}

skep_status skep_task_next(skep_task* task, size_t max_rows, skep_batch* out) {
  if (task->source == nullptr || out == nullptr || !HasSize(*out) || max_rows == 0) {
    return SKEP_E_ARGUMENT;
  }
  return Guarded([&] {
    if (!task->stopped) {
      skep::Result<skep_batch> batch = task->source->NextBatch(max_rows);
      if (batch.has_value()) Write(*batch, out);
      if (!batch.has_value()) task->stopped = std::move(batch).error();
    }
    return task->stopped ? StatusOf(*task->stopped) : static_cast<skep_status>(SKEP_OK);
  });
}

void skep_task_progress(skep_task* task, double fraction, double loss) {
  static_cast<void>(Guarded([&]() -> skep_status {
    if (task->on_progress) task->on_progress(fraction, loss);
    return SKEP_OK;
  }));
}

skep_status skep_task_metric(skep_task* task, const char* name, double value) {
  if (name == nullptr || *name == '\0') return SKEP_E_ARGUMENT;
  return Guarded([&]() -> skep_status {
    for (auto& [known, number] : task->metrics) {
      if (known != name) continue;
      number = value;
      return SKEP_OK;
    }
    if (task->metrics.size() == kMostMetrics) return SKEP_E_ARGUMENT;
    task->metrics.emplace_back(name, value);
    return SKEP_OK;
  });
}

void skep_task_fail(const skep_task* task, const char* local_message) {
  constexpr std::size_t kLongest = 1024;
  static_cast<void>(Guarded([&]() -> skep_status {
    if (local_message != nullptr)
      task->failure.assign(local_message, ::strnlen(local_message, kLongest));
    return SKEP_OK;
  }));
}
// NOLINTEND(readability-identifier-naming)
