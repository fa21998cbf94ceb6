// JsonObject: a small JSON file of the storage folder, read with every field checked.
//
// Numbers with a fraction are kept as text elsewhere, so that they come back bit for bit; here are
// objects, texts and whole numbers. Not for files of strangers. A value; any thread.
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"

namespace skep::agent {

class JsonObject {
 public:
  // `name` stands for the file in messages. SKEP-1010 unless `text` is one JSON object.
  [[nodiscard]] static Result<JsonObject> Parse(std::string_view text, const std::string& name);
  // SKEP-1010, also if the file has more than `limit` bytes.
  [[nodiscard]] static Result<JsonObject> Read(const std::string& path, std::uint64_t limit);

  [[nodiscard]] bool Has(std::string_view key) const;
  // SKEP-1010 for a field that is missing or of another kind.
  [[nodiscard]] Result<std::string> Text(std::string_view key) const;
  [[nodiscard]] Result<std::uint64_t> Whole(std::string_view key, std::uint64_t most) const;
  [[nodiscard]] Result<std::vector<std::string>> Texts(std::string_view key) const;
  [[nodiscard]] Result<Bytes> Hex(std::string_view key) const;
  [[nodiscard]] Result<JsonObject> Object(std::string_view key) const;
  [[nodiscard]] Result<std::vector<JsonObject>> Objects(std::string_view key) const;

  template <class Id>
  [[nodiscard]] Result<Id> IdOf(std::string_view key) const {
    Result<Bytes> bytes = Hex(key);
    if (!bytes.has_value()) return std::move(bytes).error();
    const std::optional<Id> id = Id::From(*bytes);
    if (!id) return Damaged(key);
    return *id;
  }

  [[nodiscard]] Error Damaged(std::string_view key) const;

 private:
  JsonObject(boost::json::object fields, std::string name)
      : fields_(std::move(fields)), name_(std::move(name)) {}

  boost::json::object fields_;
  std::string name_;
};

// The text of an object, with a line feed.
[[nodiscard]] std::string JsonLine(const boost::json::object& fields);

}  // namespace skep::agent
