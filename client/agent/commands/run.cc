#include "client/agent/commands/run.h"

#include <csignal>
#include <utility>

#include "client/agent/agent.h"
#include "client/agent/settings.h"
#include "kernels/cuda/loader.h"
#include "shared/base/try.h"
#include "shared/config/value.h"

namespace skep::agent {
namespace {

LogOptions LogOptionsOf(const GlobalOptions& options, const config::ClientConfig& config) {
  LogOptions log;
  log.format = config.log_format == "json" ? LogFormat::kJson : LogFormat::kShortText;
  log.level = ParseLogLevel(config.log_level).value_or(LogLevel::kInfo);
  if (options.is_quiet) log.level = LogLevel::kError;
  return log;
}

Result<AgentSettings> SettingsOf(const GlobalOptions& options, const RunOptions& run,
                                 const config::ClientConfig& config, const Identity& identity) {
  AgentSettings settings;
  settings.software = options.Software();
  SKEP_ASSIGN(settings.endpoint, EndpointOf(config, identity));
  SKEP_ASSIGN(settings.population, PopulationOf(config, identity));
  SKEP_ASSIGN(settings.isa, TrainingIsa(config));
  settings.config = config;
  settings.once = run.once;
  if (run.budget.empty()) return settings;
  settings.budget = config::ParseDuration(run.budget);
  if (!settings.budget || *settings.budget <= Nanoseconds{}) {
    return Error{1101, "--budget takes a duration such as \"5m\", not \"" + run.budget + "\"", ""};
  }
  return settings;
}

Result<Outcome> Run(const GlobalOptions& options, const RunOptions& run,
                    const config::ClientConfig& config) {
  SKEP_TRY(CheckDataSource(config));
  SKEP_ASSIGN(Storage storage, Storage::Open(config.storage_dir));
  SKEP_ASSIGN(Identity identity, LoadIdentity(storage));
  SKEP_ASSIGN(State state, LoadState(storage));
  SKEP_ASSIGN(AgentSettings settings, SettingsOf(options, run, config, identity));
  Log log(LogOptionsOf(options, config));
  SKEP_ASSIGN(const kernels::DeviceChoice choice, kernels::ParseDevice(config.limits.device));
  // Before anybody is told that this device is there.
  SKEP_ASSIGN(kernels::ChosenDevice chosen, kernels::ChooseDevice(choice));
  if (chosen.device != nullptr) {
    SKEP_ASSIGN(settings.device.budget_bytes, client::DeviceBudget(*chosen.device));
  }
  settings.device.api = std::move(chosen.device);
  settings.device.is_required = choice.kind == kernels::DeviceChoice::Kind::kCuda;
  if (choice.kind != kernels::DeviceChoice::Kind::kCpu) log.Info("trains on " + chosen.said);
  log.Info("device " + identity.device.Hex().substr(0, 6) + " trains for " + settings.population +
           " at " + net::EndpointText(settings.endpoint));
  Loop loop;
  Agent agent(std::move(settings), storage, identity, state, loop, log);
  return agent.Run();
}

}  // namespace

int RunRun(const GlobalOptions& options, const RunOptions& run) {
  const auto config = LoadConfig(options);
  if (!config.has_value()) return Fail(options, config.problems());
  const Result<Outcome> outcome = Run(options, run, *config);
  if (!outcome.has_value()) return Fail(options, outcome.error());
  if (outcome->signal == SIGINT) return kInterrupted;
  if (outcome->signal == SIGTERM) return kTerminated;
  if (outcome->code != 0) return Fail(options, Error{outcome->code, outcome->why, ""});
  if (outcome->is_late) return kTimedOut;
  return Succeed(options, {{"outcome", outcome->why}}, "");
}

}  // namespace skep::agent
