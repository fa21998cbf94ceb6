// policy_json: {"privacy": {...}, "secure_aggregation": {...}} with the keys of client.toml.
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "client/embed/policy.h"

namespace skep::embed {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongestPolicy = std::size_t{64} * 1024;
constexpr std::uint32_t kLargestWeight = 1U << 20U;

constexpr std::array<std::string_view, 3> kPrivacyKeys{"mechanism", "max_epsilon", "clip_norm"};
constexpr std::array<std::string_view, 11> kSecureKeys{
    "required",      "mode",         "min_clients", "min_honest",  "corrupt_rate", "security_bits",
    "grinding_bits", "roster_trust", "max_weight",  "roster_pins", "roster_ca"};

Error Bad(const std::string& what) {
  return Error{7001, "policy_json: " + what, "the keys are those of client.toml"};
}

template <std::size_t Count>
Status OnlyKnown(const json::object& table, const std::array<std::string_view, Count>& known) {
  for (const auto& field : table) {
    const std::string_view key(field.key().data(), field.key().size());
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return Bad("unknown key \"" + std::string(key.substr(0, 64)) + "\"");
    }
  }
  return Ok();
}

Status ReadPrivacy(const json::object& table, Policy& policy) {
  if (const Status known = OnlyKnown(table, kPrivacyKeys); !known.has_value()) return known;
  const json::value* mechanism = table.if_contains("mechanism");
  if (mechanism != nullptr && !mechanism->is_string()) return Bad("privacy.mechanism is a text");
  policy.wants_privacy = mechanism != nullptr ? mechanism->get_string() != "none" : !table.empty();
  return Ok();
}

Status ReadSecure(const json::object& table, Policy& policy) {
  if (const Status known = OnlyKnown(table, kSecureKeys); !known.has_value()) return known;
  const json::value* required = table.if_contains("required");
  if (required != nullptr && !required->is_bool()) {
    return Bad("secure_aggregation.required is true or false");
  }
  policy.wants_secure_aggregation = required != nullptr && required->get_bool();
  const json::value* weight = table.if_contains("max_weight");
  if (weight == nullptr) return Ok();
  if (!weight->is_int64() || weight->get_int64() < 1 || weight->get_int64() > kLargestWeight) {
    return Bad("secure_aggregation.max_weight is a whole number from 1 to 1048576");
  }
  policy.max_weight = static_cast<std::uint32_t>(weight->get_int64());
  return Ok();
}

}  // namespace

Result<Policy> ReadPolicy(std::string_view text) {
  Policy policy;
  if (text.empty()) return policy;
  if (text.size() > kLongestPolicy) return Bad("longer than 64 KiB");
  boost::system::error_code failure;
  const json::value parsed = json::parse(text, failure);
  if (failure || !parsed.is_object()) return Bad("not one JSON object");
  for (const auto& section : parsed.get_object()) {
    const std::string_view name(section.key().data(), section.key().size());
    if (!section.value().is_object()) return Bad(std::string(name.substr(0, 64)) + " is an object");
    const json::object& table = section.value().get_object();
    Status read = Bad("unknown section \"" + std::string(name.substr(0, 64)) + "\"");
    if (name == "privacy") read = ReadPrivacy(table, policy);
    if (name == "secure_aggregation") read = ReadSecure(table, policy);
    if (!read.has_value()) return std::move(read).error();
  }
  return policy;
}

}  // namespace skep::embed
