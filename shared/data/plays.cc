#include "shared/data/plays.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "shared/base/try.h"
#include "shared/data/byte_source.h"
#include "shared/data/code_point.h"
#include "shared/data/csv.h"
#include "shared/data/table_file.h"
#include "shared/data/table_scan.h"

namespace skep::data {
namespace {

constexpr std::uint64_t kLargestText = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostPlaces = std::uint64_t{1} << 30;  // of all examples: 5 GiB
constexpr std::uint32_t kLongestPiece = 65536;
constexpr std::size_t kMostClasses = 4096;
constexpr std::size_t kByteSymbols = 256;  // as many fit the inputs of a byte each
constexpr std::uint32_t kLeastLines = 2;   // of a role that takes part
constexpr char32_t kNewline = U'\n';

struct Line {
  std::uint32_t role = 0;
  std::uint64_t number = 0;  // in the file, from 1
  std::string_view text;
};

struct Play {
  std::string path;
  std::vector<std::string> roles;
  std::vector<std::uint32_t> lines_of_role;
  std::vector<Line> lines;
};

std::string PlaceOf(const Play& play, std::uint64_t number) {
  return play.path + ", line " + std::to_string(number) + ": ";
}

bool IsText(std::string_view line) {
  while (!line.empty()) {
    const auto next = FirstCodePoint(line);
    if (!next || next->value == 0) return false;
    line.remove_prefix(next->bytes);
  }
  return true;
}

// Cuts a text into roles and their lines.
class PlayReader {
 public:
  explicit PlayReader(const std::string& path) { play_.path = path; }

  Result<Play> Read(std::string_view text) {
    for (std::uint64_t number = 1; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      SKEP_TRY(Add(number, line));
    }
    if (play_.roles.empty()) return Error{1202, play_.path + ": no role", ""};
    return std::move(play_);
  }

 private:
  Status Add(std::uint64_t number, std::string_view line) {
    const bool may_be_role = std::exchange(is_after_empty_, line.empty());
    if (line.empty()) return Ok();
    if (!IsText(line)) return Error{1202, PlaceOf(play_, number) + "no UTF-8 text", ""};
    if (may_be_role && line.ends_with(':')) {
      line.remove_suffix(1);
      return BeginRole(number, line);
    }
    if (play_.roles.empty()) {
      return Error{1202, PlaceOf(play_, number) + "text before the first role",
                   "a role is a line that ends with \":\", first in the file or after an empty "
                   "line"};
    }
    if (play_.lines.size() == std::numeric_limits<std::uint32_t>::max()) {
      return Error{1202, play_.path + ": more than 4294967295 lines", ""};
    }
    play_.lines.push_back({role_, number, line});
    ++play_.lines_of_role[role_];
    return Ok();
  }

  Status BeginRole(std::uint64_t number, std::string_view name) {
    if (!IsLabel(name)) {
      return Error{1202,
                   PlaceOf(play_, number) +
                       "a role's name is 1 to 64 bytes of UTF-8 without control characters and"
                       " white space at its ends",
                   ""};
    }
    const auto [place, is_new] =
        numbers_.try_emplace(std::string(name), static_cast<std::uint32_t>(numbers_.size()));
    role_ = place->second;
    if (!is_new) return Ok();
    play_.roles.emplace_back(name);
    play_.lines_of_role.push_back(0);
    return Ok();
  }

