// What the server says and does about the engine's events.
#include <algorithm>

#include <fmt/format.h>

#include "aggregator/server/server_impl.h"
#include "shared/net/endpoint.h"

namespace skep::aggregator {
namespace {

std::string MetricsText(const std::vector<Metric>& metrics) {
  std::string text;
  for (const Metric& metric : metrics) {
    text += fmt::format("{}{}={:.6g}", text.empty() ? "" : " ", metric.name, metric.value);
  }
  return text;
}

std::string_view StateName(RunState state) {
  switch (state) {
    case RunState::kRunning:
      return "running";
    case RunState::kPaused:
      return "paused";
    case RunState::kStopped:
      return "stopped";
    case RunState::kFinished:
      return "finished";
    case RunState::kHalted:
      return "halted";
  }
  return "";
}

}  // namespace

std::string Server::Impl::NameOf(const RunId& run) const {
  const auto known = runs_.find(run);
  return known == runs_.end() ? run.Hex().substr(0, 8) : known->second.row.name;
}

// By log.addresses: full, truncate (to /24 or /48), none.
std::string Server::Impl::LoggedAddress(const std::string& address) const {
  const std::string& how = setup_.config.log.addresses;
  if (how == "none") return "-";
  if (how == "full") return address;
  const bool is_v6 = address.find(':') != std::string::npos;
  std::size_t end = 0;
  for (int parts = 0; parts < 3 && end != std::string::npos; ++parts) {
    end = address.find(is_v6 ? ':' : '.', end == 0 ? 0 : end + 1);
  }
  if (end == std::string::npos) return address;
  return address.substr(0, end) + (is_v6 ? "::/48" : ".0/24");
}

void Server::Impl::OnEvent(const ClientOutcome& outcome) {
  if (outcome.outcome == Outcome::kOk) {
    log_.Write({.level = LogLevel::kDebug,
                .event = "update.acknowledged",
                .message = "update acknowledged",
                .fields = {{"run", NameOf(outcome.key.run)},
                           {"round", std::int64_t{outcome.key.round}},
                           {"device", outcome.device.Hex().substr(0, 6)}}});
  }
  if (outcome.outcome != Outcome::kRejected) return;
  log_.Write({.level = LogLevel::kWarning,
              .code = outcome.code,
              .event = "update.rejected",
              .message = "update rejected: " + outcome.detail,
              .fields = {{"run", NameOf(outcome.key.run)},
                         {"round", std::int64_t{outcome.key.round}},
                         {"device", outcome.device.Hex().substr(0, 6)}}});
}

void Server::Impl::OnEvent(const AttemptEnded& ended) {
  counts_[ended.key] = ended.counts;
  if (ended.published) {
    const bool trains = ended.key.kind == TaskKind::kTrain;
    log_.Write(
        {.event = trains ? "round.published" : "round.evaluated",
         .message = fmt::format("round {} {}: {} of {} reported {}", ended.key.round,
                                trains ? "published" : "evaluated by clients", ended.counts.ok,
                                ended.counts.invited, MetricsText(ended.metrics)),
         .fields = {{"run", NameOf(ended.key.run)}, {"model", ended.model.Hex()}}});
    return;
  }
  log_.Write({.level = LogLevel::kWarning,
              .code = ended.code,
              .event = "round.abandoned",
              .message = ended.reason,
              .fields = {{"run", NameOf(ended.key.run)},
                         {"round", std::int64_t{ended.key.round}},
                         {"attempt", std::int64_t{ended.key.attempt}}}});
}

void Server::Impl::OnEvent(const CentralEvaluated& evaluated) {
  log_.Write(
      {.event = "round.evaluated",
       .message = MetricsText(evaluated.metrics),
       .fields = {{"run", NameOf(evaluated.run)}, {"round", std::int64_t{evaluated.round}}}});
}

void Server::Impl::OnEvent(const SelectionOpened&) {}

void Server::Impl::OnEvent(const RunEnded& ended) {
  const bool is_over = ended.state != RunState::kPaused && ended.state != RunState::kRunning;
  const auto known = runs_.find(ended.run);
  if (is_over && known != runs_.end() && known->second.spec) workshop_->EndRun(known->second.spec);
  const std::string name(StateName(ended.state));
  log_.Write({.level = ended.code == 0 ? LogLevel::kInfo : LogLevel::kWarning,
              .code = ended.code,
              .event = ended.state == RunState::kPaused     ? "run.paused"
                       : ended.state == RunState::kStopped  ? "run.stopped"
                       : ended.state == RunState::kFinished ? "run.finished"
                                                            : "run.halted",
              .message = ended.reason.empty() ? "run " + name : "run " + name + ": " + ended.reason,
              .fields = {{"run", NameOf(ended.run)}}});
}

void Server::Impl::OnEvent(const DeviceStruck& struck) {
  workshop_->OnStore([this, struck] {
    const WallMs now = ReadClock().wall;
    Status stored = store_.SetStrikes(struck.device, struck.strikes);
    if (stored && struck.is_at_limit) {
      stored = store_.SetDeviceState(struck.device, DeviceState::kQuarantined, "aggregator",
                                     fmt::format("SKEP-{}", struck.code), now);
    }
    network_->Post([this, struck, stored] {
      CheckStore(stored);
      if (!stored || !struck.is_at_limit) return;
      quarantines_[struck.device] = Time().steady + setup_.config.admission.quarantine;
      log_.Write(
          {.level = LogLevel::kWarning,
           .code = 2117,
           .event = "device.quarantined",
           .message = fmt::format("device quarantined after {} refused updates", struck.strikes),
           .fields = {{"device", struck.device.Hex().substr(0, 6)}}});
      Enlist(struck.device, DeviceState::kQuarantined);
    });
  });
}

void Server::Impl::OnEvent(const StoreWaiting& waiting) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waiting.lasted).count();
  if (waiting.step == StoreWaiting::Step::kEnded) {
    log_.Write({.event = "disk.ok",
                .message = fmt::format("the store writes again, after {} s", seconds)});
    return;
  }
  const bool is_new = waiting.step == StoreWaiting::Step::kBegan;
  log_.Write({.level = LogLevel::kError,
              .code = waiting.error.code,
              .event = "disk.critical",
              .message = fmt::format(
                  "the store cannot write{}: {}; runs wait, new updates are refused, and it is "
                  "tried again by itself",
                  is_new ? "" : fmt::format(" since {} s", seconds), waiting.error.message),
              .fields = {{"writes", static_cast<std::int64_t>(waiting.writes)}}});
}

}  // namespace skep::aggregator
