#include "shared/data/table_scan.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "shared/base/try.h"

namespace skep::data {
namespace {

constexpr std::size_t kMostCategories = 1000;
constexpr std::size_t kMostClasses = 4096;
constexpr std::size_t kMostIntegerClasses = 1000;  // more distinct numbers are a quantity

bool Holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string PlaceOf(const Sighting& seen, const std::string& column) {
  return seen.file + ", line " + std::to_string(seen.line) + ", column \"" + column + "\": ";
}

// What the user or the plan says about features; empty: nothing.
std::vector<std::string> GivenFeatures(const DataOptions& options) {
  if (!options.plan) return options.features;
  std::vector<std::string> names;
  for (const Feature& feature : options.plan->features) names.push_back(feature.name);
  return names;
}

Result<std::string> FindClient(const TableFile& first, const DataOptions& options) {
  const bool is_here = !options.client_column.empty() && options.client_column != "@file" &&
                       options.client_file.empty();
  if (!is_here) return std::string();
  if (first.Find(options.client_column)) return options.client_column;
  return NoColumn(first.path, options.client_column, first.columns, 1202);
}

Result<std::string> FindLabel(const TableFile& first, const std::string& client,
                              const std::vector<std::string>& given, const DataOptions& options) {
  const bool is_planned = options.label.empty() && !options.label_index && options.plan;
  const std::string name = is_planned ? options.plan->label : options.label;
  if (!name.empty()) {
    if (first.Find(name)) return name;
    return NoColumn(first.path, name, first.columns, is_planned ? 7414 : 1202);
  }
  if (options.label_index) {
    if (*options.label_index < first.columns.size()) return first.columns[*options.label_index];
    return Error{1202,
                 first.path + ": label = " + std::to_string(*options.label_index) +
                     ", but columns are numbered 0 to " + std::to_string(first.columns.size() - 1),
                 ""};
  }
  for (auto column = first.columns.rbegin(); column != first.columns.rend(); ++column) {
    if (*column != client && !Holds(given, *column)) return *column;
  }
  return Error{
      1202, first.path + ": no column is left for the label; it has " + ListOf(first.columns), ""};
}

Status MatchColumns(const TableFile& file, const Roles& roles, int code) {
  std::vector<std::string> known = roles.features;
  known.push_back(roles.label);
  if (!roles.client.empty()) known.push_back(roles.client);
  for (const std::string& column : known) {
    if (!file.Find(column)) return NoColumn(file.path, column, file.columns, code);
  }
  const std::set<std::string_view> names(known.begin(), known.end());
  for (const std::string& column : file.columns) {
    if (!names.contains(column)) {
      return Error{code, file.path + ": unknown column \"" + column + "\"; known: " + ListOf(known),
                   ""};
    }
  }
  return Ok();
}

void Note(ColumnScan& scan, std::string_view field, char decimal, const TableFile& file,
          std::uint64_t line) {
  const FieldKind kind = ReadField(field, decimal).kind;
  if (kind == FieldKind::kMissing) return;
  if (kind == FieldKind::kNumber) {
    scan.has_number = true;
    return;
  }
  std::optional<Sighting>& seen = kind == FieldKind::kText           ? scan.text
                                  : kind == FieldKind::kOtherDecimal ? scan.other_decimal
                                                                     : scan.not_finite;
  if (!seen) seen = Sighting{file.path, line, std::string(field), file.separator};
}

void Count(ColumnScan& scan, std::string_view field, std::size_t limit) {
  if (field.empty() || scan.values.size() > limit) return;
  ++scan.values[std::string(field)];
}

// The categories of text columns take a second pass: keeping the values of number columns would
// cost far more.
Status CountCategories(TableScan& scan, const std::vector<TableFile>& files, const Roles& roles) {
  const bool has_text = std::any_of(scan.features.begin(), scan.features.end(),
                                    [](const ColumnScan& c) { return c.text.has_value(); });
  if (!has_text) return Ok();
  for (const TableFile& file : files) {
    const Places places = PlacesIn(file, roles);
    SKEP_ASSIGN(CsvRows rows, file.Rows());
    for (;;) {
      SKEP_ASSIGN(const bool has_row, rows.Next());
      if (!has_row) break;
      for (std::size_t i = 0; i < scan.features.size(); ++i) {
        if (scan.features[i].text) {
          Count(scan.features[i], rows.fields()[places.features[i]], kMostCategories);
        }
      }
    }
  }
  return Ok();
}

Status CheckNumbers(const ColumnScan& scan, const std::string& name, const DataOptions& options) {
  if (scan.other_decimal) {
    const bool is_comma = options.decimal == '.';
    const Sighting& seen = *scan.other_decimal;
    const std::string shown = options.plan ? "a number" : "\"" + seen.value + "\"";
    return Error{1202,
                 PlaceOf(seen, name) + shown + " in a " +
                     std::string(SeparatorName(seen.separator)) + " file: decimal " +
                     (is_comma ? "commas" : "points") + "; set decimal = \"" +
                     (is_comma ? "," : ".") + "\"",
                 ""};
  }
  if (scan.not_finite) {
    const std::string shown = options.plan ? "a number" : "\"" + scan.not_finite->value + "\"";
    return Error{1202, PlaceOf(*scan.not_finite, name) + shown + " is beyond the finite numbers",
                 ""};
  }
  return Ok();
}

Status CheckNames(const std::vector<std::string>& names, const std::string& column,
                  const std::string& what) {
  if (std::all_of(names.begin(), names.end(), IsLabel)) return Ok();
  return Error{1202,
               "column \"" + column + "\": a " + what +
                   " is not 1 to 64 bytes of UTF-8 without control characters and white space at"
                   " either end",
               "save the file as UTF-8, or shorten it"};
}

std::vector<std::string> NamesOf(const std::map<std::string, std::uint64_t>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto& [name, count] : values) names.push_back(name);
  return names;
}

Result<Feature> InferFeature(const ColumnScan& scan, const std::string& name,
                             const DataOptions& options) {
  Feature feature{.name = name, .categories = {}};
  if (!scan.text) {
    SKEP_TRY(CheckNumbers(scan, name, options));
    return feature;
  }
  if (scan.values.size() > kMostCategories) {
    return Error{1202,
                 PlaceOf(*scan.text, name) + "\"" + scan.text->value +
                     "\" is no number, and as text the column has more than 1000 distinct values",
                 ""};
  }
  feature.is_categorical = true;
  feature.categories = NamesOf(scan.values);
  SKEP_TRY(CheckNames(feature.categories, name, "category"));
  return feature;
}

Result<Feature> GivenFeature(const ColumnScan& scan, const std::string& name,
                             const DataOptions& options) {
  if (options.plan) {
    const auto& planned = options.plan->features;
    const auto found = std::find_if(planned.begin(), planned.end(),
                                    [&](const Feature& f) { return f.name == name; });
    if (found->is_categorical) return *found;
  }
  const auto categories = options.categories.find(name);
  if (!options.plan && categories != options.categories.end()) {
    return Feature{.name = name, .is_categorical = true, .categories = categories->second};
  }
  if (scan.text) {
    const std::string shown = options.plan ? "" : "\"" + scan.text->value + "\" ";
    return Error{MismatchCode(options),
                 PlaceOf(*scan.text, name) + shown + "is no number, and no categories are given",
                 ""};
  }
  SKEP_TRY(CheckNumbers(scan, name, options));
  return Feature{.name = name, .categories = {}};
}

// An integer as to_string writes it: "2", not "02".
bool IsCanonicalInteger(const std::string& text) {
  const std::string digits = text[0] == '-' ? text.substr(1) : text;
  if (digits.empty() || digits.size() > 18) return false;
  if (digits[0] == '0' && text != "0") return false;
  return std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Result<std::vector<std::string>> FindClasses(const ColumnScan& scan, const std::string& label,
                                             const DataOptions& options) {
  if (!scan.text) SKEP_TRY(CheckNumbers(scan, label, options));
  std::vector<std::string> classes = NamesOf(scan.values);
  const bool are_numbers = !scan.text && scan.has_number;
  const bool are_whole = std::all_of(classes.begin(), classes.end(), [&](const std::string& text) {
    const double number = ReadField(text, options.decimal).number;
    return number == std::floor(number);
  });
  if (options.task == "auto" && are_numbers &&
      (!are_whole || classes.size() > kMostIntegerClasses)) {
    return Error{
        1019,
        "column \"" + label +
            "\" holds numbers, not classes: this build has no task \"regression\"",
        "it has classification; data.task = \"classification\" takes each value as a class"};
  }
  if (classes.size() > kMostClasses) {
    return Error{1202, "column \"" + label + "\": more than 4096 classes", ""};
  }
  SKEP_TRY(CheckNames(classes, label, "class"));
  if (std::all_of(classes.begin(), classes.end(), IsCanonicalInteger)) {
    std::sort(classes.begin(), classes.end(), [](const std::string& a, const std::string& b) {
      return std::stoll(a) < std::stoll(b);
    });
  }
  return classes;
}

}  // namespace

Status CheckGivenNames(const std::vector<std::string>& names, const std::string& key) {
  if (!std::all_of(names.begin(), names.end(), IsLabel)) {
    return Error{1202, key + ": a name is 1 to 64 bytes of UTF-8 without control characters", ""};
  }
  std::set<std::string_view> distinct;
  const auto repeated = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return !distinct.insert(name).second;
  });
  if (repeated == names.end()) return Ok();
  return Error{1202, key + " names \"" + *repeated + "\" twice", ""};
}

