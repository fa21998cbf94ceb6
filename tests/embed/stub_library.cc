// The client functions of the stub: options, hooks, the state of a client, and its two JSON texts.
//
// NOLINTBEGIN(readability-identifier-naming): the names are those of skep/skep.h.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "tests/embed/stub_client.h"

namespace skep::test {
namespace {

// What flock does for the real library.
std::mutex folders_mutex;
std::set<std::string>& Folders() {
  static std::set<std::string> folders;
  return folders;
}

std::string Text(const char* text) {
  return text != nullptr ? text : "";
}

// Points the options' strings to copies.
void Copy(const skep_options& from, StubOptions& to) {
  to.values = from;
  const std::array strings{std::pair{&skep_options::join_string, &to.join_string},
                           std::pair{&skep_options::endpoint, &to.endpoint},
                           std::pair{&skep_options::population, &to.population},
                           std::pair{&skep_options::app_version, &to.app_version},
                           std::pair{&skep_options::storage_dir, &to.storage_dir},
                           std::pair{&skep_options::policy_json, &to.policy_json},
                           std::pair{&skep_options::device, &to.device},
                           std::pair{&skep_options::proxy, &to.proxy}};
  for (const auto& [field, copy] : strings) {
    *copy = Text(from.*field);
    to.values.*field = copy->c_str();
  }
}

// The name of the first option that is out of range, or empty.
std::string OutOfRange(const skep_options& o) {
  if (Text(o.storage_dir).empty()) return "storage_dir";
  if (!(o.min_battery >= 0 && o.min_battery <= 1)) return "min_battery";
  if (!(o.max_cpu >= 0.05F && o.max_cpu <= 1)) return "max_cpu";
  if (o.max_threads < 1 || o.max_threads > 64) return "max_threads";
  if (o.max_memory < (16U << 20)) return "max_memory";
  if (o.max_storage < (16U << 20)) return "max_storage";
  if (o.max_bytes_per_day < (1U << 20)) return "max_bytes_per_day";
  if (o.max_seconds_per_run < 10 || o.max_seconds_per_run > 21600) return "max_seconds_per_run";
  if (o.min_seconds_between_runs > 2592000) return "min_seconds_between_runs";
  if (o.log_level < SKEP_LOG_ERROR || o.log_level > SKEP_LOG_DEBUG) return "log_level";
  return {};
}

// What is wrong with the arguments of skep_client_new, as (code, message); code 0: nothing.
std::pair<std::int32_t, std::string> Misuse(const skep_options* options,
                                            const skep_data_source* data,
                                            const skep_trainer* trainer) {
  if (options == nullptr || options->struct_size < sizeof(skep_options))
    return {7002, "struct_size of skep_options"};
  if (data == nullptr) return {7003, "a data source is required"};
  if (data->struct_size < sizeof(skep_data_source))
    return {7002, "struct_size of skep_data_source"};
  if (data->count == nullptr || data->rewind == nullptr || data->next == nullptr)
    return {7003, "a data source has three functions"};
  if (trainer != nullptr && trainer->struct_size < sizeof(skep_trainer))
    return {7002, "struct_size of skep_trainer"};
  const std::string name = OutOfRange(*options);
  if (!name.empty()) return {7001, name + " is out of range"};
  return {0, {}};
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string OptionsJson(const StubOptions& o) {
  std::ostringstream out;
  const skep_options& v = o.values;
  out << "{\"join_string\":" << Quoted(o.join_string) << ",\"endpoint\":" << Quoted(o.endpoint)
      << ",\"population\":" << Quoted(o.population) << ",\"app_version\":" << Quoted(o.app_version)
      << ",\"storage_dir\":" << Quoted(o.storage_dir)
      << ",\"policy_json\":" << Quoted(o.policy_json) << ",\"device\":" << Quoted(o.device)
      << ",\"proxy\":" << Quoted(o.proxy) << ",\"log_level\":" << v.log_level
      << ",\"require_charging\":" << int{v.require_charging}
      << ",\"require_idle\":" << int{v.require_idle}
      << ",\"require_unmetered\":" << int{v.require_unmetered}
      << ",\"min_battery\":" << v.min_battery << ",\"max_cpu\":" << v.max_cpu
      << ",\"max_threads\":" << v.max_threads << ",\"max_memory\":" << v.max_memory
      << ",\"max_storage\":" << v.max_storage << ",\"max_bytes_per_day\":" << v.max_bytes_per_day
      << ",\"max_seconds_per_run\":" << v.max_seconds_per_run
      << ",\"min_seconds_between_runs\":" << v.min_seconds_between_runs << '}';
  return out.str();
}

// The contract of the two JSON calls: see skep_client_history_json.
skep_status Give(const std::string& text, char* buf, std::size_t* len) {
  if (len == nullptr) return SKEP_E_ARGUMENT;
  if (*len < text.size() + 1) {
    *len = text.size() + 1;
    return SKEP_E_BUFFER;
  }
  std::memcpy(buf, text.c_str(), text.size() + 1);
  *len = text.size();
  return SKEP_OK;
}

// Writes what fits into the caller's structure.
skep_status Fill(skep_outcome* to, const skep_outcome& from) {
  if (to != nullptr) {
    const std::uint32_t size = to->struct_size;
    std::memcpy(to, &from, std::min<std::size_t>(size, sizeof from));
    if (size >= sizeof size) to->struct_size = size;
  }
  return from.status;
}

// SKEP_OK, or why the client can not be used now. With client.mutex held.
skep_status Idle(const skep_client& client) {
  if (client.is_forgotten) return SKEP_E_ARGUMENT;
  return client.is_running || client.is_started ? SKEP_E_BUSY : SKEP_OK;
}

template <class F>
skep_status SetHook(skep_client* client, Hook<F> skep_client::*hook, F fn, void* user) {
  const std::lock_guard lock(client->mutex);
  const skep_status status = Idle(*client);
  if (status == SKEP_OK) client->*hook = {fn, user};
  return status;
}

skep_outcome RunAndTell(skep_client& client, std::uint32_t budget_s) {
  const skep_outcome outcome = Run(client, budget_s);
  {
    const std::lock_guard lock(client.mutex);
    client.last = outcome;
  }
  if (client.on_outcome.fn != nullptr) client.on_outcome.fn(client.on_outcome.user, &outcome);
  const std::lock_guard lock(client.mutex);
  client.is_running = false;
  return outcome;
}

// One run, then quiet until stop.
void Loop(skep_client* client) {
  static_cast<void>(RunAndTell(*client, client->options.values.max_seconds_per_run));
  std::unique_lock lock(client->mutex);
  client->changed.wait(lock, [&] { return client->is_stopping; });
}

}  // namespace

StubScript ParseScript(const std::string& text) {
  StubScript script;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const int value = equals == std::string::npos ? 0 : std::stoi(word.substr(equals + 1));
    if (name == "wait") script.has_wait = true;
    if (name == "evaluate") script.is_evaluation = true;
    if (name == "status") script.status = value;
    if (name == "code") script.code = value;
    if (name == "retry") script.retry_s = static_cast<std::uint32_t>(value);
    if (name == "steps") script.steps = static_cast<std::uint32_t>(value);
    if (name == "epochs") script.epochs = static_cast<std::uint32_t>(value);
    if (name == "classes") script.classes = static_cast<std::uint32_t>(value);
    if (name == "batch") script.batch_size = static_cast<std::uint32_t>(value);
  }
  return script;
}

}  // namespace skep::test

