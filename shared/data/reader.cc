#include "shared/data/reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <new>
#include <numeric>
#include <stdexcept>

#include "shared/base/file.h"
#include "shared/base/rng.h"
#include "shared/base/try.h"
#include "shared/data/arrays.h"
#include "shared/data/byte_source.h"
#include "shared/data/fraction.h"
#include "shared/data/idx.h"
#include "shared/data/normalise.h"
#include "shared/data/plays.h"
#include "shared/data/table.h"
#include "shared/data/table_file.h"

namespace skep::data {
namespace {

constexpr const char* kFashionFolder = "/usr/share/datasets/fashion-mnist";

enum class Format : std::uint8_t { kIdx, kCsv, kPlays };

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

Error NoFormat(const std::string& path, const std::string& format) {
  return Error{1019, path + ": this build does not read " + format,
               "it reads idx folders, CSV and plays"};
}

Result<Format> FormatOfFolder(const std::string& path) {
  for (const char* part : {"train", "t10k"}) {
    SKEP_ASSIGN(const auto files, FindIdx(path, part));
    if (files) return Format::kIdx;
  }
  const auto tables = TablePaths(path);
  if (tables) return Format::kCsv;
  return Error{1201, path + " holds neither idx files by their usual names nor .csv files", ""};
}

// Which split goes with it depends on the format: it has to be named.
bool LooksLikePlays(const std::string& path, std::string_view text) {
  if (!path.ends_with(".txt") && !path.ends_with(".txt.gz")) return false;
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line.ends_with(':') && line.find_first_of(",;\t") == std::string_view::npos;
}

// By the first bytes, so that a wrong file is named for what it is.
Result<Format> FormatOfFile(const std::string& path) {
  SKEP_ASSIGN(ByteSource source, ByteSource::Open(path));
  std::array<std::uint8_t, 4096> first{};
  SKEP_ASSIGN(const std::size_t count, source.Read(first));
  const std::string_view text = AsText(BytesView(first).first(count));
  if (text.substr(0, 4) == "PK\x03\x04") return NoFormat(path, "npz");
  if (text.substr(0, 6) == "\x93NUMPY") return NoFormat(path, "npy");
  if (text.substr(0, 1) == "{") return NoFormat(path, "JSON lines");
  const bool is_idx =
      count >= 4 && first[0] == 0 && first[1] == 0 && first[2] >= 8 && first[2] <= 14;
  if (!is_idx && LooksLikePlays(path, text)) {
    return Error{1202, path + " looks like plays: its first line names a role",
                 "set data.format = \"plays\""};
  }
  if (!is_idx) return Format::kCsv;
  return Error{1202, path + " is one idx file of a data set",
               "data.path names the folder that holds images and labels"};
}

Result<Format> FormatOf(const DataOptions& options) {
  if (options.format == "idx") return Format::kIdx;
  if (options.format == "csv") return Format::kCsv;
  if (options.format == "plays") return Format::kPlays;
  if (options.format != "auto") return NoFormat("data.format", options.format);
  std::error_code failure;
  if (!std::filesystem::exists(options.path, failure)) {
    const int reason = failure ? failure.value() : ENOENT;
    return Error{1201, "cannot read " + options.path + ": " + SystemReason(reason), ""};
  }
  return IsFolder(options.path) ? FormatOfFolder(options.path) : FormatOfFile(options.path);
}

// Text yields next_token, everything else classes.
Status CheckTask(const DataOptions& options, Format format) {
  const bool is_text = format == Format::kPlays;
  const std::string task = is_text ? "next_token" : "classification";
  if (options.task != "auto" && options.task != task) {
    return Error{
        1103,
        "\"data.task\" = \"" + options.task + "\" contradicts the data, which are for " + task,
        is_text ? "" : "data.format = \"plays\" reads text"};
  }
  if (!options.plan || (options.plan->task == Task::kNextToken) == is_text) return Ok();
  return Error{7414, "the plan has another task than " + task + ", which the data are for", ""};
}

Result<RawData> ReadDataset(const DataOptions& options) {
  if (options.dataset != "fashion-mnist") {
    return Error{1019, "this build has no data set \"" + options.dataset + "\"",
                 "it has fashion-mnist; data.path names data of your own"};
  }
  const std::string folder =
      options.dataset_folder.empty() ? kFashionFolder : options.dataset_folder;
  const auto files = FindIdx(folder, "train");
  if (!files || !files->has_value()) {
    return Error{1203,
                 "the data set fashion-mnist is not installed: " + folder + " lacks its files",
                 "sudo apt install dataset-fashion-mnist, or set data.path to data of your own"};
  }
  return ReadArrays(folder, options);
}

Result<RawData> ReadSource(const DataOptions& options) {
  if (options.task == "regression") {
    return Error{1019, "this build has no task \"" + options.task + "\"",
                 "it has classification and next_token"};
  }
  if (!options.dataset.empty()) {
    SKEP_TRY(CheckTask(options, Format::kIdx));
    return ReadDataset(options);
  }
  if (options.path.empty()) return Error{1201, "neither data.dataset nor data.path is given", ""};
  SKEP_ASSIGN(const Format format, FormatOf(options));
  SKEP_TRY(CheckTask(options, format));
  if (format == Format::kPlays) return ReadPlays(options);
  return format == Format::kIdx ? ReadArrays(options.path, options) : ReadTables(options);
}

// Holds out the last floor(fraction x rows) of a shuffle; both parts stay in the source's order.
void HoldOut(RawData& data, const DataOptions& options) {
  const std::size_t rows = data.train.rows;
  const std::size_t held = FloorOf(rows, options.test_fraction);
  if (held == 0) return;
  std::vector<std::uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0U);
  RandomStream stream(options.partition_seed, {.purpose = Purpose::kSplit});
  stream.Shuffle(std::span(order));
  const auto cut = order.end() - static_cast<std::ptrdiff_t>(held);
  std::vector<std::uint32_t> test(cut, order.end());
  order.erase(cut, order.end());
  std::sort(order.begin(), order.end());
  std::sort(test.begin(), test.end());
  data.test = TakeRows(data.train, test);
  data.train = TakeRows(data.train, order);
}

Result<LoadedData> LoadChecked(const DataOptions& options) {
  SKEP_ASSIGN(RawData data, ReadSource(options));
  if (!options.client_file.empty()) {
    SKEP_ASSIGN(const auto owners, ReadClientFile(options, data.train.source_rows));
    AssignOwners(data.train, owners);
  }
  if (!data.test) HoldOut(data, options);
  const Hash32 hash = HashOf(data);
  SKEP_ASSIGN(LoadedData loaded, Normalise(std::move(data), options));
  loaded.hash = hash;
  return loaded;
}

}  // namespace

Result<LoadedData> Load(const DataOptions& options) {
  try {
    return LoadChecked(options);
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return Error{1401, "the data do not fit into memory", ""};
}

std::vector<std::string> DatasetNames() {
  return {"fashion-mnist"};
}

std::vector<std::string> FormatNames() {
  return {"idx", "csv", "plays"};
}

}  // namespace skep::data
