#include "shared/config/reader.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "shared/base/suggest.h"
#include "shared/config/toml_reader.h"
#include "shared/config/utf8.h"
#include "shared/config/value_check.h"

namespace skep::config {
namespace {

constexpr std::int64_t kSchemaVersion = 1;

std::string Joined(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : fmt::format("{}.{}", section, key);
}

// The line of that number, from 1.
std::string_view LineAt(std::string_view text, std::uint32_t number) {
  for (; number > 1; --number) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

class Reader {
 public:
  Reader(const Schema& schema, const std::string& file)
      : reading_(schema), schema_(schema), file_(file) {
    given_names_.resize(schema.keys().size());
  }

  Reading Run(const std::string& text, const std::vector<std::string>& sets) {
    text_ = text;
    const auto entries = ReadToml(text, file_);
    if (!entries) {
      Refuse(entries.problems());
    } else if (IsOfThisVersion(*entries)) {
      for (const Entry& entry : *entries) ReadEntry(entry, Source::kFile);
      ReadSets(sets);
      FillDefaults();
    }
    return std::move(reading_);
  }

 private:
  void Refuse(const std::vector<Problem>& problems) {
    reading_.is_readable = false;
    reading_.problems = problems;
  }

  // A newer file has keys of its own: only its number is reported then.
  bool IsOfThisVersion(const std::vector<Entry>& entries) {
    const auto found = std::find_if(entries.begin(), entries.end(), [](const Entry& e) {
      return e.section.empty() && e.key == "schema";
    });
    if (found == entries.end()) {
      if (schema_.is_version_required()) {
        reading_.problems.push_back({.code = 1011,
                                     .place = {.file = file_},
                                     .message = "\"schema\" is missing",
                                     .hint = "add `schema = 1` as the first line"});
      }
      return true;
    }
    if (!IsNewer(*found)) return true;
    Refuse({{.code = 1018, .place = {.file = file_}, .message = NewerText(*found)}});
    return false;
  }

  static bool IsNewer(const Entry& entry) {
    return entry.section.empty() && entry.key == "schema" && entry.value.is_integer() &&
           entry.value.integer() > kSchemaVersion;
  }

  static std::string NewerText(const Entry& entry) {
    return fmt::format("schema {} is newer than this program (reads {})", entry.value.integer(),
                       kSchemaVersion);
  }

  void ReadEntry(const Entry& entry, Source source) {
    if (entry.key.empty()) return CheckSection(entry);
    // Of --set alone: a newer file is not read at all.
    if (IsNewer(entry)) return Add(entry.value_place, {.code = 1018, .message = NewerText(entry)});
    if (!entry.section.empty() && schema_.FindSection(entry.section) == nullptr) {
      // In a file the header is reported once; a --set has no header.
      if (source == Source::kSet) AddUnknown(entry);
      return;
    }
    if (entry.section.empty() && schema_.FindSection(entry.key) != nullptr && !entry.key.empty()) {
      return Add(
          entry.key_place,
          {.code = 1101,
           .message = fmt::format("\"{0}\" is a section: its keys stand below [{0}]", entry.key),
           .topic = entry.key});
    }
    const Key* key = Resolve(entry);
    if (key != nullptr) Store(*key, entry, source);
  }

  void CheckSection(const Entry& entry) {
    if (schema_.FindSection(entry.section) != nullptr) return;
    if (schema_.Find(entry.section) != nullptr) {
      Value value = entry.value;
      const ValueCheck check = CheckValue(*schema_.Find(entry.section), value);
      return Add(entry.key_place, {.code = check.code, .message = check.message});
    }
    std::vector<std::string_view> names;
    for (const Section& section : schema_.sections()) {
      if (!section.name.empty()) names.push_back(section.name);
    }
    Add(entry.key_place,
        {.code = 1012,
         .message = fmt::format("unknown section \"{}\"", Printable(entry.section)),
         .suggestion = Suggest(entry.section, names)});
  }

  void AddUnknown(const Entry& entry) {
    std::vector<std::string_view> names;
    for (const Key& key : schema_.keys()) {
      if (key.section == entry.section) names.push_back(key.row->key);
    }
    Problem problem{
        .code = 1012,
        .message = fmt::format("unknown key \"{}\"", Printable(Joined(entry.section, entry.key))),
        .suggestion = Suggest(entry.key, names)};
    if (schema_.FindSection(entry.section) != nullptr) {
      problem.topic = entry.section;
    } else {
      std::vector<std::string_view> sections;
      for (const Section& section : schema_.sections()) sections.push_back(section.name);
      const std::string section = Suggest(entry.section, sections);
      if (!section.empty()) problem.suggestion = Joined(section, entry.key);
    }
    if (problem.suggestion.empty()) problem.hint = OtherHome(entry);
    Add(entry.key_place, std::move(problem));
  }

  // A known key in the wrong section, or without one after --set.
  [[nodiscard]] std::string OtherHome(const Entry& entry) const {
    std::string homes;
    for (const Section& section : schema_.sections()) {
      const bool is_known = schema_.Find(Joined(section.name, entry.key)) != nullptr ||
                            schema_.FindAlias(section.name, entry.key) != nullptr;
      if (section.name.empty() || section.name == entry.section || !is_known) continue;
      homes += fmt::format("{}[{}]", homes.empty() ? "a key of " : " and ", section.name);
    }
    return homes;
  }

  const Key* Resolve(const Entry& entry) {
    if (const Key* key = schema_.Find(Joined(entry.section, entry.key));
        key != nullptr && key->section == entry.section) {
      return key;
    }
    // "epochs" means local epochs in some frameworks and rounds in others.
    if (entry.key == "epochs" && schema_.Find("client.local_epochs") != nullptr) {
      Add(entry.key_place,
          {.code = 1013,
           .message = fmt::format("\"{}\" is ambiguous", Joined(entry.section, entry.key)),
           .hint = "give \"client.local_epochs\" (passes over a client's data) or "
                   "\"training.rounds\" (aggregations)"});
      return nullptr;
    }
    const Key* key = schema_.FindAlias(entry.section, entry.key);
    if (key == nullptr) AddUnknown(entry);
    return key;
  }

  void Store(const Key& key, const Entry& entry, Source source) {
    const std::size_t index = schema_.IndexOf(key.path);
    Setting& setting = reading_.effective.at(key.path);
    std::string& given_name = given_names_[index];
    if (setting.source == source) return AddTwice(key, entry, setting, given_name);
    if (entry.key != key.row->key) NoteAlias(entry.key, key.row->key);
    given_name = entry.key;

    Value value = entry.value;
    const ValueCheck check = CheckValue(key, value);
    setting.source = source;
    setting.key_place = entry.key_place;
    setting.value_place = entry.value_place;
    setting.item_places.clear();
    reading_.is_faulty[index] = check.code != 0;
    if (check.code != 0) {
      setting.value.reset();
      Add(entry.value_place, {.code = check.code,
                              .message = check.message,
                              .suggestion = check.suggestion,
                              .topic = std::string(key.section)});
      return;
    }
    if (!check.word_alias.empty()) NoteAlias(check.word_alias, value.text());
    if ((key.row->types & kTexts) != 0) KeepItems(entry, setting);
    setting.value = std::move(value);
  }

  // Each place keeps its line: only of as many items, and of such lines, as people write.
  void KeepItems(const Entry& entry, Setting& setting) const {
    constexpr std::size_t kMostItems = 256;
    constexpr std::size_t kLongestLine = 4096;
    if (entry.items.size() > kMostItems) return;
    for (const Spot& item : entry.items) {
      const std::string_view line = entry.value_place.is_set_option()
                                        ? std::string_view(entry.value_place.source_line)
                                        : LineAt(text_, item.line);
      if (line.size() > kLongestLine) return setting.item_places.clear();
      Place place = {.file = entry.value_place.file,
                     .line = item.line,
                     .column = item.column,
                     .width = item.width,
                     .source_line = std::string(line)};
      if (place.is_set_option()) place.line = entry.value_place.line;
      setting.item_places.push_back(std::move(place));
    }
  }

  void NoteAlias(std::string_view given, std::string_view name) {
    reading_.notes.push_back(
        {.text = fmt::format("\"{}\" is called \"{}\" in Skep (accepted)", given, name)});
  }

  void AddTwice(const Key& key, const Entry& entry, const Setting& setting,
                const std::string& given_name) {
    if (setting.source == Source::kSet) {
      return Add(entry.key_place,
                 {.code = 1103,
                  .message = fmt::format("\"{}\" is set twice (--set:{} and --set:{}): give one",
                                         key.path, setting.key_place.line, entry.key_place.line),
                  .topic = std::string(key.section)});
    }
    Add(entry.key_place,
        {.code = 1014,
         .message = fmt::format("\"{}\" is the same key as \"{}\" (line {}): give one", entry.key,
                                given_name, setting.key_place.line),
         .topic = std::string(key.section)});
  }

  void ReadSets(const std::vector<std::string>& sets) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const auto entry = ReadSetOption(sets[i], static_cast<std::uint32_t>(i + 1));
      if (entry) {
        ReadEntry(*entry, Source::kSet);
      } else {
        reading_.problems.insert(reading_.problems.end(), entry.problems().begin(),
                                 entry.problems().end());
      }
    }
  }

