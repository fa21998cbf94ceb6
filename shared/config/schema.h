// Schema: the one table of the keys of a configuration file. It drives reading, checks, `explain`,
// the reference documentation and the JSON schema, so that none of them can disagree.
//
// Rules between several keys are not here (experiment_checks.cc and so on), except the common forms
// `excludes` and `only_with`. Rows are constant; any thread. Source:
// docs/reference/configuration.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/config/value.h"

namespace skep::config {

// What a key takes; several may be allowed together.
enum Types : std::uint32_t {
  kBool = 1U << 0U,
  kInteger = 1U << 1U,
  kNumber = 1U << 2U,  // a whole number may stand for it
  kText = 1U << 3U,
  kDuration = 1U << 4U,
  kSize = 1U << 5U,
  kRate = 1U << 6U,
  kIntegers = 1U << 7U,  // lists
  kNumbers = 1U << 8U,
  kTexts = 1U << 9U,
  kTextsByName = 1U << 10U,    // table: name = [strings]
  kNumbersByName = 1U << 11U,  // table: name = [offset, scale]
};
constexpr Types operator|(Types a, Types b) {
  return static_cast<Types>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

// The form that a text must have.
enum class Form : std::uint8_t { kAny, kNotEmpty, kRunName, kName, kAddressPort, kHostPort, kHash };

// Lists of words are separated by " | "; a word with ":" stands for texts that go on behind it
// ("cuda:N": what follows is named, not compared), one that begins with "*" for texts that end with
// the rest.
struct Row {
  std::string_view key;
  Types types;
  std::string_view
      fallback;           // the default as TOML, or empty: none, or one that depends on other keys
  std::string_view text;  // one sentence
  std::string_view range =
      {};  // "1..100", "0<..1000" (0 excluded), "1.." (no upper end); of each item of a list
  std::string_view count = {};    // items of a list, as a range
  std::string_view words = {};    // allowed texts; empty: any text (if kText is allowed)
  std::string_view present = {};  // those of `words` that this build has; empty: all
  bool is_absent = false;         // known, but only its default is in this build
  std::string_view depends =
      {};  // what the default depends on, for the reference: "min(10, num_clients)"
  std::string_view aliases = {};       // other frameworks' names of the key
  std::string_view word_aliases = {};  // "hetero = dirichlet | homo = iid"
  std::string_view excludes = {};      // path of the key that must not be given too
  std::string_view only_with =
      {};  // "data.path" (is given) or "data.partition = shards | iid"; parts joined by " or "
  int only_with_code = 1103;  // 0: only a note, an error if the key was given by --set
  std::string_view unit = {};
  Form form = Form::kAny;
  bool is_reloadable = false;    // taken over by a reload (server.toml)
  bool is_secret_place = false;  // a path or "credential:NAME" of something secret
  std::string_view since = "0.1.0";
  std::string_view renamed_to = {};  // a key that is kept for two minor versions only
};

struct Section {
  std::string_view name;  // "" is the top level
  std::string_view text;  // one sentence
  std::span<const Row> rows;
};

// A row within its file.
struct Key {
  const Row* row = nullptr;
  std::string_view section;
  std::string path;  // "training.rounds", "seed"
};

class Schema {
 public:
  Schema(std::string_view file, std::string_view text, bool is_version_required,
         std::vector<Section> sections);

  [[nodiscard]] std::string_view file() const { return file_; }  // "experiment.toml"
  [[nodiscard]] std::string_view text() const { return text_; }
  [[nodiscard]] bool is_version_required() const { return is_version_required_; }
  [[nodiscard]] const std::vector<Section>& sections() const { return sections_; }
  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }  // in schema order

  [[nodiscard]] const Section* FindSection(std::string_view name) const;
  [[nodiscard]] const Key* Find(std::string_view path) const;
  [[nodiscard]] std::size_t IndexOf(std::string_view path) const;  // precondition: the key exists
  // The key that `name` is an alias of, ignoring case and taking "-" for "_".
  [[nodiscard]] const Key* FindAlias(std::string_view section, std::string_view name) const;

 private:
  std::string_view file_;
  std::string_view text_;
  bool is_version_required_;
  std::vector<Section> sections_;
  std::vector<Key> keys_;
};

// "a | b" -> {"a", "b"}.
[[nodiscard]] std::vector<std::string_view> Words(std::string_view list);
// Whether `text` is one of `words`, by the rules of Row.
[[nodiscard]] bool IsAmong(std::string_view text, std::string_view words);

// An interval, in the base unit of the type (nanoseconds, bytes, bytes per second).
struct Range {
  double low;
  double high;
  bool is_low_excluded = false;
  bool is_high_excluded = false;

  [[nodiscard]] bool Contains(double value) const;
};
[[nodiscard]] std::optional<Range> ParseRange(std::string_view text, Types types);
// "1 to 100", "above 0, at most 1000", "at least 1"; durations and sizes in quotes.
[[nodiscard]] std::string RangeText(std::string_view text, Types types);

// The sentence of `explain KEY`, `explain SECTION`; empty if there is no such topic.
[[nodiscard]] std::string ExplainTopic(const Schema& schema, std::string_view topic);
// The meaning of a word of the field ("client", "attempt"); empty if it is none.
[[nodiscard]] std::string ExplainWord(std::string_view word);
// The reference page in Markdown, and a JSON Schema (draft 2020-12) of the file.
[[nodiscard]] std::string MarkdownReference(const Schema& schema);
[[nodiscard]] std::string JsonSchema(const Schema& schema);

[[nodiscard]] const Schema& ExperimentSchema();
[[nodiscard]] const Schema& ServerSchema();
[[nodiscard]] const Schema& ClientSchema();

}  // namespace skep::config
