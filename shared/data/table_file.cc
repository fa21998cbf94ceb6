#include "shared/data/table_file.h"

#include <algorithm>
#include <filesystem>

#include "shared/base/suggest.h"
#include "shared/base/try.h"
#include "shared/data/byte_source.h"
#include "shared/data/data_spec.h"

namespace skep::data {
namespace {

constexpr std::uint64_t kLargestText = std::uint64_t{1} << 32;
constexpr int kHeaderRows = 100;  // rows after the first that decide what the first one is
constexpr std::size_t kListed = 12;

bool TakeEnding(std::string& name, std::string_view ending) {
  if (name.size() <= ending.size() || name.substr(name.size() - ending.size()) != ending)
    return false;
  name.resize(name.size() - ending.size());
  return true;
}

// Cuts .gz and then .csv or .tsv; false if the name has neither of the latter.
bool TakeTableEnding(std::string& name) {
  (void)TakeEnding(name, ".gz");
  return TakeEnding(name, ".csv") || TakeEnding(name, ".tsv");
}

bool IsNumberLike(std::string_view field, char decimal) {
  const FieldKind kind = ReadField(field, decimal).kind;
  return kind == FieldKind::kNumber || kind == FieldKind::kOtherDecimal ||
         kind == FieldKind::kNotFinite;
}

// A header: text above a column of numbers, or a name that the user gave.
Result<bool> DecideHeader(const TableFile& file, const TableFormat& format) {
  CsvRows rows(std::string_view(file.text).substr(file.body), file.separator, file.path);
  SKEP_ASSIGN(const bool is_there, rows.Next());
  if (!is_there) return Error{1202, file.path + ": no rows", ""};
  const std::vector<std::string> first(rows.fields().begin(), rows.fields().end());
  for (const std::string& name : format.column_names) {
    // "6" may be the number of a column without a name, and a value of the first row.
    if (IsNumberLike(name, format.decimal)) continue;
    if (std::find(first.begin(), first.end(), name) != first.end()) return true;
  }
  std::vector<bool> has_number(first.size());
  std::vector<bool> has_text(first.size());
  for (int count = 0; count < kHeaderRows; ++count) {
    SKEP_ASSIGN(const bool has_row, rows.Next());
    if (!has_row) break;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const FieldKind kind = ReadField(rows.fields()[i], format.decimal).kind;
      if (kind == FieldKind::kMissing) continue;
      (kind == FieldKind::kText ? has_text : has_number)[i] = true;
    }
  }
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool is_text = !IsNumberLike(first[i], format.decimal) &&
                         ReadField(first[i], format.decimal).kind != FieldKind::kMissing;
    if (is_text && has_number[i] && !has_text[i]) return true;
  }
  return false;
}

Status NameColumns(TableFile& file) {
  CsvRows rows(std::string_view(file.text).substr(file.body), file.separator, file.path);
  SKEP_ASSIGN(const bool is_there, rows.Next());
  if (!is_there) return Error{1202, file.path + ": no rows", ""};
  const auto refuse = [&](const std::string& reason, const std::string& hint = "") {
    return Error{1202, file.path + ", line " + std::to_string(rows.line()) + ": " + reason, hint};
  };
  for (std::size_t i = 0; i < rows.fields().size(); ++i) {
    const std::string name = file.has_header ? std::string(rows.fields()[i]) : std::to_string(i);
    const std::string column = "column " + std::to_string(i);
    if (name.empty()) {
      return refuse(column + " has no name", "name it in the header, or remove it");
    }
    if (!IsLabel(name)) {
      return refuse("the name of " + column +
                    " is not 1 to 64 bytes of UTF-8 without control characters");
    }
    if (!file.place.emplace(name, i).second) {
      return refuse("two columns are called \"" + name + "\"");
    }
    file.columns.push_back(name);
  }
  return Ok();
}

}  // namespace

Result<CsvRows> TableFile::Rows() const {
  CsvRows rows(std::string_view(text).substr(body), separator, path);
  if (has_header) SKEP_TRY(rows.Next());
  return rows;
}

std::optional<std::size_t> TableFile::Find(std::string_view column) const {
  const auto found = place.find(column);
  return found == place.end() ? std::nullopt : std::optional(found->second);
}

Result<TableFile> OpenTable(const std::string& path, const TableFormat& format) {
  TableFile file;
  file.path = path;
  file.stem = std::filesystem::path(path).filename().string();
  (void)TakeTableEnding(file.stem);
  SKEP_ASSIGN(ByteSource source, ByteSource::Open(path));
  SKEP_ASSIGN(file.text, source.ReadAll(kLargestText));
  SKEP_ASSIGN(const std::string_view plain, PlainText(file.text, path));
  file.body = file.text.size() - plain.size();
  file.separator = FindSeparator(plain);
  if (format.header) {
    file.has_header = *format.header;
  } else {
    SKEP_ASSIGN(file.has_header, DecideHeader(file, format));
  }
  SKEP_TRY(NameColumns(file));
  return file;
}

Result<std::vector<std::string>> TablePaths(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::is_directory(path, failure)) return std::vector<std::string>{path};
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(path, failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    std::string stem = name;
    if (name[0] != '.' && TakeTableEnding(stem)) names.push_back(name);
  }
  if (failure) return Error{1201, "cannot list " + path + ": " + failure.message(), ""};
  if (names.empty()) return Error{1201, path + " holds no .csv file", ""};
  // A folder lists its files in any order.
  std::sort(names.begin(), names.end());
  for (std::string& name : names) name.insert(0, path + "/");
  return names;
}

std::string ListOf(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kListed); ++i) {
    list += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
  }
  if (names.size() > kListed) list += " and " + std::to_string(names.size() - kListed) + " more";
  return list;
}

Error NoColumn(const std::string& path, const std::string& column,
               const std::vector<std::string>& columns, int code) {
  const std::string nearest = Suggest(column, {columns.begin(), columns.end()});
  return Error{code, path + ": no column \"" + column + "\"; it has " + ListOf(columns),
               nearest.empty() ? "" : "did you mean \"" + nearest + "\"?"};
}

}  // namespace skep::data
