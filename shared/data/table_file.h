// TableFile: one CSV file in memory with its separator and column names; and the files of a source.
//
// Types and roles of columns are table_scan.h's. Called by the readers of this folder; one thread.
// Source: docs/formats.md (CSV).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/csv.h"

namespace skep::data {

struct TableFormat {
  std::optional<bool> header;  // nothing: decided by the first rows
  char decimal = '.';
  std::vector<std::string>
      column_names;  // that the user gave: a first row that holds one is a header
};

struct TableFile {
  std::string path;
  std::string
      stem;  // file name without .csv, .tsv, .gz: the owner's name with client_column = "@file"
  std::string text;
  std::size_t body = 0;  // where the text starts, after a byte order mark
  char separator = ',';
  bool has_header = false;
  std::vector<std::string> columns;                       // from the header, else "0", "1", ...
  std::map<std::string, std::size_t, std::less<>> place;  // of each column

  // The rows that hold data: past the header.
  [[nodiscard]] Result<CsvRows> Rows() const;
  [[nodiscard]] std::optional<std::size_t> Find(std::string_view column) const;
};

// SKEP-1201 unreadable; 1202 malformed, no rows, column names that are missing, twice, or no
// labels.
[[nodiscard]] Result<TableFile> OpenTable(const std::string& path, const TableFormat& format);

// The CSV files of a folder, in byte order of their names, or the file itself. SKEP-1201: none
// there.
[[nodiscard]] Result<std::vector<std::string>> TablePaths(const std::string& path);

// "FILE: no column "x"", with the columns that exist and the nearest of them.
[[nodiscard]] Error NoColumn(const std::string& path, const std::string& column,
                             const std::vector<std::string>& columns, int code);

// `"a", "b", "c" and 4 more` for messages.
[[nodiscard]] std::string ListOf(const std::vector<std::string>& names);

}  // namespace skep::data
