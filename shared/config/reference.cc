// What the schema table says to people and to editors: explanations, the reference page, a JSON
// Schema.
#include <fmt/format.h>

#include "shared/config/schema.h"
#include "shared/config/utf8.h"
#include "shared/config/value_check.h"

namespace skep::config {
namespace {

std::string Default(const Row& row) {
  if (!row.depends.empty()) return std::string(row.depends);
  return row.fallback.empty() ? "none" : std::string(row.fallback);
}

std::string QuotedWords(std::string_view words) {
  std::string text;
  for (const std::string_view word : Words(words))
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", word);
  return text;
}

// "a | b" -> "a, b".
std::string Listed(std::string_view words) {
  std::string text;
  for (const std::string_view word : Words(words))
    text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

std::string Allowed(const Row& row) {
  std::string text = TypeText(row);
  if (!row.count.empty()) text += fmt::format(" ({})", RangeText(row.count, kInteger));
  if (!row.range.empty()) {
    const std::uint32_t units = row.types & (kDuration | kSize | kRate);
    text += ", " + RangeText(row.range, units != 0 ? static_cast<Types>(units) : kNumber);
  }
  const bool is_text_only = (row.types & (kText | kTexts)) != 0 && !row.words.empty();
  if (is_text_only && (row.types == kText || row.types == kTexts))
    text += ": " + QuotedWords(row.words);
  if (!row.unit.empty()) text += fmt::format(", in {}", row.unit);
  return text;
}

std::string InThisBuild(const Row& row) {
  if (row.is_absent) return "only its default";
  return row.present.empty() ? "" : QuotedWords(row.present);
}

void AppendLine(std::string& text, std::string_view name, const std::string& value) {
  if (!value.empty()) text += fmt::format("  {:<13}{}\n", name, value);
}

std::string ExplainKey(const Key& key) {
  const Row& row = *key.row;
  std::string text = fmt::format("{}\n  {}\n", key.path, row.text);
  AppendLine(text, "value", Allowed(row));
  AppendLine(text, "default", Default(row));
  AppendLine(text, "here", InThisBuild(row));
  AppendLine(text, "excludes", std::string(row.excludes));
  AppendLine(text, "only with", std::string(row.only_with));
  AppendLine(text, "also called", Listed(row.aliases));
  return text;
}

std::string ExplainSection(const Schema& schema, const Section& section) {
  std::string text = fmt::format("[{}]\n  {}\n", section.name, section.text);
  for (const Key& key : schema.keys()) {
    if (key.section == section.name)
      text += fmt::format("  {:<26}{}\n", key.row->key, key.row->text);
  }
  return text;
}

std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? "\\|" : std::string(1, c);
  return cell;
}

std::string MarkdownRow(const Key& key) {
  const Row& row = *key.row;
  std::string notes(row.text);
  const auto add = [&](std::string_view what, std::string_view value) {
    if (!value.empty()) notes += fmt::format(" {}: {}.", what, value);
  };
  add("Here", InThisBuild(row));
  add("Not together with", row.excludes);
  add("Only with", row.only_with);
  add("Also called", Listed(row.aliases));
  if (row.is_reloadable) notes += " Taken over by a reload.";
  return fmt::format("| `{}` | {} | {} | {} |\n", row.key, Cell(Default(row)), Cell(Allowed(row)),
                     Cell(notes));
}

std::string JsonType(std::uint32_t type, const Row& row) {
  switch (type) {
    case kBool:
      return R"({"type":"boolean"})";
    case kInteger:
      return R"({"type":"integer"})";
    case kNumber:
      return R"({"type":"number"})";
    case kIntegers:
      return R"({"type":"array","items":{"type":"integer"}})";
    case kNumbers:
      return R"({"type":"array","items":{"type":"number"}})";
    case kTexts:
      return R"({"type":"array","items":{"type":"string"}})";
    case kTextsByName:
      return R"({"type":"object","additionalProperties":{"type":"array","items":{"type":"string"}}})";
    case kNumbersByName:
      return R"({"type":"object","additionalProperties":{"type":"array","items":{"type":"number"},"minItems":2,"maxItems":2}})";
    case kDuration:
      return R"({"type":"string","pattern":"^[0-9]+(ms|s|m|h|d)$"})";
    case kSize:
      return R"({"type":"string","pattern":"^[0-9]+([KMGT]iB|[kMGT]B)$"})";
    case kRate:
      return R"({"type":"string","pattern":"^[0-9]+([KMGT]iB|[kMGT]B)/s$"})";
    default:
      break;
  }
  // Words that stand for many texts cannot be listed.
  const bool is_open = row.words.empty() || row.words.find(':') != std::string_view::npos ||
                       row.words.find('*') != std::string_view::npos;
  if (is_open) return R"({"type":"string"})";
  std::string names;
  for (const std::string_view word : Words(row.words))
    names += (names.empty() ? "" : ",") + JsonText(word);
  return "{\"enum\":[" + names + "]}";
}

// Bounds of a plain number; those of durations, sizes and lists are not expressible or not worth
// their length.
std::string JsonBounds(const Row& row) {
  if (row.range.empty() || (row.types & (kInteger | kNumber)) == 0) return {};
  const auto range = ParseRange(row.range, kNumber);
  std::string bounds = fmt::format(
      ",\"{}\":{}", range->is_low_excluded ? "exclusiveMinimum" : "minimum", range->low);
  if (range->high < 1e18) {
    bounds += fmt::format(",\"{}\":{}", range->is_high_excluded ? "exclusiveMaximum" : "maximum",
                          range->high);
  }
  return bounds;
}

std::string JsonProperty(const Key& key) {
  const Row& row = *key.row;
  std::string types;
  for (std::uint32_t bit = 0; bit < 12; ++bit) {
    const std::uint32_t type = row.types & (1U << bit);
    if (type != 0) types += (types.empty() ? "" : ",") + JsonType(type, row);
  }
  return fmt::format("{}:{{\"description\":{}{},\"anyOf\":[{}]}}", JsonText(row.key),
                     JsonText(row.text), JsonBounds(row), types);
}

std::string JsonProperties(const Schema& schema, std::string_view section) {
  std::string properties;
  for (const Key& key : schema.keys()) {
    if (key.section == section) properties += (properties.empty() ? "" : ",") + JsonProperty(key);
  }
  return properties;
}

}  // namespace

std::string ExplainTopic(const Schema& schema, std::string_view topic) {
  std::string text;
  for (const Key& key : schema.keys()) {
    const bool is_alias = schema.FindAlias(key.section, topic) == &key;
    if (key.path == topic || key.row->key == topic || is_alias) text += ExplainKey(key);
  }
  const Section* section = topic.empty() ? nullptr : schema.FindSection(topic);
  return section == nullptr ? text : ExplainSection(schema, *section) + text;
}

std::string MarkdownReference(const Schema& schema) {
  std::string text = fmt::format(
      "# {}\n\n{} Generated from the schema table of the program; rules and the form of errors are "
      "in "
      "[configuration.md](configuration.md).\n",
      schema.file(), schema.text());
  for (const Section& section : schema.sections()) {
    text += fmt::format("\n## {}\n\n{}\n\n| key | default | value | meaning |\n|---|---|---|---|\n",
                        section.name.empty() ? "Top level" : fmt::format("[{}]", section.name),
                        section.text);
    for (const Key& key : schema.keys()) {
      if (key.section == section.name) text += MarkdownRow(key);
    }
  }
  return text;
}

std::string JsonSchema(const Schema& schema) {
  std::string json = fmt::format(
      "{{\"$schema\":\"https://json-schema.org/draft/2020-12/"
      "schema\",\"title\":{},\"description\":{},"
      "\"type\":\"object\",\"additionalProperties\":false,\"properties\":{{{}",
      JsonText(schema.file()), JsonText(schema.text()), JsonProperties(schema, ""));
  for (const Section& section : schema.sections()) {
    if (section.name.empty()) continue;
    json += fmt::format(
        ",{}:{{\"description\":{},\"type\":\"object\",\"additionalProperties\":false,"
        "\"properties\":{{{}}}}}",
        JsonText(section.name), JsonText(section.text), JsonProperties(schema, section.name));
  }
  return json + "}}\n";
}

}  // namespace skep::config
