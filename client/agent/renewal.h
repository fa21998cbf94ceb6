// Renewal: a new key and certificate for this device, asked for within an ordinary check-in.
//
// The new key is on disk before it is sent, the new certificate before it is used; whatever is
// interrupted, the folder holds one pair that fits. The running session goes on with the old pair.
// One thread. Source: Skep protocol 1.0, sections 6.2 and 10.5.
#pragma once

#include "client/agent/identity.h"
#include "client/agent/storage.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace skep::agent {

// From half of the certificate's lifetime, and up to a tenth of it later: each device at its own
// time.
[[nodiscard]] WallMs RenewsAt(const Identity& identity);

// A request with the next key, which is made and stored if there is none yet.
[[nodiscard]] Result<wire::RenewRequest> BeginRenewal(const Storage& storage);

// Stores what was issued and takes it over. SKEP-3208 if it is not for the next key and this
// device; then nothing has changed.
[[nodiscard]] Status FinishRenewal(const Storage& storage, Identity& identity,
                                   const wire::RenewResult& issued);

}  // namespace skep::agent
