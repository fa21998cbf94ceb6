// Reading metrics.jsonl back, as far as resume needs it.
#include <charconv>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/base/try.h"
#include "simulator/json.h"
#include "simulator/metrics_log.h"
#include "simulator/names.h"

namespace skep::simulator {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30U;
constexpr std::uint32_t kMostRounds = 1'000'000;

Metrics ReadMetricsObject(const JsonValue* object) {
  Metrics metrics;
  if (object == nullptr || object->members() == nullptr) return metrics;
  for (const auto& [name, value] : *object->members()) {
    const double* const number = std::get_if<double>(&value.value);
    metrics[name] = number == nullptr ? std::nullopt : std::optional(*number);
  }
  return metrics;
}

std::uint32_t Count(const JsonValue* object, std::string_view key) {
  if (object == nullptr) return 0;
  return static_cast<std::uint32_t>(object->Whole(key).value_or(0));
}

double Number(const JsonValue* object, std::string_view key) {
  return object == nullptr ? 0 : object->Number(key).value_or(0);
}

std::optional<RoundRecord> ReadRound(const JsonValue& line) {
  RoundRecord record;
  const std::uint64_t round = line.Whole("round").value_or(0);
  const auto model = Hash32::FromHexText(line.Text("model_sha256"));
  if (round == 0 || round > kMostRounds || !model) return std::nullopt;
  record.round = static_cast<std::uint32_t>(round);
  record.attempt = Count(&line, "attempt");
  record.published = line.Text("state") == "published";
  record.reason = line.Text("reason");
  record.time_s = Number(&line, "time_s");
  record.virtual_s = line.Number("virtual_s");
  const JsonValue* const clients = line.Find("clients");
  record.counts.invited = Count(clients, "invited");
  record.counts.started = Count(clients, "started");
  record.counts.ok = Count(clients, "ok");
  record.counts.rejected = Count(clients, "rejected");
  record.counts.failed = Count(clients, "failed");
  record.counts.dropped = Count(clients, "dropped");
  record.counts.late = Count(clients, "late");
  record.metrics = ReadMetricsObject(line.Find("metrics"));
  if (const JsonValue* const counted = line.Find("metric_clients");
      counted != nullptr && counted->members() != nullptr) {
    for (const auto& [name, value] : *counted->members())
      record.metric_clients[name] = Count(counted, name);
  }
  record.bytes_up = line.Whole("bytes_up").value_or(0);
  record.bytes_down = line.Whole("bytes_down").value_or(0);
  const JsonValue* const phases = line.Find("phases_s");
  record.phases = {.select = Number(phases, "select"),
                   .train = Number(phases, "train"),
                   .aggregate = Number(phases, "aggregate"),
                   .evaluate = Number(phases, "evaluate")};
  record.model = *model;
  return record;
}

// Takes over one line; false if it is not of this format.
bool AddLine(const JsonValue& line, std::string_view text, std::uint64_t end,
             MetricsHistory& history) {
  const std::string event = line.Text("event");
  history.end_state.clear();
  history.end_line.clear();
  if (event == "start") {
    if (history.start_bytes == 0) {
      history.start_bytes = end;
      history.run_id = line.Text("run");
      history.isa = line.Text("isa");
      history.device = line.Text("device");
      history.folder = line.Text("folder");
      history.config_sha256 = line.Text("config_sha256");
    }
    return true;
  }
  if (history.start_bytes == 0) return false;
  if (event == "end") {
    history.end_state = line.Text("state");
    history.end_line = text;
  }
  if (event == "checkpoint" && !history.published.empty() &&
      line.Whole("round") == history.published.back().record.round) {
    history.published.back().end_bytes = end;
  }
  if (event != "round") return true;
  std::optional<RoundRecord> record = ReadRound(line);
  if (!record) return false;
  if (!record->published) {
    history.abandoned.push_back(std::move(*record));
    return true;
  }
  if (record->round != history.published.size() + 1) return false;
  history.published.push_back({.record = std::move(*record), .end_bytes = end});
  return true;
}

ClientRecord ReadClient(const JsonValue& line) {
  ClientRecord record;
  record.round = Count(&line, "round");
  record.attempt = Count(&line, "attempt");
  record.client = Count(&line, "client");
  record.name = line.Text("name");
  record.outcome = OutcomeOf(line.Text("outcome"));
  record.code = static_cast<int>(Count(&line, "code"));
  record.detail = line.Text("text");
  return record;
}

NoteRecord ReadNote(const JsonValue& line) {
  NoteRecord record;
  if (line.Whole("round")) record.round = Count(&line, "round");
  if (line.Whole("attempt")) record.attempt = Count(&line, "attempt");
  record.level = NoteLevelOf(line.Text("level"));
  record.code = static_cast<int>(Count(&line, "code"));
  record.text = line.Text("text");
  return record;
}

// Calls `take(line, text, end)` for every complete line until it returns false; `end`: bytes up to
// there.
template <class Take>
Status ForEachLine(const std::string& path, Take take) {
  SKEP_ASSIGN(const Bytes bytes, ReadFile(path, kMostBytes, 4001));
  std::string_view rest = AsText(bytes);
  std::uint64_t end = 0;
  for (std::uint64_t number = 1;; ++number) {
    const auto length = rest.find('\n');
    if (length == std::string_view::npos) return Ok();  // a crash may leave a part of a line
    end += length + 1;
    const std::string_view text = rest.substr(0, length);
    const Result<JsonValue> line = ParseJson(text);
    rest.remove_prefix(length + 1);
    if (!line.has_value() || !take(*line, text, end))
      return Error{4001, fmt::format("{}:{}: not a line of metrics.jsonl", path, number),
                   "the run can be started anew; it cannot be resumed"};
  }
}

}  // namespace

Result<MetricsHistory> ReadMetrics(const std::string& path) {
  MetricsHistory history;
  SKEP_TRY(ForEachLine(path, [&](const JsonValue& line, std::string_view text, std::uint64_t end) {
    return AddLine(line, text, end, history);
  }));
  if (history.start_bytes == 0)
    return Error{4001, path + " does not hold the start of a run", "start the run anew"};
  return history;
}

Result<LoggedRecords> ReadLoggedRecords(const std::string& path) {
  LoggedRecords records;
  SKEP_TRY(ForEachLine(path, [&](const JsonValue& line, std::string_view, std::uint64_t) {
    const std::string event = line.Text("event");
    if (event == "client") records.clients.push_back(ReadClient(line));
    if (event == "note") records.notes.push_back(ReadNote(line));
    return true;
  }));
  return records;
}

}  // namespace skep::simulator
