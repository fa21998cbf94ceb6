#include "client/faultproxy/rule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "shared/base/suggest.h"
#include "shared/base/try.h"
#include "shared/config/value.h"

namespace skep::faultproxy {
namespace {

constexpr Nanoseconds kLongest = std::chrono::hours(24 * 365);
constexpr unsigned kBitsOfByte = 8;

struct VerbRow {
  std::string_view name;
  Verb verb;
  std::string_view keys;    // that it takes, each with a space behind
  std::string_view needed;  // one that it cannot do without
};

constexpr std::array kVerbs = std::to_array<VerbRow>({
    {"cut", Verb::kCut, "connection direction at after chance ", ""},
    {"reset", Verb::kReset, "connection direction at after chance ", ""},
    {"half-close", Verb::kHalfClose, "connection direction at after chance ", ""},
    {"stall", Verb::kStall, "connection direction at after chance for ", ""},
    {"corrupt", Verb::kCorrupt, "connection direction at after chance bit ", ""},
    {"delay", Verb::kDelay, "connection direction at after chance time jitter ", "time"},
    {"rate", Verb::kRate, "connection direction at after chance limit ", "limit"},
    {"refuse", Verb::kRefuse, "connection chance ", ""},
    {"duplicate", Verb::kDuplicate, "connection chance ", ""},
    {"blackhole", Verb::kBlackhole, "after for ", "for"},
});
constexpr std::array<std::string_view, 10> kKeys = {
    "connection", "direction", "at", "after", "for", "chance", "time", "jitter", "limit", "bit"};

struct OrderRow {
  std::string_view name;
  Order::Kind kind;
  std::string_view keys;
};
constexpr std::array kOrders = std::to_array<OrderRow>({
    {"clear", Order::Kind::kClear, "rule "},
    {"release", Order::Kind::kRelease, "connection direction "},
    {"close", Order::Kind::kClose, ""},
    {"open", Order::Kind::kOpen, ""},
    {"count", Order::Kind::kCount, ""},
    {"stop", Order::Kind::kStop, ""},
});

struct Pair {
  std::string_view key;
  std::string_view value;
};

std::vector<std::string_view> Words(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::string_view> words;
  std::size_t at = text.find_first_not_of(kSpace);
  while (at != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return words;
}

std::string Quoted(std::string_view text) {
  constexpr std::size_t kShown = 64;
  return "\"" + std::string(text.substr(0, kShown)) + "\"";
}

Error Unknown(const char* what, std::string_view given,
              const std::vector<std::string_view>& known) {
  const std::string meant = Suggest(std::string(given), known);
  std::string list;
  for (const std::string_view name : known) list += (list.empty() ? "" : ", ") + std::string(name);
  return {1012, std::string("unknown ") + what + " " + Quoted(given),
          meant.empty() ? "one of: " + list : "did you mean \"" + meant + "\"?"};
}

Error BadForm(const Pair& pair, const char* wanted) {
  return {1101,
          std::string(pair.key) + "=" + std::string(pair.value.substr(0, 64)) + " is not " + wanted,
          ""};
}

// Keys and values of the words behind the first; each key at most once and only such as `keys` has.
Result<std::vector<Pair>> Pairs(const std::vector<std::string_view>& words, std::string_view keys) {
  std::vector<Pair> pairs;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == std::string_view::npos) {
      return Error{1101, Quoted(words[i]) + " is not KEY=VALUE", "as in at=4096"};
    }
    const Pair pair{words[i].substr(0, equals), words[i].substr(equals + 1)};
    const std::string wanted = std::string(pair.key) + " ";
    const bool is_taken =
        !pair.key.empty() && (" " + std::string(keys)).find(" " + wanted) != std::string::npos;
    if (!is_taken) {
      if (std::find(kKeys.begin(), kKeys.end(), pair.key) == kKeys.end()) {
        return Unknown("key", pair.key, {kKeys.begin(), kKeys.end()});
      }
      return Error{1103, std::string(words[0]) + " takes no " + std::string(pair.key),
                   keys.empty() ? "it takes no keys" : "it takes: " + std::string(keys)};
    }
    for (const Pair& earlier : pairs) {
      if (earlier.key == pair.key) {
        return Error{1103, std::string(pair.key) + " is given twice", "give it once"};
      }
    }
    pairs.push_back(pair);
  }
  return pairs;
}

std::optional<std::uint64_t> ParseWhole(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "7", "3..9", and with `is_open` also "3.." and "all".
std::optional<Range> ParseRange(std::string_view text, bool is_open) {
  if (is_open && text == "all") return Range{.first = 1};
  const std::size_t dots = text.find("..");
  const auto first = ParseWhole(text.substr(0, dots));
  if (!first) return std::nullopt;
  if (dots == std::string_view::npos) return Range{*first, *first};
  const std::string_view rest = text.substr(dots + 2);
  if (rest.empty() && is_open) return Range{.first = *first};
  const auto last = ParseWhole(rest);
  if (!last || *last < *first) return std::nullopt;
  return Range{*first, *last};
}

Status SetTarget(const Pair& pair, Rule& rule) {
  if (pair.key == "direction") {
    if (pair.value != "up" && pair.value != "down" && pair.value != "both") {
      return BadForm(pair, "up, down or both");
    }
    rule.is_up = pair.value != "down";
    rule.is_down = pair.value != "up";
    return Ok();
  }
  const auto range = ParseRange(pair.value, true);
  if (!range) return BadForm(pair, "a connection's number, FIRST..LAST, FIRST.. or all");
  if (range->first == 0) return Error{1102, "connections are numbered from 1", ""};
  rule.connections = *range;
  return Ok();
}

Status SetDuration(const Pair& pair, Nanoseconds& into) {
  const auto duration = config::ParseDuration(pair.value);
  if (!duration) return BadForm(pair, "a duration, as in 200ms, 5s or 2m");
  if (*duration > kLongest) return Error{1102, std::string(pair.key) + " is at most 365d", ""};
  into = *duration;
  return Ok();
}

Status SetChance(const Pair& pair, Rule& rule) {
  double chance = 0;
  const char* const end = pair.value.data() + pair.value.size();
  const auto [stop, failure] = std::from_chars(pair.value.data(), end, chance);
  if (failure != std::errc() || stop != end || !std::isfinite(chance)) {
    return BadForm(pair, "a number");
  }
  if (chance < 0 || chance > 1) return Error{1102, "chance lies between 0 and 1", ""};
  rule.chance = chance;
  return Ok();
}

Status SetBit(const Pair& pair, Rule& rule) {
  const auto bit = ParseWhole(pair.value);
  if (!bit) return BadForm(pair, "a whole number");
  if (*bit >= kBitsOfByte) return Error{1102, "bit lies between 0 (the lowest) and 7", ""};
  rule.bit = static_cast<unsigned>(*bit);
  return Ok();
}

Status SetLimit(const Pair& pair, Rule& rule) {
  constexpr std::string_view kBytes = "B/s";
  auto rate = config::ParseRate(pair.value);
  if (!rate && pair.value.ends_with(kBytes)) {
    rate = ParseWhole(pair.value.substr(0, pair.value.size() - kBytes.size()));
  }
  if (!rate) return BadForm(pair, "a rate, as in 64KiB/s or 100B/s");
  if (*rate == 0) return Error{1102, "limit is at least 1B/s", "a stall lets nothing pass"};
  rule.bytes_per_second = *rate;
  return Ok();
}

Status Set(const Pair& pair, Rule& rule) {
  if (pair.key == "connection" || pair.key == "direction") return SetTarget(pair, rule);
  if (pair.key == "after") return SetDuration(pair, rule.after);
  if (pair.key == "for") return SetDuration(pair, rule.lasting);
  if (pair.key == "time") return SetDuration(pair, rule.time);
  if (pair.key == "jitter") return SetDuration(pair, rule.jitter);
  if (pair.key == "chance") return SetChance(pair, rule);
  if (pair.key == "bit") return SetBit(pair, rule);
  if (pair.key == "limit") return SetLimit(pair, rule);
  rule.at = ParseRange(pair.value, false);
  if (!rule.at) return BadForm(pair, "a number of bytes, or FIRST..LAST to draw one");
  return Ok();
}

Result<Rule> FinishRule(const VerbRow& row, const std::vector<std::string_view>& words) {
  SKEP_ASSIGN(const auto pairs, Pairs(words, row.keys));
  Rule rule{.verb = row.verb};
  bool has_needed = row.needed.empty();
  for (const Pair& pair : pairs) {
    SKEP_TRY(Set(pair, rule));
    has_needed = has_needed || pair.key == row.needed;
  }
  if (!has_needed) {
    return Error{
        1103, std::string(row.name) + " needs " + std::string(row.needed),
        row.needed == "limit" ? "as in limit=64KiB/s" : "as in " + std::string(row.needed) + "=2s"};
  }
  return rule;
}

std::vector<std::string_view> VerbNames() {
  std::vector<std::string_view> names;
  for (const VerbRow& row : kVerbs) names.push_back(row.name);
  return names;
}

const VerbRow* FindVerb(std::string_view name) {
  for (const VerbRow& row : kVerbs) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

Result<Order> FinishOrder(const OrderRow& row, const std::vector<std::string_view>& words) {
  SKEP_ASSIGN(const auto pairs, Pairs(words, row.keys));
  Order order{.kind = row.kind};
  for (const Pair& pair : pairs) {
    if (pair.key != "rule") {
      SKEP_TRY(SetTarget(pair, order.rule));
      continue;
    }
    const auto number = ParseWhole(pair.value);
    if (!number || *number > std::numeric_limits<std::uint32_t>::max()) {
      return BadForm(pair, "the number of a rule");
    }
    order.number = static_cast<std::uint32_t>(*number);
  }
  return order;
}

}  // namespace

Result<Rule> ParseRule(std::string_view text) {
  const auto words = Words(text);
  if (words.empty()) return Error{1101, "a rule is empty", "as in: cut direction=up at=4096"};
  if (const VerbRow* const row = FindVerb(words[0])) return FinishRule(*row, words);
  return Unknown("fault", words[0], VerbNames());
}

Result<std::vector<Rule>> ParseScript(std::string_view text) {
  std::vector<Rule> rules;
  std::size_t line = 0;
  while (!text.empty()) {
    ++line;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, std::min(text.find('#'), end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (Words(content).empty()) continue;
    auto rule = ParseRule(content);
    if (!rule) return std::move(rule).error().Within("line " + std::to_string(line));
    rules.push_back(*rule);
  }
  return rules;
}

Result<Order> ParseOrder(std::string_view text) {
  const auto words = Words(text);
  if (words.empty()) return Error{1101, "an order is empty", "as in: count"};
  for (const OrderRow& row : kOrders) {
    if (row.name == words[0]) return FinishOrder(row, words);
  }
  if (FindVerb(words[0]) != nullptr) {
    SKEP_ASSIGN(const Rule rule, ParseRule(text));
    return Order{.kind = Order::Kind::kRule, .rule = rule};
  }
  std::vector<std::string_view> known = VerbNames();
  for (const OrderRow& row : kOrders) known.push_back(row.name);
  return Unknown("order", words[0], known);
}

std::string_view VerbName(Verb verb) {
  for (const VerbRow& row : kVerbs) {
    if (row.verb == verb) return row.name;
  }
  return "";
}

std::string_view DirectionName(Direction direction) {
  return direction == Direction::kUp ? "up" : "down";
}

}  // namespace skep::faultproxy
