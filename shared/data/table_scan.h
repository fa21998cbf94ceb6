// TableScan: what the columns of a CSV source are, found by reading all rows once (twice where
// columns hold text).
//
// Yields the data specification; values are filled in by table.h. One thread. Source:
// docs/formats.md (CSV).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/data_spec.h"
#include "shared/data/reader.h"
#include "shared/data/table_file.h"

namespace skep::data {

// Which column does what, by name; columns of a file are matched by these.
struct Roles {
  std::vector<std::string> features;  // in input order
  std::string label;
  std::string client;  // empty: none in the table
};

// SKEP-1202 (7414 against a plan) names the file and the column that is missing or unknown.
[[nodiscard]] Result<Roles> FindRoles(const std::vector<TableFile>& files,
                                      const DataOptions& options);

// Where in a row the columns of `roles` stand in one file.
struct Places {
  std::vector<std::size_t> features;
  std::size_t label = 0;
  std::optional<std::size_t> client;
};
[[nodiscard]] Places PlacesIn(const TableFile& file, const Roles& roles);

// A field that decides what its column is.
struct Sighting {
  std::string file;
  std::uint64_t line = 0;
  std::string value;
  char separator = ',';
};
struct ColumnScan {
  bool has_number = false;
  std::optional<Sighting> text;  // the first one of each kind
  std::optional<Sighting> other_decimal;
  std::optional<Sighting> not_finite;
  std::map<std::string, std::uint64_t> values;  // with their rows, up to the limit asked for
};

struct TableScan {
  std::vector<ColumnScan> features;  // in the order of Roles
  ColumnScan label;
  std::uint64_t rows = 0;
  std::uint64_t rows_of_separators = 0;
};
[[nodiscard]] Result<TableScan> ScanTables(const std::vector<TableFile>& files, const Roles& roles,
                                           char decimal);

// The specification that the data and the options yield together; scaling as given, else 0 and 1.
// SKEP-1202 a column that is neither; too many categories or classes; SKEP-1019 a task that this
// build does not have.
[[nodiscard]] Result<DataSpec> SpecOf(const TableScan& scan, const Roles& roles,
                                      const DataOptions& options);

// SKEP-1202: a name twice, or none that a column, class or category can have. `key` is shown.
[[nodiscard]] Status CheckGivenNames(const std::vector<std::string>& names, const std::string& key);

// The scaling that the plan or data.scaling gives a number column, if any. SKEP-1102: a scale of 0.
[[nodiscard]] Status ApplyScaling(Feature& feature, const DataOptions& options);

// SKEP-7414 where data do not match a plan, else 1202.
[[nodiscard]] int MismatchCode(const DataOptions& options);

}  // namespace skep::data