  void FillDefaults() {
    for (const Key& key : schema_.keys()) {
      Setting& setting = reading_.effective.at(key.path);
      if (setting.value) continue;
      setting.value = DefaultValue(key);
      if (setting.value && !setting.is_given()) setting.source = Source::kDefault;
    }
  }

  void Add(const Place& place, Problem problem) {
    problem.place = place;
    reading_.problems.push_back(std::move(problem));
  }

  Reading reading_;
  const Schema& schema_;
  const std::string& file_;
  std::string_view text_;
  std::vector<std::string> given_names_;  // by key: the name that the user wrote
};

bool IsBefore(const Place& a, const Place& b) {
  const auto rank = [](const Place& place) {
    return place.line == 0 ? 2 : place.is_set_option() ? 1 : 0;
  };
  return std::tuple(rank(a), a.line, a.column) < std::tuple(rank(b), b.line, b.column);
}

std::string_view KeyName(std::string_view path) {
  return path.substr(path.find('.') + 1);
}

// "line 19", "--set:2", "experiment.toml:19": how a message names the other place.
std::string OtherPlace(const Place& place, const Place& seen_from) {
  if (place.is_set_option()) return fmt::format("--set:{}", place.line);
  if (place.file == seen_from.file) return fmt::format("line {}", place.line);
  return fmt::format("{}:{}", place.file, place.line);
}

}  // namespace

