#include "shared/data/table.h"

#include <algorithm>
#include <limits>
#include <map>

#include "shared/base/try.h"
#include "shared/data/table_scan.h"

namespace skep::data {
namespace {

using Numbers = std::map<std::string, std::int32_t, std::less<>>;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

Numbers NumbersOf(const std::vector<std::string>& names) {
  Numbers numbers;
  for (const std::string& name : names) {
    numbers.emplace(name, static_cast<std::int32_t>(numbers.size()));
  }
  return numbers;
}

// Fills a part row by row. Rows that are dropped leave no trace but their number in the source.
class Filler {
 public:
  Filler(const DataSpec& spec, const DataOptions& options)
      : spec_(spec), options_(options), classes_(NumbersOf(spec.classes)) {
    for (const Feature& feature : spec.features) {
      width_ += feature.is_categorical ? feature.categories.size() : 1;
      categories_.push_back(NumbersOf(feature.categories));
    }
  }

  Status AddFile(const TableFile& file, const Roles& roles) {
    file_ = &file;
    const Places places = PlacesIn(file, roles);
    SKEP_ASSIGN(CsvRows rows, file.Rows());
    for (;;) {
      SKEP_ASSIGN(const bool has_row, rows.Next());
      if (!has_row) return Ok();
      line_ = rows.line();
      SKEP_TRY(AddRow(rows.fields(), places));
    }
  }

  Result<RawPart> Finish() {
    if (part_.source_rows == 0) return Error{1202, file_->path + ": no rows", ""};
    if (part_.rows == 0) {
      return Error{1202, file_->path + ": no row is left", "data.missing = \"drop\" drops rows"};
    }
    part_.values = width_;
    part_.input_shape = {static_cast<std::uint32_t>(width_)};
    if (has_owners_) AssignOwners(part_, owner_of_source_row_);
    return std::move(part_);
  }

 private:
  enum class Kept : std::uint8_t { kYes, kNo };

  [[nodiscard]] std::string Place(const std::string& column) const {
    return file_->path + ", line " + std::to_string(line_) + ", column \"" + column + "\": ";
  }
  // What is found stands in messages, except on a device: its data are nobody else's business.
  [[nodiscard]] std::string Shown(std::string_view field) const {
    return options_.plan ? "" : " \"" + std::string(field) + "\"";
  }

  Status AddRow(const std::vector<std::string_view>& fields, const Places& places) {
    if (part_.source_rows == std::numeric_limits<std::uint32_t>::max()) {
      return Error{1202, file_->path + ": more than 4294967295 rows", ""};
    }
    SKEP_TRY(AddOwner(fields, places));
    const auto source = static_cast<std::uint32_t>(part_.source_rows++);
    const std::size_t before = part_.numbers.size();
    SKEP_ASSIGN(Kept kept, AddLabel(fields[places.label]));
    for (std::size_t i = 0; i < spec_.features.size() && kept == Kept::kYes; ++i) {
      SKEP_ASSIGN(kept, AddInput(fields[places.features[i]], i));
    }
    if (kept == Kept::kNo) {
      part_.numbers.resize(before);
      part_.labels.resize(part_.rows);
      return Ok();
    }
    part_.source_row.push_back(source);
    ++part_.rows;
    return Ok();
  }

  Status AddOwner(const std::vector<std::string_view>& fields, const Places& places) {
    has_owners_ = places.client.has_value() || options_.client_column == "@file";
    if (!has_owners_) return Ok();
    const std::string owner = places.client ? std::string(fields[*places.client]) : file_->stem;
    if (!IsLabel(owner)) {
      const std::string column = places.client ? options_.client_column : "@file";
      return Error{1202,
                   Place(column) + (owner.empty() ? "no client's name"
                                                  : "a client's name is 1 to 64 bytes of UTF-8"
                                                    " without control characters and white"
                                                    " space at its ends"),
                   ""};
    }
    owner_of_source_row_.push_back(owner);
    return Ok();
  }

  // A row whose field says nothing: dropped, or an error.
  Result<Kept> Miss(std::string_view field, const std::string& column) {
    if (options_.missing == "drop") return Kept::kNo;
    return Error{1202, Place(column) + "missing value" + (field.empty() ? "" : Shown(field)),
                 "data.missing = \"drop\" drops such rows, \"mean\" fills in numbers"};
  }
  [[nodiscard]] Error Unknown(std::string_view field, const std::string& column,
                              const std::string& what,
                              const std::vector<std::string>& known) const {
    return Error{MismatchCode(options_),
                 Place(column) + "unknown " + what + Shown(field) + "; known: " + ListOf(known),
                 ""};
  }

  Result<Kept> AddLabel(std::string_view field) {
    if (field.empty()) return Miss(field, spec_.label);
    const auto found = classes_.find(field);
    if (found == classes_.end()) return Unknown(field, spec_.label, "class", spec_.classes);
    part_.labels.push_back(found->second);
    return Kept::kYes;
  }

  Result<Kept> AddInput(std::string_view field, std::size_t index) {
    const Feature& feature = spec_.features[index];
    if (feature.is_categorical) {
      if (field.empty()) return Miss(field, feature.name);
      const auto found = categories_[index].find(field);
      if (found == categories_[index].end()) {
        return Unknown(field, feature.name, "category", feature.categories);
      }
      const std::size_t at = part_.numbers.size();
      part_.numbers.resize(at + feature.categories.size());
      part_.numbers[at + static_cast<std::size_t>(found->second)] = 1;
      return Kept::kYes;
    }
    const FieldValue value = ReadField(field, options_.decimal);
    if (value.kind == FieldKind::kMissing && options_.missing != "mean") {
      return Miss(field, feature.name);
    }
    part_.numbers.push_back(value.kind == FieldKind::kMissing ? kMissing : value.number);
    return Kept::kYes;
  }

