#include "client/agent/json_object.h"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::agent {

namespace json = boost::json;

Result<JsonObject> JsonObject::Parse(std::string_view text, const std::string& name) {
  json::error_code failure;
  json::value value = json::parse(text, failure);
  if (failure || !value.is_object()) return Error{1010, name + " is damaged: no JSON object", ""};
  return JsonObject(std::move(value.get_object()), name);
}

Result<JsonObject> JsonObject::Read(const std::string& path, std::uint64_t limit) {
  SKEP_ASSIGN(const Bytes content, ReadFile(path, limit, 1010));
  return Parse(AsText(content), path);
}

Error JsonObject::Damaged(std::string_view key) const {
  return Error{1010, name_ + " is damaged: \"" + std::string(key) + "\"", ""};
}

bool JsonObject::Has(std::string_view key) const {
  return fields_.contains(key);
}

Result<std::string> JsonObject::Text(std::string_view key) const {
  const json::value* value = fields_.if_contains(key);
  if (value == nullptr || !value->is_string()) return Damaged(key);
  return std::string(value->get_string().begin(), value->get_string().end());
}

Result<std::uint64_t> JsonObject::Whole(std::string_view key, std::uint64_t most) const {
  const json::value* value = fields_.if_contains(key);
  if (value == nullptr || !value->is_number()) return Damaged(key);
  json::error_code failure;
  const auto number = value->to_number<std::uint64_t>(failure);
  if (failure || number > most) return Damaged(key);
  return number;
}

Result<std::vector<std::string>> JsonObject::Texts(std::string_view key) const {
  const json::value* value = fields_.if_contains(key);
  if (value == nullptr || !value->is_array()) return Damaged(key);
  std::vector<std::string> texts;
  for (const json::value& item : value->get_array()) {
    if (!item.is_string()) return Damaged(key);
    texts.emplace_back(item.get_string().begin(), item.get_string().end());
  }
  return texts;
}

Result<Bytes> JsonObject::Hex(std::string_view key) const {
  SKEP_ASSIGN(const std::string text, Text(key));
  std::optional<Bytes> bytes = FromHex(text);
  if (!bytes) return Damaged(key);
  return std::move(*bytes);
}

Result<JsonObject> JsonObject::Object(std::string_view key) const {
  const json::value* value = fields_.if_contains(key);
  if (value == nullptr || !value->is_object()) return Damaged(key);
  return JsonObject(value->get_object(), name_);
}

Result<std::vector<JsonObject>> JsonObject::Objects(std::string_view key) const {
  const json::value* value = fields_.if_contains(key);
  if (value == nullptr || !value->is_array()) return Damaged(key);
  std::vector<JsonObject> objects;
  for (const json::value& item : value->get_array()) {
    if (!item.is_object()) return Damaged(key);
    objects.push_back(JsonObject(item.get_object(), name_));
  }
  return objects;
}

std::string JsonLine(const json::object& fields) {
  return json::serialize(fields) + "\n";
}

}  // namespace skep::agent
