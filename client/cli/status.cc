#include "client/cli/status.h"

#include <utility>

#include <fmt/format.h>
#include <boost/json/array.hpp>

#include "client/cli/settings.h"
#include "shared/base/amounts.h"
#include "shared/base/try.h"

namespace skep::cli {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kMebibyte = std::uint64_t{1024} * 1024;

std::uint64_t Number(const json::object& from, const char* key) {
  const json::value* value = from.if_contains(key);
  return value == nullptr ? 0 : value->to_number<std::uint64_t>();
}

std::string Text(const json::object& from, const char* key) {
  const json::value* value = from.if_contains(key);
  return value == nullptr ? std::string() : std::string(value->as_string());
}

// The library's report, and what this program adds.
struct Facts {
  json::object report;
  json::object enrolment;
  std::string populations;
  WallMs now = 0;
};

Result<Facts> Look(const GlobalOptions& options, const config::ClientConfig& config) {
  ClientOptions settings(options, config);
  SKEP_TRY(CheckEnrolled(settings));
  Facts facts;
  SKEP_ASSIGN(facts.report, ReportOf(&skep_status_json, settings));
  if (const json::value* damage = facts.report.if_contains("state_error")) {
    const json::object& why = damage->as_object();
    return Error{why.at("code").to_number<int>(), Text(why, "message"), Text(why, "advice")};
  }
  facts.enrolment = facts.report.at("enrolment").as_object();
  for (const json::value& name : facts.enrolment.at("populations").as_array()) {
    facts.populations += (facts.populations.empty() ? "" : ", ") + std::string(name.as_string());
  }
  facts.now = ReadClock().wall;
  return facts;
}

std::string Ago(WallMs now, WallMs then) {
  return now < then + 1000 ? "just now" : SpanText(Milliseconds(now - then)) + " ago";
}

std::string In(WallMs now, WallMs then) {
  return now >= then ? "now" : "in " + SpanText(Milliseconds(then - now));
}

std::string EntryText(const json::object& entry) {
  const bool is_evaluation = Text(entry, "kind") == "evaluate";
  std::string text = Text(entry, "outcome");
  if (text == "contributed") {
    text += is_evaluation ? " an evaluation of" : " to";
  } else if (text == "failed") {
    text += " in";
  } else if (text == "refused") {
    text += " for";
  }
  text += fmt::format(" round {}", Number(entry, "round"));
  if (Number(entry, "code") != 0) text += fmt::format(" (SKEP-{})", Number(entry, "code"));
  if (Number(entry, "examples") > 0)
    text += fmt::format(", {} examples", Number(entry, "examples"));
  return text + ", up " + AmountText(Number(entry, "up")) + ", down " +
         AmountText(Number(entry, "down"));
}

std::string BinaryText(std::uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / double{kMebibyte});
}

std::string TextOf(const Facts& facts, const config::ClientConfig& config) {
  const json::object& report = facts.report;
  const WallMs ends = Number(facts.enrolment, "certificate_ends_ms");
  std::string text = fmt::format("{}  enrolled in {} at {}     certificate ",
                                 Text(facts.enrolment, "device").substr(0, 6), facts.populations,
                                 Text(facts.enrolment, "endpoint"));
  text += facts.now > ends ? "ended " + Ago(facts.now, ends)
                           : "ends in " + SpanText(Milliseconds(ends - facts.now)) + ", renews " +
                                 In(facts.now, Number(facts.enrolment, "renews_at_ms"));
  const json::value* last = report.if_contains("last_task");
  text += "\n  last      ";
  text += last == nullptr ? "nothing yet"
                          : Ago(facts.now, Number(last->as_object(), "time_ms")) + ": " +
                                EntryText(last->as_object());
  const WallMs next = Number(report, "next_check_in_ms");
  text += "\n  next      ";
  text += next > facts.now
              ? "in " + SpanText(Milliseconds(next - facts.now)) + " (told by the aggregator)"
              : "at any time";
  text +=
      fmt::format("     today {} of {} MiB, storage {} of {} MiB\n",
                  BinaryText(Number(report, "up_today") + Number(report, "down_today")),
                  config.limits.bytes_per_day / kMebibyte,
                  BinaryText(Number(report, "storage_bytes")), config.limits.storage / kMebibyte);
  text += "  process   ";
  text += report.contains("process") ? fmt::format("{} is at work\n", Number(report, "process"))
                                     : "none is running\n";
  text += "  trains on " + Text(report, "trains_on") + "\n";
  text += "  eligible  ";
  text += report.at("eligible").as_bool() ? "yes" : "no: " + Text(report, "not_eligible");
  return text + " (" + Text(report, "conditions") + ")\n";
}

// An entry as people and scripts know it.
json::object EntryJson(json::object entry) {
  entry.erase("time_ms");
  return entry;
}

json::object JsonOf(const Facts& facts) {
  const json::object& report = facts.report;
  json::object data{{"device", facts.enrolment.at("device")},
                    {"populations", facts.populations},
                    {"endpoint", facts.enrolment.at("endpoint")},
                    {"certificate_ends", UtcText(Number(facts.enrolment, "certificate_ends_ms"))},
                    {"next_check_in", UtcText(Number(report, "next_check_in_ms"))},
                    {"up_today", report.at("up_today")},
                    {"down_today", report.at("down_today")},
                    {"storage_bytes", report.at("storage_bytes")},
                    {"trains_on", report.at("trains_on")},
                    {"eligible", report.at("eligible")}};
  for (const char* key : {"client", "process"}) {
    if (const json::value* value = report.if_contains(key)) data[key] = *value;
  }
  if (const json::value* last = report.if_contains("last_task")) {
    data["last"] = EntryJson(last->as_object());
  }
  return data;
}

}  // namespace

int RunStatus(const GlobalOptions& options) {
  const auto config = LoadConfig(options);
  if (!config.has_value()) return Fail(options, config.problems());
  const Result<Facts> facts = Look(options, *config);
  if (!facts.has_value()) return Fail(options, facts.error());
  return Succeed(options, JsonOf(*facts), TextOf(*facts, *config));
}

int RunHistory(const GlobalOptions& options, std::size_t most) {
  const auto config = LoadConfig(options);
  if (!config.has_value()) return Fail(options, config.problems());
  ClientOptions settings(options, *config);
  const Result<json::object> report = ReportOf(&skep_history_json, settings);
  if (!report.has_value()) return Fail(options, report.error());
  std::string text;
  json::array entries;
  for (const json::value& entry : report->at("contributions").as_array()) {
    if (entries.size() == most) break;
    text += Text(entry.as_object(), "time") + "  " + EntryText(entry.as_object()) + "\n";
    entries.emplace_back(EntryJson(entry.as_object()));
  }
  if (text.empty()) text = "nothing yet\n";
  return Succeed(options, {{"entries", std::move(entries)}}, text);
}

}  // namespace skep::cli
