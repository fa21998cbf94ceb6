#include "simulator/own_states.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "shared/base/file.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"

namespace skep::simulator {
namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 30U;
constexpr const char* kClients = "skep.client";
constexpr const char* kUpdates = "skep.update";
constexpr const char* kModel = "skep.model_sha256";
constexpr const char* kContent = "skep.private_sha256";

// Of all bytes that a resumed run goes on from.
Hash32 HashOf(const OwnStates& states) {
  Sha256 hash;
  for (const OwnState& state : states) {
    Bytes number;
    AppendLittle(number, std::uint64_t{state.client});
    hash.Update(number);
    hash.Update(state.update.view());
    hash.Update(*state.tensors);
  }
  return hash.Finish();
}

Error NotWhole(const std::string& path) {
  return Error{1302, path + " is not what was written", ""};
}

Result<const model::FileTensor*> Find(const model::TensorFile& file, const char* name,
                                      model::FileType type, const std::string& path) {
  const auto found =
      std::find_if(file.tensors.begin(), file.tensors.end(),
                   [&](const model::FileTensor& tensor) { return tensor.name == name; });
  if (found == file.tensors.end() || found->dtype != type || found->shape.empty()) {
    return NotWhole(path);
  }
  return &*found;
}

}  // namespace

std::string OwnStatesPath(const std::string& checkpoint) {
  return checkpoint.substr(0, checkpoint.size() - kSuffix.size()) + ".private" +
         std::string(kSuffix);
}

Status WriteOwnStates(const std::string& path, const model::Layout& layout, const OwnStates& states,
                      model::Metadata metadata) {
  metadata[kContent] = HashOf(states).Hex();
  model::TensorFile file{.metadata = std::move(metadata), .tensors = {}};
  std::vector<client::PrivateTensors> tensors;
  model::FileTensor clients{
      .name = kClients, .dtype = model::FileType::kI64, .shape = {states.size()}, .bytes = {}};
  model::FileTensor updates{.name = kUpdates,
                            .dtype = model::FileType::kU8,
                            .shape = {states.size(), UpdateId::kBytes},
                            .bytes = {}};
  for (const OwnState& state : states) {
    tensors.push_back(state.tensors);
    AppendLittle(clients.bytes, std::uint64_t{state.client});
    Append(updates.bytes, state.update.view());
  }
  client::AddToFile(layout, tensors, client::FileShape::kStacked, file);
  file.tensors.push_back(std::move(clients));
  file.tensors.push_back(std::move(updates));
  return WriteFileAtomically(path, model::EncodeTensorFile(file));
}

Result<OwnStates> ReadOwnStates(const std::string& path, const model::Layout& layout,
                                const Hash32& model) {
  SKEP_ASSIGN(const Bytes bytes, ReadFile(path, kMostBytes, 1302));
  SKEP_ASSIGN(model::TensorFile file, model::DecodeTensorFile(bytes));
  if (file.metadata[kModel] != model.Hex()) return NotWhole(path);
  SKEP_ASSIGN(const model::FileTensor* clients, Find(file, kClients, model::FileType::kI64, path));
  SKEP_ASSIGN(const model::FileTensor* updates, Find(file, kUpdates, model::FileType::kU8, path));
  const std::size_t count = clients->bytes.size() / sizeof(std::uint64_t);
  if (updates->bytes.size() != count * UpdateId::kBytes) return NotWhole(path);
  SKEP_ASSIGN(const std::vector<client::PrivateTensors> tensors,
              client::TakeFromFile(layout, file, count, client::FileShape::kStacked));
  OwnStates states;
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = LoadLittle<std::uint64_t>(clients->bytes.data() + 8 * i);
    const BytesView id = BytesView(updates->bytes).subspan(i * UpdateId::kBytes, UpdateId::kBytes);
    if (number > std::numeric_limits<ClientNumber>::max()) return NotWhole(path);
    states.push_back({.client = static_cast<ClientNumber>(number),
                      .update = UpdateId::From(id).value(),
                      .tensors = tensors[i]});
  }
  if (file.metadata[kContent] != HashOf(states).Hex()) return NotWhole(path);
  return states;
}

}  // namespace skep::simulator
