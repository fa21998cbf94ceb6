// Private tensors: what a client keeps of a model for itself and goes on from (role 2).
//
// They never travel. Each state is saved under the id of the update that was trained with it; an
// offer names the latest update of the device in a published model, so that an attempt that came to
// nothing leaves no trace. The agent keeps them on disk, the simulator in memory and in its
// checkpoints. One thread at a time. Source: Skep protocol 1.0, section 6.2 (last_included); Li et
// al. 2021 (FedBN).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/model/layout.h"
#include "shared/model/safetensors.h"

namespace skep::client {

// model::Part::kPrivate of a layout. Null: as every device starts.
using PrivateTensors = std::shared_ptr<const Bytes>;

// Those of one client in one run: one that a published model includes, and those since.
class PrivateHistory {
 public:
  void Keep(const UpdateId& update, PrivateTensors tensors) {
    states_[update] = std::move(tensors);
  }
  // What was saved under `last_included`, or null; all others are dropped.
  [[nodiscard]] PrivateTensors GoOnFrom(const std::optional<UpdateId>& last_included);
  // Without dropping anything.
  [[nodiscard]] PrivateTensors Of(const UpdateId& update) const;

 private:
  std::map<UpdateId, PrivateTensors> states_;
};

// How the tensors of a file hold them: of one client in their own shapes, or of several one after
// another along a first dimension.
enum class FileShape { kOne, kStacked };

// Adds them to `file`. Precondition: none is null; kOne: one client.
void AddToFile(const model::Layout& layout, std::span<const PrivateTensors> clients,
               FileShape shape, model::TensorFile& file);
// Those of so many clients. SKEP-1302: a tensor is missing, or has another shape or type.
[[nodiscard]] Result<std::vector<PrivateTensors>> TakeFromFile(const model::Layout& layout,
                                                               const model::TensorFile& file,
                                                               std::size_t clients,
                                                               FileShape shape);

}  // namespace skep::client