  Play play_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::uint32_t role_ = 0;
  bool is_after_empty_ = true;  // the first line of the file may name a role, too
};

struct Parts {
  std::vector<Line> train;
  std::vector<Line> test;
  std::vector<std::string> left_out;  // roles
};

Parts Cut(const Play& play) {
  Parts parts;
  for (std::size_t role = 0; role < play.roles.size(); ++role) {
    if (play.lines_of_role[role] < kLeastLines) parts.left_out.push_back(play.roles[role]);
  }
  std::vector<std::uint32_t> seen(play.roles.size());
  for (const Line& line : play.lines) {
    const std::uint32_t all = play.lines_of_role[line.role];
    if (all < kLeastLines) continue;
    const std::uint32_t test = all / 5 + (all % 5 == 0 ? 0 : 1);
    (seen[line.role]++ < all - test ? parts.train : parts.test).push_back(line);
  }
  return parts;
}

using Symbols = std::map<char32_t, std::int32_t>;  // to class numbers

template <class F>
void ForEachSymbol(std::string_view line, const F& f) {
  while (!line.empty()) {
    const CodePoint next = *FirstCodePoint(line);
    f(next.value);
    line.remove_prefix(next.bytes);
  }
}

Result<std::vector<std::string>> ClassesOf(const std::vector<Line>& train, const Play& play,
                                           const DataOptions& options) {
  std::vector<std::string> classes = options.plan ? options.plan->classes : options.classes;
  if (!classes.empty()) {
    SKEP_TRY(CheckGivenNames(classes, "data.classes"));
    return classes;
  }
  std::set<char32_t> alphabet{kNewline};
  for (const Line& line : train) {
    ForEachSymbol(line.text, [&](char32_t symbol) { alphabet.insert(symbol); });
  }
  if (alphabet.size() > kMostClasses) {
    return Error{1202, play.path + ": more than 4096 different characters", ""};
  }
  for (const char32_t symbol : alphabet) classes.push_back(SymbolName(symbol));
  return classes;
}

Result<Symbols> SymbolsOf(const std::vector<std::string>& classes, const DataOptions& options) {
  Symbols symbols;
  for (const std::string& name : classes) {
    const auto symbol = SymbolOf(name);
    if (!symbol) {
      return Error{MismatchCode(options), "class \"" + name + "\" is no character",
                   "one character, or the number of one as in \"U+000A\""};
    }
    symbols.emplace(*symbol, static_cast<std::int32_t>(symbols.size()));
  }
  if (symbols.contains(kNewline)) return symbols;
  return Error{MismatchCode(options),
               "the classes lack \"" + SymbolName(kNewline) + "\", the end of a line", ""};
}

// Writes lines as examples of `length` places.
class Examples {
 public:
  Examples(const Symbols& symbols, std::uint32_t length)
      : symbols_(symbols), length_(length), newline_(symbols.at(kNewline)) {
    part_.input_shape = {length};
    part_.values = length;
    part_.labels_per_row = length;
  }

  // False: a symbol that is no class; it stands as a newline that is no label.
  bool Add(const Line& line, const std::string& role) {
    labels_.clear();
    bool is_known = true;
    ForEachSymbol(line.text, [&](char32_t symbol) {
      const auto found = symbols_.find(symbol);
      labels_.push_back(found == symbols_.end() ? kNoLabel : found->second);
      if (found != symbols_.end()) return;
      is_known = false;
      ++unknown_[symbol];
    });
    labels_.push_back(newline_);
    for (std::size_t from = 0; from < labels_.size(); from += length_) AddPiece(from, role);
    return is_known;
  }

  // A symbol is the same number on every path: bytes where all classes fit them.
  RawPart Finish() {
    part_.source_rows = part_.rows;
    if (symbols_.size() <= kByteSymbols) {
      part_.bytes.assign(inputs_.begin(), inputs_.end());
    } else {
      part_.numbers.assign(inputs_.begin(), inputs_.end());
    }
    inputs_ = {};
    return std::move(part_);
  }

  [[nodiscard]] std::uint64_t places() const { return part_.labels.size(); }
  [[nodiscard]] const std::map<char32_t, std::uint64_t>& unknown() const { return unknown_; }

 private:
  void AddPiece(std::size_t from, const std::string& role) {
    const std::size_t count = std::min<std::size_t>(length_, labels_.size() - from);
    for (std::size_t i = from; i < from + count; ++i) {
      const std::int32_t before = i == 0 ? newline_ : labels_[i - 1];
      inputs_.push_back(static_cast<std::uint16_t>(before == kNoLabel ? newline_ : before));
      part_.labels.push_back(labels_[i]);
    }
    inputs_.resize(inputs_.size() + length_ - count, static_cast<std::uint16_t>(newline_));
    part_.labels.resize(part_.labels.size() + length_ - count, kNoLabel);
    const auto [place, is_new] =
        owners_.try_emplace(role, static_cast<std::uint32_t>(part_.owner_names.size()));
    if (is_new) part_.owner_names.push_back(role);
    part_.owner.push_back(place->second);
    ++part_.rows;
  }

