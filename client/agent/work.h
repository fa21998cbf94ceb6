// Work: the finished update that waits to be sent, on stable storage before the first UploadBegin.
//
// work/<run>-<round>-<kind>-<attempt>/ with update.bin, then update.json; both, and equal by hash,
// or nothing. Written on the training thread, read once at the start, removed when the aggregator
// has given its verdict. Source: Skep client library, sections 7 and 8; Skep protocol 1.0, 6.2.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/agent/storage.h"
#include "client/session.h"

namespace skep::agent {

// Precondition: the update has its id. SKEP-4001.
[[nodiscard]] Status StoreUpdate(const Storage& storage, const client::PendingUpdate& update);

// Removes the folder of a task; what is not there is no error.
[[nodiscard]] Status DropUpdate(const Storage& storage, const wire::TaskRef& task);

struct Recovered {
  std::optional<client::PendingUpdate> pending;
  std::vector<std::string> damaged;  // folders that were removed (SKEP-4010)
};
// What an earlier process left. An update that is not whole is removed: its task is trained again
// or is over.
[[nodiscard]] Result<Recovered> RecoverUpdate(const Storage& storage);

}  // namespace skep::agent
