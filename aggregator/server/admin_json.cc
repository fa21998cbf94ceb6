#include "aggregator/server/admin_json.h"

#include <boost/json/value_to.hpp>

#include <array>
#include <cmath>

namespace skep::aggregator {
namespace {

namespace json = boost::json;

std::int64_t Ms(Nanoseconds duration) {
  return std::chrono::duration_cast<Milliseconds>(duration).count();
}

json::array MetricsJson(const std::vector<Metric>& metrics) {
  json::array array;
  for (const Metric& metric : metrics) {
    if (!std::isfinite(metric.value)) continue;
    json::object one{{"name", metric.name}, {"value", metric.value}};
    if (metric.clients > 0) one["clients"] = metric.clients;
    array.push_back(std::move(one));
  }
  return array;
}

json::object CountsJson(const AttemptCounts& counts) {
  return {{"invited", counts.invited}, {"declined", counts.declined}, {"started", counts.started},
          {"ok", counts.ok},           {"rejected", counts.rejected}, {"failed", counts.failed},
          {"dropped", counts.dropped}, {"late", counts.late}};
}

// {"declined":[{"code":7413,"count":4}]}: the outcomes that have any.
json::object CodesJson(const std::vector<CodeCount>& codes) {
  json::object object;
  for (const CodeCount& one : codes) {
    const char* outcome = one.state == AssignmentState::kDeclined  ? "declined"
                          : one.state == AssignmentState::kRefused ? "rejected"
                                                                   : "failed";
    if (!object.contains(outcome)) object[outcome] = json::array();
    object[outcome].as_array().push_back({{"code", one.code}, {"count", one.count}});
  }
  return object;
}

std::string_view WordFor(TaskKind kind) {
  switch (kind) {
    case TaskKind::kEvaluate:
      return "evaluate";
    case TaskKind::kRehearse:
      return "rehearse";
    default:
      return "train";
  }
}

json::object RoundJson(const RoundView& round) {
  const RoundRow& row = round.row;
  json::object object{{"round", row.key.round},        {"kind", std::string(WordFor(row.key.kind))},
                      {"attempt", row.key.attempt},    {"state", std::string(WordFor(row.state))},
                      {"opened_ms", row.opened},       {"deadline_ms", row.deadline},
                      {"model_in", row.model_in.Hex()}};
  if (!row.model_out.IsZero()) object["model_out"] = row.model_out.Hex();
  if (row.total_weight > 0) object["total_weight"] = row.total_weight;
  if (!row.reason.empty()) object["reason"] = row.reason;
  object["metrics"] = MetricsJson(row.metrics);
  if (round.counts) object["counts"] = CountsJson(*round.counts);
  object["codes"] = CodesJson(round.codes);
  return object;
}

const json::value* Member(const json::value& from, std::string_view key) {
  const json::object* object = from.if_object();
  return object != nullptr ? object->if_contains(key) : nullptr;
}

std::string TextAt(const json::value& from, std::string_view key) {
  const json::value* found = Member(from, key);
  return found != nullptr && found->is_string() ? json::value_to<std::string>(*found) : "";
}

std::int64_t NumberAt(const json::value& from, std::string_view key) {
  const json::value* found = Member(from, key);
  if (found == nullptr) return 0;
  boost::system::error_code ignored;
  return found->to_number<std::int64_t>(ignored);
}

void AddUnlessEmpty(json::object& object, const char* key, const std::string& text) {
  if (!text.empty()) object[key] = text;
}

}  // namespace

std::string_view WordFor(RunState state) {
  constexpr std::array<std::string_view, 5> kWords{"running", "paused", "stopped", "finished",
                                                   "halted"};
  return kWords[static_cast<std::size_t>(state)];
}
std::string_view WordFor(DeviceState state) {
  constexpr std::array<std::string_view, 3> kWords{"active", "quarantined", "revoked"};
  return kWords[static_cast<std::size_t>(state)];
}
std::string_view WordFor(RoundState state) {
  constexpr std::array<std::string_view, 4> kWords{"open", "closing", "published", "abandoned"};
  return kWords[static_cast<std::size_t>(state)];
}

json::object ToJson(const StatusView& status) {
  json::array listeners;
  for (const ListenerView& listener : status.listeners) {
    listeners.push_back({{"name", listener.name}, {"address", listener.address}});
  }
  json::object object{{"state", status.is_draining ? "draining" : "ready"},
                      {"uptime_ms", Ms(status.uptime)},
                      {"federation", status.federation.Hex()},
                      {"epoch", status.epoch},
                      {"listeners", std::move(listeners)},
                      {"advertise_devices", status.advertised_devices},
                      {"store", status.store},
                      {"free_bytes", status.free_bytes},
                      {"certificate_ends_ms", status.certificate_ends},
                      {"sessions", status.sessions},
                      {"devices", status.devices},
                      {"populations", status.populations},
                      {"runs", status.runs},
                      {"runs_running", status.running},
                      {"problems", ToJsonArray(status.problems)}};
  AddUnlessEmpty(object, "advertise_enrol", status.advertised_enrol);
  return object;
}

json::object ToJson(const PopulationView& population) {
  return {{"name", population.row.name},
          {"open", population.row.is_open},
          {"created_ms", population.row.created},
          {"next_client", population.row.next_client},
          {"devices", population.devices},
          {"connected", population.connected},
          {"held", population.held}};
}

json::object ToJson(const TokenRow& token) {
  json::object object{{"id", token.id.Hex()},
                      {"population", token.population},
                      {"client", token.client},
                      {"created_ms", token.created},
                      {"expires_ms", token.expires}};
  if (token.used > 0) {
    object["used_ms"] = token.used;
    object["device"] = token.device.Hex();
  }
  return object;
}

json::object ToJson(const DeviceView& device) {
  json::array memberships;
  for (const auto& [population, client] : device.row.memberships) {
    memberships.push_back({{"population", population}, {"client", client}});
  }
  json::object object{
      {"id", device.row.device.Hex()},      {"state", std::string(WordFor(device.row.state))},
      {"connected", device.is_connected},   {"memberships", std::move(memberships)},
      {"enrolled_ms", device.row.enrolled}, {"strikes", device.row.strikes}};
  AddUnlessEmpty(object, "hint", device.row.hint);
  if (device.row.last_seen > 0) object["last_seen_ms"] = device.row.last_seen;
  return object;
}

json::object ToJson(const RunStatus& run) {
  const RunView& view = run.view;
  json::object object{{"id", view.id.Hex()},
                      {"name", view.name},
                      {"population", view.population},
                      {"state", std::string(WordFor(view.state))},
                      {"round", view.attempt.round},
                      {"rounds", view.rounds},
                      {"attempt", view.attempt.attempt},
                      {"kind", std::string(WordFor(view.attempt.kind))},
                      {"phase", view.phase},
                      {"waiting_for", view.waiting_for},
                      {"waiting_ms", Ms(run.waiting)},
                      {"counts", CountsJson(view.counts)},
                      {"codes", CodesJson(run.codes)},
                      {"reports_wanted", view.reports_wanted},
                      {"min_reports", view.min_reports},
                      {"model_sha256", view.model.Hex()},
                      {"seed", run.seed},
                      {"metrics", MetricsJson(view.last_metrics)}};
  if (view.code != 0) object["code"] = view.code;
  AddUnlessEmpty(object, "reason", view.reason);
  if (run.closes_in) object["closes_in_ms"] = Ms(*run.closes_in);
  return object;
}

json::object ToJson(const RunDetail& run) {
  json::object object = ToJson(run.status);
  json::array rounds;
  for (const RoundView& round : run.rounds) rounds.push_back(RoundJson(round));
  object["attempts"] = std::move(rounds);
  object["experiment"] = run.experiment_toml;
  return object;
}

json::object ToJson(const StartedRun& run) {
  json::object object{{"name", run.name},
                      {"population", run.population},
                      {"existed", run.existed},
                      {"seed", run.seed},
                      {"plan_sha256", run.plan_sha256.Hex()},
                      {"plan_bytes", run.plan_bytes},
                      {"initial_model", run.initial_model.Hex()},
                      {"model_bytes", run.model_bytes},
                      {"update_bytes", run.update_bytes},
                      {"invited", run.invited},
                      {"notes", ToJsonArray(run.notes)}};
  if (!run.id.IsZero()) object["id"] = run.id.Hex();
  return object;
}

json::object ToJson(const Error& error) {
  json::object object{{"code", error.code}, {"message", error.message}};
  AddUnlessEmpty(object, "hint", error.hint);
  return object;
}

json::object ToJson(const config::Problem& problem) {
  json::object object{{"code", problem.code}, {"message", problem.message}};
  AddUnlessEmpty(object, "hint", problem.hint);
  AddUnlessEmpty(object, "suggestion", problem.suggestion);
  AddUnlessEmpty(object, "topic", problem.topic);
  AddUnlessEmpty(object, "file", problem.place.file);
  if (problem.place.line > 0) {
    object["line"] = problem.place.line;
    object["column"] = problem.place.column;
    object["width"] = problem.place.width;
    object["source_line"] = problem.place.source_line;
  }
  return object;
}

json::object ToJson(const config::Note& note) {
  json::object object{{"code", note.code}, {"text", note.text}};
  AddUnlessEmpty(object, "hint", note.hint);
  return object;
}

Error ErrorFromJson(const json::value& from) {
  return {static_cast<int>(NumberAt(from, "code")), TextAt(from, "message"), TextAt(from, "hint")};
}

config::Problem ProblemFromJson(const json::value& from) {
  return {.code = static_cast<int>(NumberAt(from, "code")),
          .place = {.file = TextAt(from, "file"),
                    .line = static_cast<std::uint32_t>(NumberAt(from, "line")),
                    .column = static_cast<std::uint32_t>(NumberAt(from, "column")),
                    .width = static_cast<std::uint32_t>(NumberAt(from, "width")),
                    .source_line = TextAt(from, "source_line")},
          .message = TextAt(from, "message"),
          .suggestion = TextAt(from, "suggestion"),
          .hint = TextAt(from, "hint"),
          .topic = TextAt(from, "topic")};
}

config::Note NoteFromJson(const json::value& from) {
  return {.code = static_cast<int>(NumberAt(from, "code")),
          .text = TextAt(from, "text"),
          .hint = TextAt(from, "hint")};
}

}  // namespace skep::aggregator