  const Symbols& symbols_;
  std::uint32_t length_;
  std::int32_t newline_;
  RawPart part_;
  std::vector<std::uint16_t> inputs_;  // class numbers: at most 4096
  std::vector<std::int32_t> labels_;   // of the line at hand
  std::map<std::string, std::uint32_t> owners_;
  std::map<char32_t, std::uint64_t> unknown_;  // with their places
};

Error TooLarge(const Play& play) {
  return Error{1202,
               play.path + ": its examples have more than " + std::to_string(kMostPlaces) +
                   " places together",
               "use a part of the text, or a shorter model.input"};
}

Result<RawPart> FillTrain(const Play& play, const Parts& parts, const Symbols& symbols,
                          const DataOptions& options, const std::vector<std::string>& classes) {
  Examples examples(symbols, options.text_length);
  for (const Line& line : parts.train) {
    if (!examples.Add(line, play.roles[line.role])) {
      const char32_t symbol = examples.unknown().begin()->first;
      const std::string shown = options.plan ? "" : " \"" + SymbolName(symbol) + "\"";
      return Error{
          MismatchCode(options),
          PlaceOf(play, line.number) + "unknown character" + shown + "; known: " + ListOf(classes),
          ""};
    }
    if (examples.places() > kMostPlaces) return TooLarge(play);
  }
  return examples.Finish();
}

Result<RawPart> FillTest(const Play& play, const Parts& parts, const Symbols& symbols,
                         const DataOptions& options, std::vector<std::string>& notes) {
  Examples examples(symbols, options.text_length);
  for (const Line& line : parts.test) {
    (void)examples.Add(line, play.roles[line.role]);
    if (examples.places() > kMostPlaces) return TooLarge(play);
  }
  if (examples.unknown().empty()) return examples.Finish();
  std::uint64_t places = 0;
  std::vector<std::string> names;
  for (const auto& [symbol, count] : examples.unknown()) {
    places += count;
    names.push_back(SymbolName(symbol));
  }
  notes.push_back("characters of the test part that are no class are not predicted: " +
                  (options.plan ? std::to_string(names.size()) : ListOf(names)) + ", in " +
                  std::to_string(places) + (places == 1 ? " place" : " places"));
  return examples.Finish();
}

Status CheckKeys(const DataOptions& options) {
  const auto refuse = [](const std::string& key, const std::string& why) {
    return Error{1103, "\"" + key + "\" contradicts \"data.format\" = \"plays\": " + why, ""};
  };
  if (!options.client_column.empty()) return refuse("data.client_column", "its roles own lines");
  if (!options.client_file.empty()) return refuse("data.client_file", "its roles own lines");
  if (!options.scaling.empty()) return refuse("data.scaling", "characters are not scaled");
  if (!options.plan && options.normalize != "auto" && options.normalize != "none") {
    return refuse("data.normalize", "characters are not scaled");
  }
  const bool has_names =
      !options.features.empty() && options.features != std::vector{std::string("x")};
  if (has_names) return refuse("data.features", "text has no columns");
  if (options.text_length < 1 || options.text_length > kLongestPiece) {
    return Error{1102, "a piece of text has 1 to 65536 characters", "set model.input"};
  }
  if (!options.plan) return Ok();
  const std::vector<Feature>& planned = options.plan->features;
  if (options.plan->IsUnnamedArray() && planned[0].offset == 0 && planned[0].scale == 1) {
    return Ok();
  }
  return Error{7414, options.path + " holds text; columns or scaled numbers are expected", ""};
}

}  // namespace

Result<RawData> ReadPlays(const DataOptions& options) {
  SKEP_TRY(CheckKeys(options));
  SKEP_ASSIGN(ByteSource source, ByteSource::Open(options.path));
  SKEP_ASSIGN(const std::string text, source.ReadAll(kLargestText));
  SKEP_ASSIGN(const std::string_view plain, PlainText(text, options.path));
  SKEP_ASSIGN(const Play play, PlayReader(options.path).Read(plain));
  const Parts parts = Cut(play);
  if (parts.train.empty()) return Error{1202, options.path + ": no role has two lines", ""};

  RawData data;
  data.is_array = true;
  data.spec.task = Task::kNextToken;
  data.spec.features = {Feature{.name = "x", .categories = {}}};
  SKEP_ASSIGN(data.spec.classes, ClassesOf(parts.train, play, options));
  if (options.plan) data.spec = *options.plan;
  SKEP_ASSIGN(const Symbols symbols, SymbolsOf(data.spec.classes, options));
  if (!parts.left_out.empty()) {
    data.notes.push_back("left out, with fewer than two lines: the roles " +
                         ListOf(parts.left_out));
  }
  if (!options.test_path.empty()) {
    data.notes.push_back("data.test_path is not used: plays have a test part of their own");
  }
  SKEP_ASSIGN(data.train, FillTrain(play, parts, symbols, options, data.spec.classes));
  SKEP_ASSIGN(RawPart test, FillTest(play, parts, symbols, options, data.notes));
  data.test = std::move(test);
  return data;
}

}  // namespace skep::data
