// Reader: a data source as the [data] section names it, read whole into memory.
//
// Sources: idx files (images), CSV files, or a folder of either; plays (text). Plain or gzip. Files
// are untrusted input: sizes are checked before memory is taken. The result depends on the content
// alone, never on paths, on the order in which a folder lists its files, or on the locale. Readers
// of other formats and the synthetic generators are not here.
//
// Called by the programs once, before a run. Single-threaded. Source: docs/formats.md (idx; CSV;
// plays) and docs/reference/experiment.md ([data]).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/dataset.h"
#include "shared/data/partition.h"

namespace skep::data {

// The keys of [data] that say what is read and how. Paths are as they shall be opened.
struct DataOptions {
  std::string dataset;          // "fashion-mnist", or empty with a `path`
  std::string dataset_folder;   // where `dataset` lies; empty: where its package puts it
  std::string path;             // file or folder
  std::string format = "auto";  // auto, idx, csv, plays
  std::string label;            // name of a column; empty: `label_index`, else the last one
  std::optional<std::uint32_t> label_index;
  std::string client_column;      // name of a column, "@file", or empty
  std::string client_file;        // CSV with one row per training example, or empty
  std::optional<bool> header;     // nothing: decided by the first rows
  std::string missing = "error";  // error, drop, mean
  char decimal = '.';
  std::string task = "auto";          // auto, classification, next_token
  std::uint32_t text_length = 80;     // plays: characters of an example
  std::string normalize = "auto";     // auto, none, unit, symmetric, standard
  std::string test_path;              // like `path`, or empty
  double test_fraction = 0.2;         // of a source without a test part of its own
  std::uint64_t partition_seed = 42;  // of the rows drawn for test_fraction

  // What replaces the specification that the data would yield, each by itself.
  std::vector<std::string> features;
  std::vector<std::string> classes;
  std::map<std::string, std::vector<std::string>> categories;
  std::map<std::string, std::pair<double, double>> scaling;  // offset, scale
  // The specification of a plan: all of the above at once. Data that do not match it are SKEP-7414,
  // with a message that shows no value of the data.
  std::optional<DataSpec> plan;

  // How the data will be split. normalize = "standard" adds its sums client by client in ascending
  // order, over the rows that the clients train on; without it the training part is one client.
  std::optional<PartitionOptions> clients;
};

// SKEP-1201 a path that is not there or cannot be read; 1202 malformed, or other than the given
// specification (7414 for that of a plan); 1203 a data set that is not installed; 1019 what this
// build does not read. Messages name the file, the line or row, the column, and the known values.
[[nodiscard]] Result<LoadedData> Load(const DataOptions& options);

// The columns of a CSV source as `skep-simulator new` asks for them: nothing is guessed.
struct ColumnFacts {
  std::string name;
  bool is_numeric = false;
  std::vector<std::pair<std::string, std::uint64_t>> values;  // text columns: value and its rows;
                                                              // at most 1,001, in byte order
};
struct SourceFacts {
  std::vector<ColumnFacts> columns;
  std::uint64_t rows = 0;
};
[[nodiscard]] Result<SourceFacts> Inspect(const DataOptions& options);

[[nodiscard]] std::vector<std::string> DatasetNames();  // fashion-mnist
[[nodiscard]] std::vector<std::string> FormatNames();   // idx, csv, plays

}  // namespace skep::data
