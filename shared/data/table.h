// Table: a CSV source read into classes and numbers by its specification, text columns one-hot.
//
// Called by the reader; one thread. Source: docs/formats.md (CSV).
#pragma once

#include "shared/base/result.h"
#include "shared/data/raw.h"
#include "shared/data/reader.h"

namespace skep::data {

// Reads `path` and, where it is given, `test_path`; owners from a column or the file names.
// Columns, categories and classes are found in both together. SKEP-1201, 1202, 7414, 1019 as
// `Load`.
[[nodiscard]] Result<RawData> ReadTables(const DataOptions& options);

// The names that a client file gives to the rows of a source, one a row: data.client_column of it,
// or its only column. SKEP-1202 another number of rows than `rows`; an empty name.
[[nodiscard]] Result<std::vector<std::string>> ReadClientFile(const DataOptions& options,
                                                              std::size_t rows);

}  // namespace skep::data
