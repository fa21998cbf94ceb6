#include "client/cli/run.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <utility>

#include "client/cli/data_source.h"
#include "client/cli/settings.h"
#include "client/cli/signals.h"
#include "crypto/pki/join_string.h"
#include "crypto/secret.h"
#include "shared/base/bytes.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/try.h"
#include "shared/config/value.h"

namespace skep::cli {
namespace {

LogOptions LogOptionsOf(const GlobalOptions& options, const config::ClientConfig& config) {
  LogOptions log;
  log.sink = StandardErrorSink();
  log.format = config.log_format == "json" ? LogFormat::kJson : LogFormat::kShortText;
  log.level = ParseLogLevel(config.log_level).value_or(LogLevel::kInfo);
  if (options.is_quiet) log.level = LogLevel::kError;
  return log;
}

LogLevel LevelOf(std::int32_t level) {
  switch (level) {
    case SKEP_LOG_ERROR:
      return LogLevel::kError;
    case SKEP_LOG_WARNING:
      return LogLevel::kWarning;
    case SKEP_LOG_INFO:
      return LogLevel::kInfo;
    default:
      return LogLevel::kDebug;
  }
}

// A line of the library: "SKEP-2104 update refused" or without a number.
void WriteLine(void* user, std::int32_t level, const char* line) {
  constexpr std::string_view kPrefix = "SKEP-";
  LogRecord record{.level = LevelOf(level), .message = line};
  const std::size_t end = record.message.find(' ');
  if (record.message.starts_with(kPrefix) && end != std::string::npos) {
    record.code = std::atoi(record.message.c_str() + kPrefix.size());
    record.message.erase(0, end + 1);
  }
  static_cast<Log*>(user)->Write(record);
}

// Until a signal, the end of the budget, or an outcome after which nothing can get better.
class Service {
 public:
  Service(skep_client* client, Signals& signals) : client_(client), signals_(signals) {}

  // SKEP-nnnn that ended it, or nothing.
  Result<std::optional<Error>> Run(std::optional<Nanoseconds> budget) {
    skep_client_on_outcome(client_, &Service::Hear, this);
    const skep_status started = skep_client_start(client_);
    if (started != SKEP_OK) return Error{9002, "the client did not start", ""};
    signals_.Wait(budget);
    skep_client_stop(client_);
    return ended_by_;
  }

 private:
  static void Hear(void* user, const skep_outcome* outcome) {
    auto* self = static_cast<Service*>(user);
    // Another process with this device's identity; a disk that takes nothing any more; a GPU that
    // must be this one.
    const bool is_final = outcome->code == 3334 || outcome->status == SKEP_E_STORAGE ||
                          (outcome->code >= 7201 && outcome->code <= 7299) ||
                          outcome->status == SKEP_E_ARGUMENT;
    if (!is_final || self->ended_by_) return;
    self->ended_by_ = ErrorOf(*outcome);
    self->signals_.Wake();
  }

  skep_client* client_;
  Signals& signals_;
  std::optional<Error> ended_by_;  // written before Wake, read after stop
};

Result<std::optional<Nanoseconds>> BudgetOf(const RunOptions& run) {
  if (run.budget.empty()) return std::optional<Nanoseconds>();
  const std::optional<Nanoseconds> budget = config::ParseDuration(run.budget);
  if (budget && *budget > Nanoseconds{}) return budget;
  return Error{1101, "--budget takes a duration such as \"5m\", not \"" + run.budget + "\"", ""};
}

int Once(const GlobalOptions& options, skep_client* client, Signals& signals,
         const std::optional<Nanoseconds>& budget) {
  constexpr std::uint32_t kNoLimit = UINT32_MAX;
  const auto seconds = [](Nanoseconds span) {
    return static_cast<std::uint32_t>(std::chrono::ceil<std::chrono::seconds>(span).count());
  };
  skep_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  signals.OnSignal([client](int) { skep_client_cancel(client); });
  skep_client_run_once(client, budget ? seconds(*budget) : kNoLimit, &outcome);
  if (signals.number() != 0) return 128 + signals.number();
  if (outcome.status == SKEP_LIMIT && outcome.code == 7410) return kTimedOut;
  if (outcome.code != 0) return Fail(options, ErrorOf(outcome));
  return Succeed(options, {{"outcome", outcome.message}}, "");
}

// Leaves a device that has an identity as it is, be the file there or not.
Status EnrolUnlessDone(ClientOptions& settings, const std::string& join_file) {
  constexpr std::uint64_t kLongestText = 4096;
  if (const Status enrolled = CheckEnrolled(settings);
      enrolled.has_value() || enrolled.error().code != 4004) {
    return enrolled;
  }
  SKEP_ASSIGN(Bytes content, ReadFile(join_file, kLongestText, 1010));
  std::string text(AsText(content));
  crypto::Wipe(content);
  const Result<crypto::JoinString> parsed = crypto::ParseJoinString(text);
  if (parsed.has_value()) settings.SetJoinString(text);
  crypto::Wipe({reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  if (!parsed.has_value()) return parsed.error();
  SKEP_ASSIGN(const ClientPtr client, OpenClient(settings, NoData()));
  skep_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  if (skep_client_enrol(client.get(), "", &outcome) != SKEP_OK) return ErrorOf(outcome);
  return Ok();
}

Result<int> Run(const GlobalOptions& options, const RunOptions& run,
                const config::ClientConfig& config) {
  SKEP_TRY(CheckDataSource(config));
  SKEP_ASSIGN(const std::optional<Nanoseconds> budget, BudgetOf(run));
  ClientOptions settings(options, config);
  SKEP_ASSIGN(const std::string isa, TrainingIsa(config));
  if (isa != "auto") settings.SetDevice("cpu:" + isa);
  if (run.join_file.empty()) {
    SKEP_TRY(CheckEnrolled(settings));
  } else {
    SKEP_TRY(EnrolUnlessDone(settings, run.join_file));
  }
  Log log(LogOptionsOf(options, config));
  FileSource source(config, [&log](int code, const std::string& text) { log.Warning(code, text); });
  Signals signals;  // first: threads of the library inherit what is blocked
  SKEP_ASSIGN(const ClientPtr client, OpenClient(settings, source.functions()));
  skep_client_on_log(client.get(), &WriteLine, &log);
  signals.OnSignal([&log](int number) {
    log.Info(number == SIGINT ? "stopping (SIGINT; again: at once)" : "stopping (SIGTERM)");
  });
  if (run.once) return Once(options, client.get(), signals, budget);
  Service service(client.get(), signals);
  SKEP_ASSIGN(const std::optional<Error> ended_by, service.Run(budget));
  if (signals.number() != 0) return 128 + signals.number();
  return ended_by ? Fail(options, *ended_by) : Succeed(options, {{"outcome", "stopped"}}, "");
}

}  // namespace

int RunRun(const GlobalOptions& options, const RunOptions& run) {
  const auto config = LoadConfig(options);
  if (!config.has_value()) return Fail(options, config.problems());
  const Result<int> code = Run(options, run, *config);
  return code.has_value() ? *code : Fail(options, code.error());
}

}  // namespace skep::cli
