#include "client/private_tensors.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"
#include "shared/model/parts.h"

namespace skep::client {
namespace {

// A private tensor of a layout: its place within the part.
struct Place {
  const model::TensorSpec* tensor = nullptr;
  std::uint64_t begin = 0;  // bytes
  std::uint64_t size = 0;
};

std::vector<Place> PlacesOf(const model::Layout& layout) {
  std::vector<Place> places;
  std::uint64_t at = 0;
  for (const model::TensorSpec& tensor : layout.tensors()) {
    if (!model::IsIn(model::Part::kPrivate, tensor.role)) continue;
    const std::uint64_t size = tensor.Count() * sizeof(float);
    places.push_back({.tensor = &tensor, .begin = at, .size = size});
    at += size;
  }
  return places;
}

std::vector<std::uint64_t> ShapeIn(const model::TensorSpec& tensor, std::size_t clients,
                                   FileShape shape) {
  std::vector<std::uint64_t> sizes;
  if (shape == FileShape::kStacked) sizes.push_back(clients);
  sizes.insert(sizes.end(), tensor.shape.begin(), tensor.shape.end());
  return sizes;
}

}  // namespace

PrivateTensors PrivateHistory::GoOnFrom(const std::optional<UpdateId>& last_included) {
  PrivateTensors kept = last_included ? Of(*last_included) : nullptr;
  states_.clear();
  if (kept != nullptr) states_[*last_included] = kept;
  return kept;
}

PrivateTensors PrivateHistory::Of(const UpdateId& update) const {
  const auto found = states_.find(update);
  return found == states_.end() ? nullptr : found->second;
}

void AddToFile(const model::Layout& layout, std::span<const PrivateTensors> clients,
               FileShape shape, model::TensorFile& file) {
  SKEP_CHECK(shape == FileShape::kStacked || clients.size() == 1);
  for (const Place& place : PlacesOf(layout)) {
    model::FileTensor tensor{.name = place.tensor->name,
                             .shape = ShapeIn(*place.tensor, clients.size(), shape),
                             .bytes = {}};
    tensor.bytes.reserve(clients.size() * place.size);
    for (const PrivateTensors& client : clients) {
      Append(tensor.bytes, BytesView(*client).subspan(place.begin, place.size));
    }
    file.tensors.push_back(std::move(tensor));
  }
}

Result<std::vector<PrivateTensors>> TakeFromFile(const model::Layout& layout,
                                                 const model::TensorFile& file, std::size_t clients,
                                                 FileShape shape) {
  std::vector<Bytes> taken(clients);
  for (Bytes& client : taken) client.reserve(layout.private_values() * sizeof(float));
  for (const Place& place : PlacesOf(layout)) {
    const auto found = std::find_if(
        file.tensors.begin(), file.tensors.end(),
        [&](const model::FileTensor& tensor) { return tensor.name == place.tensor->name; });
    if (found == file.tensors.end() || found->dtype != model::FileType::kF32 ||
        found->shape != ShapeIn(*place.tensor, clients, shape)) {
      return Error{1302, "tensor \"" + place.tensor->name + "\" is missing or of another shape",
                   ""};
    }
    for (std::size_t i = 0; i < clients; ++i) {
      Append(taken[i], BytesView(found->bytes).subspan(i * place.size, place.size));
    }
  }
  std::vector<PrivateTensors> tensors;
  tensors.reserve(clients);
  for (Bytes& client : taken) {
    tensors.push_back(std::make_shared<const Bytes>(std::move(client)));
  }
  return tensors;
}

}  // namespace skep::client
