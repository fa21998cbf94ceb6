// Identity: who this device is to its aggregator, and what it pinned when it enrolled.
//
// Files below identity/ of the storage folder: key.pem, certificate.pem, server-ca.pem,
// signing-keys/, enrolment.json. A damaged identity is an error and never replaced silently. How a
// device gets one is enrol.h. Values; one thread. Source: Skep client library, section 8; Skep
// protocol 1.0, sections 10.3 and 10.5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/agent/storage.h"
#include "crypto/pki/certificate.h"
#include "crypto/private_key.h"
#include "shared/base/clock.h"
#include "shared/net/tls.h"
#include "shared/wire/messages.h"

namespace skep::agent {

// A key that may sign tasks, until it is retired (0: it is not).
struct PinnedKey {
  wire::PublicKey key;
  WallMs retires_at = 0;
};

struct Identity {
  net::Credentials own;
  crypto::Certificate server_ca;
  std::vector<PinnedKey> signing_keys;
  FederationId federation;
  DeviceId device;
  std::string endpoint;  // HOST:PORT of the device listener
  std::vector<std::string> populations;
};

// enrolment.json, which is written last, is there.
[[nodiscard]] bool IsEnrolled(const Storage& storage);

// The key of this folder, made and stored if there is none: an enrolment whose answer was lost is
// repeated with the same key.
[[nodiscard]] Result<crypto::PrivateKey> KeepKey(const Storage& storage);

// Checks that an answer is one for `key` and complete, and stores it. SKEP-3109, 3110 or 3208 for
// an answer that contradicts itself; then nothing is stored.
[[nodiscard]] Status StoreIdentity(const Storage& storage, const crypto::PrivateKey& key,
                                   const Hash32& pin, const wire::EnrolResult& answer, WallMs now);

// SKEP-4004 if the device is not enrolled; SKEP-1010, 5101 or 5102 if a file is damaged or open to
// others.
[[nodiscard]] Result<Identity> LoadIdentity(const Storage& storage);

// The key of this id, if it is pinned and not retired.
[[nodiscard]] const PinnedKey* FindKey(const Identity& identity, const KeyId& id, WallMs now);

// A manifest's signature: SKEP-3132 for a key that is not pinned, SKEP-3131 for a signature that
// does not fit.
[[nodiscard]] Status VerifyManifest(const Identity& identity, const wire::SignedManifest& manifest,
                                    WallMs now);

// A statement about a new signing key: checked, then pinned in `identity` and on disk. SKEP-3133 if
// no pinned key signed it.
[[nodiscard]] Status PinKey(const Storage& storage, Identity& identity,
                            const wire::SigningKeyUpdate& update, WallMs now);

}  // namespace skep::agent
