// Effective: every key of a schema with the value that counts, where it came from, and where it
// stands in the file.
//
// Filled by the reader from defaults, file and `--set`; the loaders of each file then set what they
// derive. Not thread-safe while it changes. Source: docs/formats.md (config_sha256),
// docs/reference/configuration.md.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/config/problem.h"
#include "shared/config/schema.h"

namespace skep::config {

enum class Source : std::uint8_t { kNone, kDefault, kFile, kSet, kDerived };

struct Setting {
  const Key* key = nullptr;
  std::optional<Value> value;
  Source source = Source::kNone;
  Place key_place;  // of what the user gave, for kFile and kSet
  Place value_place;
  std::vector<Place> item_places;  // of a list of texts; empty where a line is too long to show
  // The value is shown, but another key that was derived from it speaks for it: client_fraction
  // beside clients_per_round. Not part of the hash nor of a saved configuration.
  bool is_superseded = false;

  [[nodiscard]] bool is_given() const { return source == Source::kFile || source == Source::kSet; }
  // "default", "experiment.toml:18", "--set", "derived", or "" without a value.
  [[nodiscard]] std::string SourceText() const;
};

class Effective {
 public:
  explicit Effective(const Schema& schema);

  [[nodiscard]] const Schema& schema() const { return *schema_; }
  [[nodiscard]] const std::vector<Setting>& settings() const {
    return settings_;
  }  // in schema order
  // Precondition of all below: `path` is a key of the schema.
  [[nodiscard]] const Setting& at(std::string_view path) const {
    return settings_[schema_->IndexOf(path)];
  }
  [[nodiscard]] Setting& at(std::string_view path) { return settings_[schema_->IndexOf(path)]; }
  [[nodiscard]] bool Has(std::string_view path) const { return at(path).value.has_value(); }
  [[nodiscard]] bool IsGiven(std::string_view path) const { return at(path).is_given(); }

  // Precondition: there is a value of that kind.
  [[nodiscard]] bool Boolean(std::string_view path) const { return at(path).value->boolean(); }
  [[nodiscard]] std::uint64_t Whole(std::string_view path) const;
  [[nodiscard]] double Number(std::string_view path) const { return at(path).value->number(); }
  [[nodiscard]] const std::string& Text(std::string_view path) const {
    return at(path).value->text();
  }
  [[nodiscard]] Nanoseconds Duration(std::string_view path) const;
  [[nodiscard]] std::uint64_t Size(std::string_view path) const;  // also of a rate
  [[nodiscard]] std::vector<std::string> Texts(std::string_view path) const;
  [[nodiscard]] std::vector<std::uint32_t> Wholes(std::string_view path) const;

  // Sets what follows from other values; does nothing to a key that the user gave.
  void Derive(std::string_view path, Value value);

  // `section.key = VALUE` lines in schema order, without name, schema, population and [run].
  [[nodiscard]] std::string HashedLines() const;
  [[nodiscard]] Hash32 ConfigHash() const;
  // A file that gives the same effective configuration, with sources as comments.
  [[nodiscard]] std::string AsToml() const;
  // A table: key, value, source; one line each, every key.
  [[nodiscard]] std::string AsTable() const;

 private:
  const Schema* schema_;
  std::vector<Setting> settings_;
};

// `error` as the problem of the configuration: at the value of the first key that its message or
// its hint names and that was given, else at that of the first of `keys` that was; at an item,
// where the message says "KEY, line N". Without one only the file is named.
[[nodiscard]] Problem ProblemOf(const Error& error, const Effective& effective,
                                std::initializer_list<std::string_view> keys = {});

}  // namespace skep::config
