// Enrolment: one join string makes a folder into a device.
//
// The key is made here and never leaves; the answer is checked against the pin of the join string
// and then stored. Called by `join`. One thread. Source: Skep protocol 1.0, section 10.3.
#pragma once

#include <optional>
#include <string>

#include "client/agent/identity.h"
#include "client/agent/loop.h"
#include "client/agent/storage.h"
#include "crypto/pki/join_string.h"
#include "shared/base/result.h"

namespace skep::agent {

struct EnrolSettings {
  std::string software;
  std::string name_hint;  // what the operator sees beside the device, or empty
  LinkLimits limits;
  std::optional<net::Endpoint> proxy{};  // an HTTP proxy to go through
};

// Runs `loop` until the answer is there or not. SKEP-3104 and so on as the aggregator says,
// SKEP-3001 and 3002 if it cannot be reached, SKEP-3113 if its authority is not the pinned one.
// After a failure the same join string may be tried again: with the same key it gives the same
// certificate.
[[nodiscard]] Result<Identity> Enrol(const Storage& storage, const crypto::JoinString& join,
                                     const EnrolSettings& settings, Loop& loop);

}  // namespace skep::agent
