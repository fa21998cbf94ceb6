#include "client/embed/report.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "client/agent/history.h"
#include "client/agent/identity.h"
#include "client/agent/renewal.h"
#include "client/agent/state.h"
#include "kernels/cuda/loader.h"

namespace skep::embed {
namespace {

namespace json = boost::json;

json::object ErrorJson(const Error& why) {
  return {{"code", why.code}, {"message", why.message}, {"advice", why.hint}};
}

json::object EntryJson(const agent::HistoryEntry& entry) {
  return {{"time", UtcText(entry.time)},
          {"time_ms", entry.time},
          {"run", entry.task.run_id.Hex()},
          {"round", entry.task.round},
          {"kind", entry.task.kind == wire::TaskKind::kEvaluate ? "evaluate" : "train"},
          {"attempt", entry.task.attempt},
          {"outcome", entry.outcome},
          {"code", entry.code},
          {"examples", entry.examples},
          {"up", entry.up},
          {"down", entry.down}};
}

json::object EnrolmentJson(const agent::Identity& identity) {
  json::array populations;
  for (const std::string& name : identity.populations) populations.emplace_back(name);
  return {{"device", identity.device.Hex()},
          {"endpoint", identity.endpoint},
          {"federation", identity.federation.Hex()},
          {"populations", std::move(populations)},
          {"certificate_ends_ms", identity.own.certificate.NotAfter()},
          {"renews_at_ms", agent::RenewsAt(identity)}};
}

void AddState(const agent::Storage& storage, json::object& status) {
  const Result<agent::State> loaded = agent::LoadState(storage);
  if (!loaded.has_value()) {
    status["state_error"] = ErrorJson(loaded.error());
    return;
  }
  agent::State state = *loaded;
  state.today.TurnTo(ReadClock().wall);
  status["next_check_in_ms"] = state.memory.next_check_in;
  status["up_today"] = state.today.up;
  status["down_today"] = state.today.down;
  if (state.memory.client) status["client"] = *state.memory.client;
}

void AddEligibility(const Options& options, json::object& status) {
  const agent::Conditions conditions = agent::ProbeConditions();
  const skep::Status fit = agent::CheckEligible(options.eligibility, conditions);
  status["eligible"] = fit.has_value();
  if (!fit.has_value()) status["not_eligible"] = fit.error().message;
  status["conditions"] = agent::ConditionsText(conditions);
}

}  // namespace

std::string TrainsOn(const Options& options) {
  const Result<kernels::DeviceChoice> choice = kernels::ParseDevice(options.device);
  const Result<kernels::ChosenDevice> chosen = choice.has_value()
                                                   ? kernels::ChooseDevice(*choice)
                                                   : Result<kernels::ChosenDevice>(choice.error());
  if (chosen.has_value()) return chosen->said;
  return fmt::format("nothing: {} (SKEP-{})", chosen.error().message, chosen.error().code);
}

std::string StatusJson(const agent::Storage& storage, const Options& options,
                       const std::optional<skep_outcome>& last, const std::string& trains_on) {
  json::object status{{"storage_dir", storage.folder()}, {"enrolled", agent::IsEnrolled(storage)}};
  if (agent::IsEnrolled(storage)) {
    const Result<agent::Identity> identity = agent::LoadIdentity(storage);
    if (identity.has_value()) {
      status["enrolment"] = EnrolmentJson(*identity);
    } else {
      status["enrolment_error"] = ErrorJson(identity.error());
    }
  }
  AddState(storage, status);
  AddEligibility(options, status);
  status["storage_bytes"] = storage.BytesUsed();
  if (const auto process = storage.LockedBy()) status["process"] = *process;
  const auto history = agent::ReadHistory(storage, 1);
  if (!history.empty()) status["last_task"] = EntryJson(history.front());
  if (!trains_on.empty()) status["trains_on"] = trains_on;
  if (last) {
    status["last"] = {{"status", skep_status_name(last->status)},
                      {"code", last->code},
                      {"retry_after_s", last->retry_after_s},
                      {"message", static_cast<const char*>(last->message)}};
  }
  return json::serialize(status);
}

std::string HistoryJson(const agent::Storage& storage) {
  json::array entries;
  for (const agent::HistoryEntry& entry :
       agent::ReadHistory(storage, std::numeric_limits<std::size_t>::max())) {
    entries.emplace_back(EntryJson(entry));
  }
  return json::serialize(json::object{{"contributions", std::move(entries)}});
}

}  // namespace skep::embed
