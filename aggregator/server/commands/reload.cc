#include "aggregator/server/commands/reload.h"

#include <csignal>
#include <utility>

#include "aggregator/server/commands/check.h"

namespace skep::aggregator {
namespace {

sigset_t HangUp() {
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

Reload::Reload(const GlobalOptions& options, config::Effective current, Log& log)
    : options_(options), current_(std::move(current)), log_(log) {
  const sigset_t set = HangUp();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Reload::~Reload() {
  if (!thread_.joinable()) return;
  ends_ = true;
  ::pthread_kill(thread_.native_handle(), SIGHUP);
  thread_.join();
}

void Reload::Begin(Server& server) {
  server_ = &server;
  thread_ = std::thread([this] { Wait(); });
}

void Reload::Wait() {
  const sigset_t set = HangUp();
  int signal = 0;
  while (::sigwait(&set, &signal) == 0 && !ends_) Again();
}

void Reload::Again() {
  auto loaded = config::LoadServerConfig(options_.config);
  if (!loaded) {
    for (const config::Problem& problem : loaded.problems()) {
      const std::string place = problem.place.Text();
      Reject(problem.code, place + (place.empty() ? "" : ": ") + problem.message);
    }
    return;
  }
  std::vector<Error> errors = ResolveCredentials(loaded->value);
  const InstallationProblems found = InspectInstallation(loaded->value, ReadClock().wall);
  errors.insert(errors.end(), found.errors.begin(), found.errors.end());
  for (const Error& error : errors) Reject(error.code, error.message);
  if (!errors.empty() || !server_->Reload(loaded->value)) return;
  std::string taken;
  std::string restart;
  TakeOver(loaded->effective, taken, restart);
  std::string message = taken.empty() ? "nothing changed" : "taken over: " + taken;
  if (!restart.empty()) message += "; only a restart takes over: " + restart;
  // Said at whichever level lets it be said.
  const LogLevel level = ParseLogLevel(loaded->value.log.level).value_or(LogLevel::kInfo);
  if (level <= LogLevel::kInfo) log_.SetLevel(level);
  log_.Write({.event = "config.reloaded", .message = message});
  log_.SetLevel(level);
}

void Reload::Reject(int code, const std::string& message) {
  log_.Write({.level = LogLevel::kError,
              .code = code,
              .event = "config.rejected",
              .message = "the old values stay: " + message});
}

void Reload::TakeOver(const config::Effective& next, std::string& taken, std::string& restart) {
  for (const config::Setting& setting : next.settings()) {
    config::Setting& running = current_.at(setting.key->path);
    const auto text = [](const config::Setting& one) {
      return one.value ? config::ToToml(*one.value) : std::string();
    };
    if (text(setting) == text(running)) continue;
    const bool is_taken = setting.key->row->is_reloadable;
    std::string& list = is_taken ? taken : restart;
    list += (list.empty() ? "" : ", ") + std::string(setting.key->path);
    if (!is_taken) continue;
    list += " = " + text(setting);
    running = setting;
  }
}

}  // namespace skep::aggregator
