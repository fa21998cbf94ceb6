// Private state: tensors of a run that stay on this device, under the update they were trained
// with.
//
// private/<update id>, a safetensors file that names its run. Written on the training thread before
// anybody hears of the update; read there when the next task begins. Of a run at most two are
// there: the one that a published model includes, and one since. Source: Skep client library,
// section 8; Skep protocol 1.0, section 6.2 (last_included).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/agent/storage.h"
#include "client/private_tensors.h"

namespace skep::agent {

// On stable storage on return. SKEP-4001.
[[nodiscard]] Status StorePrivate(const Storage& storage, const RunId& run, const UpdateId& update,
                                  const model::Layout& layout,
                                  const client::PrivateTensors& tensors);

struct PrivateState {
  client::PrivateTensors tensors;    // null: as every device starts
  std::vector<std::string> damaged;  // files that were removed (SKEP-4010)
};
// What a task of `run` goes on from. Removes all others of that run, and those of runs that are not
// among `known`. SKEP-4001: a file cannot be removed.
[[nodiscard]] Result<PrivateState> GoOnFrom(const Storage& storage, const RunId& run,
                                            const std::optional<UpdateId>& last_included,
                                            const model::Layout& layout,
                                            const std::vector<RunId>& known);

}  // namespace skep::agent
