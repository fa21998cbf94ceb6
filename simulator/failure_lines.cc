#include "simulator/failure_lines.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "shared/config/schema.h"
#include "shared/config/utf8.h"
#include "simulator/figures.h"
#include "simulator/names.h"
#include "simulator/terminal.h"

namespace skep::simulator {
namespace {

constexpr std::uint32_t kLinesAtOnce = 2;  // the third line of an attempt folds the rest
constexpr std::uint32_t kRoundsInFull = 10;
constexpr double kSuspicious = 10;  // times the default

// Keys worth looking at when a number comes up.
struct HintRow {
  int code;
  std::array<std::string_view, 2> keys;
};
constexpr std::array<HintRow, 6> kHints{{
    {2104, {"client.learning_rate", "client.gradient_clip"}},
    {2105, {"admission.max_norm", "client.learning_rate"}},
    {2107, {"admission.max_weight", ""}},
    {2201, {"training.min_reports", "training.report_deadline"}},
    {7402, {"data.min_examples", "data.num_clients"}},
    {7406, {"client.batch_size", "client.learning_rate"}},
}};

std::optional<double> AsNumber(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

void FailureLines::Start(const RunStart& start) {
  for (const auto& [key, value] : start.settings) values_[key] = value.first;
  has_large_inputs_ = start.has_large_inputs;
}

std::string FailureLines::HintFor(int code) const {
  // Before any step size: no rate suits inputs without bound.
  const auto normalize = values_.find("data.normalize");
  const bool is_of_values = code == 2104 || code == 2105 || code == 7406;
  if (has_large_inputs_ && is_of_values && normalize != values_.end()) {
    return fmt::format("; inputs are very large: look at data.normalize = {}", normalize->second);
  }
  std::string other;
  for (const HintRow& row : kHints) {
    if (row.code != code) continue;
    for (const std::string_view key : row.keys) {
      const auto value = values_.find(std::string(key));
      if (key.empty() || value == values_.end()) continue;
      const config::Key* const known = config::ExperimentSchema().Find(key);
      const auto now = AsNumber(value->second);
      const auto usual = known == nullptr ? std::nullopt : AsNumber(known->row->fallback);
      if (now && usual && *usual > 0 && *now >= kSuspicious * *usual)
        return fmt::format("; {} = {} is {}x the default", key, value->second,
                           Significant(*now / *usual, 2));
      if (other.empty()) other = fmt::format("; look at {} = {}", key, value->second);
    }
  }
  return other;
}

std::string FailureLines::Describe(const ClientRecord& client) const {
  return fmt::format("round {}: {} {} (SKEP-{}): {}{}", client.round,
                     config::Printable(ClientName(client.client, client.name)),
                     OutcomeName(client.outcome), client.code, config::Printable(client.detail),
                     HintFor(client.code));
}

bool FailureLines::IsToldNow(int code) {
  const auto known = is_told_.find(code);
  if (known != is_told_.end()) return known->second;
  const std::uint32_t rounds = ++rounds_with_[code];
  const bool told = rounds <= kRoundsInFull || rounds % kRoundsInFull == 0;
  is_told_[code] = told;
  return told;
}

std::string FailureLines::On(const ClientRecord& client) {
  if (client.outcome == aggregator::Outcome::kOk || !IsToldNow(client.code)) return "";
  if (told_ < kLinesAtOnce) {
    ++told_;
    std::string line = Describe(client);
    if (const std::uint32_t rounds = rounds_with_[client.code]; rounds > kRoundsInFull)
      line += fmt::format(" (SKEP-{} in {} rounds so far)", client.code, rounds);
    return line;
  }
  if (kept_.empty()) kept_.push_back(client);
  ++folded_[client.code];
  return "";
}

std::vector<std::string> FailureLines::On(const RoundRecord& round) {
  std::vector<std::string> lines;
  std::uint32_t count = 0;
  std::string by_code;
  for (const auto& [code, clients] : folded_) {
    count += clients;
    if (!by_code.empty()) by_code += ", ";
    by_code += fmt::format("{} \xC3\x97 SKEP-{}", clients, code);
  }
  if (count == 1) lines.push_back(Describe(kept_.front()));
  if (count > 1)
    lines.push_back(
        fmt::format("round {}: \xE2\x80\xA6 and {} more: {}", round.round, count, by_code));
  if (!round.published)
    lines.push_back(fmt::format("round {}: attempt {} abandoned (SKEP-{}): {}; the model stays{}",
                                round.round, round.attempt, round.code,
                                config::Printable(round.reason), HintFor(round.code)));
  told_ = 0;
  folded_.clear();
  kept_.clear();
  is_told_.clear();
  return lines;
}

}  // namespace skep::simulator
