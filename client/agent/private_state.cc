#include "client/agent/private_state.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "shared/base/file.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"
#include "shared/model/parts.h"
#include "shared/model/safetensors.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "private";
constexpr const char* kRun = "skep.run";
constexpr const char* kSha256 = "skep.private_sha256";
constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 32U;

struct Found {
  RunId run;
  model::TensorFile file;
};

Result<Found> ReadFound(const std::string& path) {
  SKEP_ASSIGN(const Bytes bytes, ReadFile(path, kLargestFile, 1302));
  Found found;
  SKEP_ASSIGN(found.file, model::DecodeTensorFile(bytes));
  const auto run = RunId::FromHexText(found.file.metadata[kRun]);
  if (!run) return Error{1302, path + " names no run", ""};
  found.run = *run;
  return found;
}

Result<client::PrivateTensors> TensorsOf(const Found& found, const model::Layout& layout) {
  SKEP_ASSIGN(const std::vector<client::PrivateTensors> tensors,
              client::TakeFromFile(layout, found.file, 1, client::FileShape::kOne));
  const auto written = found.file.metadata.find(kSha256);
  if (written == found.file.metadata.end() ||
      written->second != Sha256::Of(*tensors.front()).Hex()) {
    return Error{1302, "the tensors are not those that were written", ""};
  }
  return tensors.front();
}

Result<std::vector<std::string>> FilesIn(const std::string& folder) {
  SKEP_ASSIGN(std::vector<std::string> paths, ListFolder(folder));
  for (std::string& name : paths) name = folder + "/" + name;
  return paths;
}

}  // namespace

Status StorePrivate(const Storage& storage, const RunId& run, const UpdateId& update,
                    const model::Layout& layout, const client::PrivateTensors& tensors) {
  SKEP_TRY(MakePrivateFolder(storage.Path(kFolder)));
  model::TensorFile file{.metadata = {{kRun, run.Hex()}, {kSha256, Sha256::Of(*tensors).Hex()}},
                         .tensors = {}};
  client::AddToFile(layout, {&tensors, 1}, client::FileShape::kOne, file);
  return WriteFileAtomically(storage.Path(std::string(kFolder) + "/" + update.Hex()),
                             model::EncodeTensorFile(file), FileMode::kPrivate);
}

Result<PrivateState> GoOnFrom(const Storage& storage, const RunId& run,
                              const std::optional<UpdateId>& last_included,
                              const model::Layout& layout, const std::vector<RunId>& known) {
  PrivateState state;
  SKEP_ASSIGN(const std::vector<std::string> paths, FilesIn(storage.Path(kFolder)));
  for (const std::string& path : paths) {
    const Result<Found> found = ReadFound(path);
    const bool is_ours = found.has_value() && found->run == run;
    const bool is_kept = last_included && fs::path(path).filename() == last_included->Hex();
    if (is_ours && is_kept) {
      Result<client::PrivateTensors> tensors = TensorsOf(*found, layout);
      if (tensors.has_value()) {
        state.tensors = std::move(tensors).value();
        continue;
      }
      state.damaged.push_back(path);
    } else if (!found.has_value()) {
      // What an interrupted write left is no damage.
      if (!path.ends_with(".partial")) state.damaged.push_back(path);
    } else if (!is_ours && std::find(known.begin(), known.end(), found->run) != known.end()) {
      continue;
    }
    SKEP_TRY(RemoveWithContent(path));
  }
  return state;
}

}  // namespace skep::agent