using namespace skep::test;  // NOLINT(google-build-using-namespace)

uint32_t skep_abi_version(void) {
  return SKEP_ABI_VERSION;
}

const char* skep_version(void) {
  return "0.1.0";
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
  return code == 7401 ? "The device declined a task: it is not charging, idle or unmetered."
                      : nullptr;
}

void skep_options_init(skep_options* options, size_t size) {
  skep_options defaults{};
  defaults.struct_size = static_cast<std::uint32_t>(size);
  defaults.log_level = SKEP_LOG_INFO;
  defaults.require_charging = defaults.require_idle = defaults.require_unmetered = 1;
  defaults.min_battery = 0.3F;
  defaults.max_cpu = 0.7F;
  defaults.max_threads = 1;
  defaults.max_memory = 256U << 20;
  defaults.max_storage = 512U << 20;
  defaults.max_bytes_per_day = 64U << 20;
  defaults.max_seconds_per_run = 600;
  defaults.min_seconds_between_runs = 900;
  defaults.device = "auto";
  std::memset(options, 0, size);
  std::memcpy(options, &defaults, std::min(size, sizeof defaults));
}

skep_status skep_client_new(const skep_options* options, const skep_data_source* data,
                            const skep_trainer* trainer, skep_client** out, skep_outcome* why_not) {
  *out = nullptr;
  skep_outcome why{};
  const auto [code, message] = Misuse(options, data, trainer);
  if (code != 0) {
    Say(why, SKEP_E_ARGUMENT, code, message);
    return Fill(why_not, why);
  }
  auto client = std::make_unique<skep_client>();
  Copy(*options, client->options);
  {
    const std::lock_guard lock(folders_mutex);
    if (!Folders().insert(client->options.storage_dir).second) {
      Say(why, SKEP_E_BUSY, 4002, "another client has this storage_dir");
      return Fill(why_not, why);
    }
  }
  client->script = ParseScript(client->options.endpoint);
  client->data = *data;
  if (trainer != nullptr) client->trainer = *trainer;
  *out = client.release();
  return SKEP_OK;
}

void skep_client_free(skep_client* client) {
  if (client == nullptr) return;
  skep_client_stop(client);
  {
    const std::lock_guard lock(folders_mutex);
    Folders().erase(client->options.storage_dir);
  }
  delete client;
}

