// Forget: a device withdraws; its folder becomes one that was never enrolled.
//
// What says that a privacy budget was spent stays. Called with the folder's lock held. Source: Skep
// client library, section 8.
#pragma once

#include "client/agent/storage.h"
#include "shared/base/result.h"

namespace skep::agent {

// Overwrites the key and deletes all but FORMAT, lock and ledger.jsonl. The enrolment goes first:
// an interrupted removal leaves a folder that is not enrolled. SKEP-4001.
[[nodiscard]] Status Forget(const Storage& storage);

}  // namespace skep::agent
