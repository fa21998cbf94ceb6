#include "client/agent/state.h"

#include <limits>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <fmt/format.h>

#include "client/agent/json_object.h"
#include "client/agent/reach.h"
#include "shared/base/amounts.h"
#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kLargestState = std::uint64_t{1024} * 1024;
constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kAny32 = std::numeric_limits<std::uint32_t>::max();
constexpr WallMs kDayMs = WallMs{24} * 3600 * 1000;

json::object ManifestJson(const wire::SignedManifest& manifest) {
  return {{"payload", ToHex(manifest.payload)},
          {"key_id", manifest.key_id.Hex()},
          {"signature", manifest.signature.Hex()}};
}

Result<wire::SignedManifest> ReadManifest(const JsonObject& fields) {
  wire::SignedManifest manifest;
  SKEP_ASSIGN(manifest.payload, fields.Hex("payload"));
  SKEP_ASSIGN(manifest.key_id, fields.IdOf<KeyId>("key_id"));
  SKEP_ASSIGN(manifest.signature, fields.IdOf<wire::Signature>("signature"));
  return manifest;
}

json::object SeenJson(const client::SeenTask& seen) {
  return {{"run", seen.run.Hex()},   {"epoch", seen.epoch},
          {"round", seen.round},     {"kind", static_cast<std::uint32_t>(seen.kind)},
          {"attempt", seen.attempt}, {"manifest", ManifestJson(seen.manifest)}};
}

Result<std::uint32_t> Number32(const JsonObject& fields, std::string_view key) {
  SKEP_ASSIGN(const std::uint64_t number, fields.Whole(key, kAny32));
  return static_cast<std::uint32_t>(number);
}

Result<client::SeenTask> ReadSeen(const JsonObject& fields) {
  client::SeenTask seen;
  SKEP_ASSIGN(seen.run, fields.IdOf<RunId>("run"));
  SKEP_ASSIGN(seen.epoch, Number32(fields, "epoch"));
  SKEP_ASSIGN(seen.round, Number32(fields, "round"));
  SKEP_ASSIGN(const std::uint64_t kind, fields.Whole("kind", 3));
  seen.kind = static_cast<wire::TaskKind>(kind);
  SKEP_ASSIGN(seen.attempt, Number32(fields, "attempt"));
  SKEP_ASSIGN(const JsonObject manifest, fields.Object("manifest"));
  SKEP_ASSIGN(seen.manifest, ReadManifest(manifest));
  return seen;
}

Result<client::SessionMemory> ReadMemory(const JsonObject& fields) {
  client::SessionMemory memory;
  SKEP_ASSIGN(const std::vector<JsonObject> seen, fields.Objects("seen"));
  for (const JsonObject& one : seen) {
    SKEP_ASSIGN(client::SeenTask task, ReadSeen(one));
    memory.seen.push_back(std::move(task));
  }
  if (fields.Has("evidence")) {
    SKEP_ASSIGN(const JsonObject evidence, fields.Object("evidence"));
    SKEP_ASSIGN(memory.evidence, ReadManifest(evidence));
  }
  if (fields.Has("client")) {
    SKEP_ASSIGN(memory.client, Number32(fields, "client"));
  }
  SKEP_ASSIGN(memory.failures, Number32(fields, "failures"));
  SKEP_ASSIGN(memory.next_check_in, fields.Whole("next_check_in", kAny));
  return memory;
}

Result<State> ReadState(const JsonObject& fields) {
  SKEP_ASSIGN(const std::uint64_t schema, fields.Whole("schema", kAny));
  if (schema != 1) return fields.Damaged("schema");
  State state;
  SKEP_ASSIGN(state.population, fields.Text("population"));
  SKEP_ASSIGN(state.memory, ReadMemory(fields));
  SKEP_ASSIGN(const JsonObject today, fields.Object("today"));
  SKEP_ASSIGN(state.today.day, today.Whole("day", kAny));
  SKEP_ASSIGN(state.today.up, today.Whole("up", kAny / 4));
  SKEP_ASSIGN(state.today.down, today.Whole("down", kAny / 4));
  return state;
}

}  // namespace

void DayTraffic::TurnTo(WallMs wall) {
  const std::uint64_t now = wall / kDayMs;
  if (now != day) *this = {.day = now, .up = 0, .down = 0};
}

WallMs EndOfDay(WallMs wall) {
  return (wall / kDayMs + 1) * kDayMs;
}

Status CheckDayTraffic(DayTraffic today, std::uint64_t needed, std::uint64_t limit, WallMs now) {
  today.TurnTo(now);
  if (today.total() + needed <= limit) return Ok();
  const WallMs end = EndOfDay(now);
  const std::string task = needed <= 1 ? "" : ", a task takes " + AmountText(needed);
  return Error{7408,
               fmt::format("limits.bytes_per_day is {}: {} were sent and received today{}; goes on "
                           "at {}, in {}",
                           AmountText(limit), AmountText(today.total()), task, UtcText(end),
                           SpanText(Milliseconds(end - now))),
               "raise limits.bytes_per_day"};
}

Result<State> LoadState(const Storage& storage) {
  const std::string path = storage.Path("state.json");
  if (!Exists(path)) return State{};
  Result<JsonObject> fields = JsonObject::Read(path, kLargestState);
  Result<State> state = fields.has_value() ? ReadState(*fields) : std::move(fields).error();
  if (state.has_value()) return state;
  return Error{1010, state.error().message,
               "remove it to start anew: the device then forgets which rounds it has seen"};
}

Status SaveState(const Storage& storage, const State& state) {
  json::object fields{{"schema", 1}, {"population", state.population}};
  if (state.memory.client) fields["client"] = *state.memory.client;
  fields["failures"] = state.memory.failures;
  fields["next_check_in"] = state.memory.next_check_in;
  fields["today"] = {{"day", state.today.day}, {"up", state.today.up}, {"down", state.today.down}};
  if (state.memory.evidence) fields["evidence"] = ManifestJson(*state.memory.evidence);
  json::array seen;
  for (const client::SeenTask& one : state.memory.seen) seen.emplace_back(SeenJson(one));
  fields["seen"] = std::move(seen);
  return WriteFileAtomically(storage.Path("state.json"), AsBytes(JsonLine(fields)),
                             FileMode::kPrivate);
}

}  // namespace skep::agent