skep_status skep_client_on_device_state(skep_client* client, skep_state_fn fn, void* user) {
  return SetHook(client, &skep_client::on_device_state, fn, user);
}

skep_status skep_client_on_progress(skep_client* client, skep_progress_fn fn, void* user) {
  return SetHook(client, &skep_client::on_progress, fn, user);
}

skep_status skep_client_on_outcome(skep_client* client, skep_outcome_fn fn, void* user) {
  return SetHook(client, &skep_client::on_outcome, fn, user);
}

skep_status skep_client_on_log(skep_client* client, skep_log_fn fn, void* user) {
  return SetHook(client, &skep_client::on_log, fn, user);
}

skep_status skep_client_enrol(skep_client* client, const char* name, skep_outcome* outcome) {
  client->name = name != nullptr ? name : "";
  skep_outcome done{};
  Say(done, SKEP_OK, 0, "joined");
  return Fill(outcome, done);
}

skep_status skep_status_json(const skep_options* options, char* buf, size_t* len, skep_outcome*) {
  return Give("{\"storage_dir\":" + Quoted(Text(options->storage_dir)) + "}", buf, len);
}

skep_status skep_history_json(const skep_options*, char* buf, size_t* len, skep_outcome*) {
  return Give("{\"contributions\":[]}", buf, len);
}

skep_status skep_diagnose(const skep_options* options, skep_step_fn fn, void* user) {
  fn(user, "folder", 0, options->storage_dir, "");
  fn(user, "tcp", 3001, "cannot reach it", "start it");
  return SKEP_E_NETWORK;
}

skep_status skep_client_run_once(skep_client* client, uint32_t budget_s, skep_outcome* outcome) {
  {
    std::unique_lock lock(client->mutex);
    const skep_status status = Idle(*client);
    if (status != SKEP_OK) {
      lock.unlock();
      skep_outcome why{};
      Say(why, status, status == SKEP_E_ARGUMENT ? 7004 : 4002, "the client cannot run now");
      return Fill(outcome, why);
    }
    client->is_running = true;
    client->is_cancelled = false;
  }
  return Fill(outcome, RunAndTell(*client, budget_s));
}

skep_status skep_client_start(skep_client* client) {
  const std::lock_guard lock(client->mutex);
  const skep_status status = Idle(*client);
  if (status != SKEP_OK) return status;
  client->is_started = client->is_running = true;
  client->is_cancelled = client->is_stopping = false;
  client->thread = std::thread(Loop, client);
  return SKEP_OK;
}

void skep_client_stop(skep_client* client) {
  {
    const std::lock_guard lock(client->mutex);
    if (!client->is_started) return;
    client->is_stopping = client->is_cancelled = true;
  }
  client->changed.notify_all();
  client->thread.join();
  const std::lock_guard lock(client->mutex);
  client->is_started = false;
}

void skep_client_cancel(skep_client* client) {
  {
    const std::lock_guard lock(client->mutex);
    client->is_cancelled = client->is_running;
  }
  client->changed.notify_all();
}

skep_status skep_client_forget(skep_client* client) {
  const std::lock_guard lock(client->mutex);
  const skep_status status = Idle(*client);
  if (status == SKEP_OK) {
    client->history.clear();
    client->is_forgotten = true;
  }
  return status;
}

skep_status skep_client_history_json(const skep_client* client, char* buf, size_t* len) {
  std::ostringstream out;
  const std::lock_guard lock(client->mutex);
  if (client->is_forgotten) return SKEP_E_ARGUMENT;
  out << "{\"contributions\":[";
  for (auto c = client->history.rbegin(); c != client->history.rend(); ++c) {
    out << (c == client->history.rbegin() ? "" : ",") << "{\"round\":" << c->round
        << ",\"kind\":" << (c->is_evaluation ? "\"evaluate\"" : "\"train\"")
        << ",\"examples\":" << c->examples << ",\"metrics\":[";
    for (std::size_t i = 0; i < c->metrics.size(); ++i)
      out << (i == 0 ? "" : ",") << Quoted(c->metrics[i]);
    out << "]}";
  }
  out << "]}";
  return Give(out.str(), buf, len);
}

skep_status skep_client_status_json(const skep_client* client, char* buf, size_t* len) {
  std::ostringstream out;
  const std::lock_guard lock(client->mutex);
  if (client->is_forgotten) return SKEP_E_ARGUMENT;
  out << "{\"last\":{\"status\":" << Quoted(skep_status_name(client->last.status))
      << ",\"code\":" << client->last.code << "},\"capabilities\":"
      << (client->trainer ? std::to_string(client->trainer->capabilities) : "null")
      << ",\"options\":" << OptionsJson(client->options) << '}';
  return Give(out.str(), buf, len);
}
// NOLINTEND(readability-identifier-naming)