Status ApplyScaling(Feature& feature, const DataOptions& options) {
  if (feature.is_categorical) return Ok();
  if (options.plan) {
    for (const Feature& planned : options.plan->features) {
      if (planned.name == feature.name) feature = planned;
    }
    return Ok();
  }
  const auto given = options.scaling.find(feature.name);
  if (given == options.scaling.end()) return Ok();
  feature.offset = given->second.first;
  feature.scale = given->second.second;
  if (feature.scale != 0 && std::isfinite(feature.scale) && std::isfinite(feature.offset))
    return Ok();
  return Error{1102,
               "data.scaling of \"" + feature.name + "\": the scale is not 0, both are finite", ""};
}

int MismatchCode(const DataOptions& options) {
  return options.plan ? 7414 : 1202;
}

Result<Roles> FindRoles(const std::vector<TableFile>& files, const DataOptions& options) {
  const TableFile& first = files.front();
  const std::vector<std::string> given = GivenFeatures(options);
  SKEP_TRY(CheckGivenNames(given, "data.features"));
  SKEP_TRY(CheckGivenNames(options.classes, "data.classes"));
  for (const auto& [name, values] : options.categories) {
    SKEP_TRY(CheckGivenNames(values, "data.categories of \"" + name + "\""));
  }
  Roles roles;
  SKEP_ASSIGN(roles.client, FindClient(first, options));
  SKEP_ASSIGN(roles.label, FindLabel(first, roles.client, given, options));
  roles.features = given;
  if (given.empty()) {
    for (const std::string& column : first.columns) {
      if (column != roles.label && column != roles.client) roles.features.push_back(column);
    }
  }
  if (roles.label == roles.client || Holds(given, roles.label) || Holds(given, roles.client)) {
    return Error{1202, "label, client column and features must be different columns", ""};
  }
  if (roles.features.empty())
    return Error{1202, first.path + ": no columns are left as inputs", ""};
  for (const auto& [name, values] : options.categories) {
    if (!Holds(roles.features, name)) return NoColumn(first.path, name, roles.features, 1202);
  }
  for (const auto& [name, values] : options.scaling) {
    if (!Holds(roles.features, name)) return NoColumn(first.path, name, roles.features, 1202);
  }
  for (const TableFile& file : files) SKEP_TRY(MatchColumns(file, roles, MismatchCode(options)));
  return roles;
}