bool Reading::IsSound(std::initializer_list<std::string_view> paths) const {
  return std::none_of(paths.begin(), paths.end(), [&](std::string_view path) {
    return is_faulty[effective.schema().IndexOf(path)];
  });
}

void Reading::AddAtKey(std::string_view path, Problem problem) {
  const Setting& setting = effective.at(path);
  if (setting.is_given()) problem.place = setting.key_place;
  problem.topic = std::string(setting.key->section);
  problems.push_back(std::move(problem));
}

void Reading::AddAtValue(std::string_view path, Problem problem) {
  const Setting& setting = effective.at(path);
  if (setting.is_given()) problem.place = setting.value_place;
  problem.topic = std::string(setting.key->section);
  problems.push_back(std::move(problem));
}

Reading ReadConfiguration(const Schema& schema, const std::string& text, const std::string& file,
                          const std::vector<std::string>& sets) {
  return Reader(schema, file).Run(text, sets);
}

void AddContradiction(Reading& reading, std::string_view a, std::string_view b,
                      std::string_view remedy) {
  const bool is_a_later =
      IsBefore(reading.effective.at(b).key_place, reading.effective.at(a).key_place);
  const std::string_view later = is_a_later ? a : b;
  const std::string_view earlier = is_a_later ? b : a;
  const Place& other = reading.effective.at(earlier).key_place;
  reading.AddAtKey(later,
                   {.code = 1103,
                    .message = fmt::format(
                        "\"{}\" contradicts \"{}\" ({}): {}", KeyName(later), KeyName(earlier),
                        OtherPlace(other, reading.effective.at(later).key_place), remedy)});
}

void AddExcess(Reading& reading, std::string_view path, std::string_view limit, int code) {
  const std::string value = ToToml(*reading.effective.at(path).value);
  const std::string most = ToToml(*reading.effective.at(limit).value);
  reading.AddAtKey(
      path, {.code = code,
             .message = fmt::format("\"{}\" ({}) exceeds \"{}\" ({})", path, value, limit, most)});
}

void SortProblems(std::vector<Problem>& problems) {
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& a, const Problem& b) { return IsBefore(a.place, b.place); });
}

}  // namespace skep::config