  const DataSpec& spec_;
  const DataOptions& options_;
  Numbers classes_;
  std::vector<Numbers> categories_;
  std::size_t width_ = 0;
  RawPart part_;
  bool has_owners_ = false;
  std::vector<std::string> owner_of_source_row_;
  const TableFile* file_ = nullptr;
  std::uint64_t line_ = 0;
};

TableFormat FormatOf(const DataOptions& options) {
  TableFormat format{.header = options.header, .decimal = options.decimal, .column_names = {}};
  for (const std::string& name : {options.label, options.client_column}) {
    if (!name.empty()) format.column_names.push_back(name);
  }
  for (const std::string& name : options.features) format.column_names.push_back(name);
  if (options.plan) {
    for (const Feature& feature : options.plan->features)
      format.column_names.push_back(feature.name);
  }
  return format;
}

Status OpenAll(const std::string& path, const TableFormat& format, std::vector<TableFile>& files) {
  SKEP_ASSIGN(const std::vector<std::string> paths, TablePaths(path));
  for (const std::string& file : paths) {
    SKEP_ASSIGN(TableFile opened, OpenTable(file, format));
    files.push_back(std::move(opened));
  }
  return Ok();
}

std::vector<std::string> NotesOf(const TableScan& scan, const DataSpec& spec) {
  std::vector<std::string> notes;
  if (scan.rows_of_separators > 0) {
    notes.push_back("skipped " + std::to_string(scan.rows_of_separators) +
                    " rows that hold only separators");
  }
  if (spec.classes.size() == 1) {
    notes.push_back("the label column \"" + spec.label +
                    "\" holds one class only: " + ListOf(spec.classes));
  }
  return notes;
}

Result<RawPart> FillPart(std::span<const TableFile> files, const Roles& roles, const DataSpec& spec,
                         const DataOptions& options) {
  Filler filler(spec, options);
  for (const TableFile& file : files) SKEP_TRY(filler.AddFile(file, roles));
  return filler.Finish();
}

}  // namespace

Result<RawData> ReadTables(const DataOptions& options) {
  const TableFormat format = FormatOf(options);
  std::vector<TableFile> files;
  SKEP_TRY(OpenAll(options.path, format, files));
  const std::size_t train_files = files.size();
  if (!options.test_path.empty()) SKEP_TRY(OpenAll(options.test_path, format, files));

  SKEP_ASSIGN(const Roles roles, FindRoles(files, options));
  SKEP_ASSIGN(const TableScan scan, ScanTables(files, roles, options.decimal));
  RawData data;
  SKEP_ASSIGN(data.spec, SpecOf(scan, roles, options));
  data.notes = NotesOf(scan, data.spec);
  const std::span<const TableFile> all(files);
  SKEP_ASSIGN(data.train, FillPart(all.first(train_files), roles, data.spec, options));
  if (!options.test_path.empty()) {
    SKEP_ASSIGN(RawPart test, FillPart(all.subspan(train_files), roles, data.spec, options));
    data.test = std::move(test);
  }
  return data;
}

Result<std::vector<std::string>> ReadClientFile(const DataOptions& options, std::size_t rows) {
  TableFormat format{.header = {}, .decimal = '.', .column_names = {}};
  if (!options.client_column.empty()) format.column_names.push_back(options.client_column);
  SKEP_ASSIGN(const TableFile file, OpenTable(options.client_file, format));
  std::string column = options.client_column;
  if (column.empty() && file.columns.size() == 1) column = file.columns[0];
  if (column.empty()) {
    return Error{1202,
                 file.path + ": which column names the client? It has " + ListOf(file.columns),
                 "set data.client_column"};
  }
  const auto place = file.Find(column);
  if (!place) return NoColumn(file.path, column, file.columns, 1202);
  std::vector<std::string> names;
  SKEP_ASSIGN(CsvRows lines, file.Rows());
  for (;;) {
    SKEP_ASSIGN(const bool has_row, lines.Next());
    if (!has_row) break;
    names.emplace_back(lines.fields()[*place]);
    if (!IsLabel(names.back())) {
      return Error{
          1202,
          file.path + ", line " + std::to_string(lines.line()) + ", column \"" + column +
              "\": " + (names.back().empty() ? "no client's name" : "no label of a client"),
          ""};
    }
  }
  if (names.size() == rows) return names;
  return Error{1202,
               file.path + " names the clients of " + std::to_string(names.size()) +
                   " rows, the data have " + std::to_string(rows),
               ""};
}

Result<SourceFacts> Inspect(const DataOptions& options) {
  std::vector<TableFile> files;
  SKEP_TRY(OpenAll(options.path, FormatOf(options), files));
  Roles roles;  // all columns stand as inputs: what they are is the question
  roles.features = files.front().columns;
  roles.label = files.front().columns.back();
  for (const TableFile& file : files) {
    for (const std::string& column : roles.features) {
      if (!file.Find(column)) return NoColumn(file.path, column, file.columns, 1202);
    }
  }
  SKEP_ASSIGN(const TableScan scan, ScanTables(files, roles, options.decimal));
  SourceFacts facts;
  facts.rows = scan.rows;
  for (std::size_t i = 0; i < roles.features.size(); ++i) {
    const ColumnScan& column = scan.features[i];
    facts.columns.push_back({.name = roles.features[i],
                             .is_numeric = !column.text.has_value(),
                             .values = {column.values.begin(), column.values.end()}});
  }
  return facts;
}

}  // namespace skep::data