Places PlacesIn(const TableFile& file, const Roles& roles) {
  Places places;
  for (const std::string& name : roles.features) places.features.push_back(*file.Find(name));
  places.label = *file.Find(roles.label);
  if (!roles.client.empty()) places.client = file.Find(roles.client);
  return places;
}

Result<TableScan> ScanTables(const std::vector<TableFile>& files, const Roles& roles,
                             char decimal) {
  TableScan scan;
  scan.features.resize(roles.features.size());
  for (const TableFile& file : files) {
    const Places places = PlacesIn(file, roles);
    SKEP_ASSIGN(CsvRows rows, file.Rows());
    for (;;) {
      SKEP_ASSIGN(const bool has_row, rows.Next());
      if (!has_row) break;
      ++scan.rows;
      for (std::size_t i = 0; i < places.features.size(); ++i) {
        Note(scan.features[i], rows.fields()[places.features[i]], decimal, file, rows.line());
      }
      Note(scan.label, rows.fields()[places.label], decimal, file, rows.line());
      Count(scan.label, rows.fields()[places.label], kMostClasses);
    }
    scan.rows_of_separators += rows.rows_of_separators();
  }
  SKEP_TRY(CountCategories(scan, files, roles));
  return scan;
}

Result<DataSpec> SpecOf(const TableScan& scan, const Roles& roles, const DataOptions& options) {
  DataSpec spec;
  spec.label = roles.label;
  const bool are_given = options.plan || !options.features.empty();
  for (std::size_t i = 0; i < roles.features.size(); ++i) {
    const std::string& name = roles.features[i];
    const bool is_given = are_given || options.categories.contains(name);
    SKEP_ASSIGN(Feature feature, is_given ? GivenFeature(scan.features[i], name, options)
                                          : InferFeature(scan.features[i], name, options));
    SKEP_TRY(ApplyScaling(feature, options));
    spec.features.push_back(std::move(feature));
  }
  if (options.plan) {
    spec.classes = options.plan->classes;
  } else if (!options.classes.empty()) {
    spec.classes = options.classes;
  } else {
    SKEP_ASSIGN(spec.classes, FindClasses(scan.label, roles.label, options));
  }
  return spec;
}

}  // namespace skep::data
