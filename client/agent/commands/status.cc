#include "client/agent/commands/status.h"

#include <utility>

#include <fmt/format.h>
#include <boost/json/array.hpp>

#include "client/agent/conditions.h"
#include "client/agent/history.h"
#include "client/agent/identity.h"
#include "client/agent/reach.h"
#include "client/agent/renewal.h"
#include "client/agent/settings.h"
#include "client/agent/state.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kMebibyte = std::uint64_t{1024} * 1024;

struct Facts {
  std::string device;
  std::string populations;
  std::string endpoint;
  WallMs now = 0;
  WallMs certificate_ends = 0;
  WallMs renews_at = 0;
  State state;
  std::vector<HistoryEntry> history;
  std::uint64_t bytes_used = 0;
  std::optional<int> process;
  Conditions conditions;
  Status eligible = Ok();
  std::string trains_on;
};

Result<Facts> Look(const config::ClientConfig& config) {
  SKEP_ASSIGN(const Storage storage, Storage::Look(config.storage_dir));
  SKEP_ASSIGN(const Identity identity, LoadIdentity(storage));
  Facts facts;
  SKEP_ASSIGN(facts.state, LoadState(storage));
  facts.device = identity.device.Hex();
  for (const std::string& name : identity.populations) {
    facts.populations += (facts.populations.empty() ? "" : ", ") + name;
  }
  facts.endpoint = identity.endpoint;
  facts.now = ReadClock().wall;
  facts.certificate_ends = identity.own.certificate.NotAfter();
  facts.renews_at = RenewsAt(identity);
  facts.state.today.TurnTo(facts.now);
  facts.history = ReadHistory(storage, 1);
  facts.bytes_used = storage.BytesUsed();
  facts.process = storage.LockedBy();
  facts.conditions = ProbeConditions();
  facts.eligible = CheckEligible(EligibilityOf(config), facts.conditions);
  const Result<std::string> device = FindDevice(config);
  facts.trains_on = device.has_value() ? *device
                                       : fmt::format("nothing: {} (SKEP-{})",
                                                     device.error().message, device.error().code);
  return facts;
}

std::string Ago(WallMs now, WallMs then) {
  return now < then + 1000 ? "just now" : SpanText(Milliseconds(now - then)) + " ago";
}

std::string In(WallMs now, WallMs then) {
  return now >= then ? "now" : "in " + SpanText(Milliseconds(then - now));
}

std::string EntryText(const HistoryEntry& entry) {
  const bool is_evaluation = entry.task.kind == wire::TaskKind::kEvaluate;
  std::string text = entry.outcome;
  if (entry.outcome == "contributed") text += is_evaluation ? " an evaluation of" : " to";
  if (entry.outcome == "failed") text += " in";
  if (entry.outcome == "refused") text += " for";
  text += fmt::format(" round {}", entry.task.round);
  if (entry.code != 0) text += fmt::format(" (SKEP-{})", entry.code);
  if (entry.examples > 0) text += fmt::format(", {} examples", entry.examples);
  return text + ", up " + AmountText(entry.up) + ", down " + AmountText(entry.down);
}

std::string BinaryText(std::uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / double{kMebibyte});
}

std::string TextOf(const Facts& facts, const config::ClientConfig& config) {
  std::string text = fmt::format("{}  enrolled in {} at {}     certificate ",
                                 facts.device.substr(0, 6), facts.populations, facts.endpoint);
  text += facts.now > facts.certificate_ends
              ? "ended " + Ago(facts.now, facts.certificate_ends)
              : "ends in " + SpanText(Milliseconds(facts.certificate_ends - facts.now)) +
                    ", renews " + In(facts.now, facts.renews_at);
  text += "\n  last      ";
  text += facts.history.empty() ? "nothing yet"
                                : Ago(facts.now, facts.history.front().time) + ": " +
                                      EntryText(facts.history.front());
  const WallMs next = facts.state.memory.next_check_in;
  text += "\n  next      ";
  text += next > facts.now
              ? "in " + SpanText(Milliseconds(next - facts.now)) + " (told by the aggregator)"
              : "at any time";
  text +=
      fmt::format("     today {} of {} MiB, storage {} of {} MiB\n",
                  BinaryText(facts.state.today.total()), config.limits.bytes_per_day / kMebibyte,
                  BinaryText(facts.bytes_used), config.limits.storage / kMebibyte);
  text += "  process   ";
  text += facts.process ? fmt::format("{} is at work\n", *facts.process) : "none is running\n";
  text += "  trains on " + facts.trains_on + "\n";
  text += "  eligible  ";
  text += facts.eligible.has_value() ? "yes" : "no: " + facts.eligible.error().message;
  return text + " (" + ConditionsText(facts.conditions) + ")\n";
}

json::object JsonOf(const HistoryEntry& entry) {
  return {{"time", UtcText(entry.time)},
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

json::object JsonOf(const Facts& facts) {
  json::object data{{"device", facts.device},
                    {"populations", facts.populations},
                    {"endpoint", facts.endpoint},
                    {"certificate_ends", UtcText(facts.certificate_ends)},
                    {"next_check_in", UtcText(facts.state.memory.next_check_in)},
                    {"up_today", facts.state.today.up},
                    {"down_today", facts.state.today.down},
                    {"storage_bytes", facts.bytes_used},
                    {"trains_on", facts.trains_on},
                    {"eligible", facts.eligible.has_value()}};
  if (facts.state.memory.client) data["client"] = *facts.state.memory.client;
  if (facts.process) data["process"] = *facts.process;
  if (!facts.history.empty()) data["last"] = JsonOf(facts.history.front());
  return data;
}

}  // namespace

int RunStatus(const GlobalOptions& options) {
  const auto config = LoadConfig(options);
  if (!config.has_value()) return Fail(options, config.problems());
  const Result<Facts> facts = Look(*config);
  if (!facts.has_value()) return Fail(options, facts.error());
  return Succeed(options, JsonOf(*facts), TextOf(*facts, *config));
}

int RunHistory(const GlobalOptions& options, std::size_t most) {
  const auto config = LoadConfig(options);
  if (!config.has_value()) return Fail(options, config.problems());
  const Result<Storage> storage = Storage::Look(config->storage_dir);
  if (!storage.has_value()) return Fail(options, storage.error());
  std::string text;
  json::array entries;
  for (const HistoryEntry& entry : ReadHistory(*storage, most)) {
    text += UtcText(entry.time) + "  " + EntryText(entry) + "\n";
    entries.emplace_back(JsonOf(entry));
  }
  if (text.empty()) text = "nothing yet\n";
  return Succeed(options, {{"entries", std::move(entries)}}, text);
}

}  // namespace skep::agent
