// Chains: whether a peer's certificates may be trusted, by one set of rules for each direction.
//
// The same code judges inside a TLS handshake and outside of one. Nothing here can switch a check
// off. Called by shared/net (tls.h), by the aggregator when it looks at its own files, and by
// tests. Thread-safe; the rules are constant. Source: RFC 5280; Skep protocol 1.0, section 10.2
// (T1, T4 to T8).
#pragma once

#include <openssl/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "crypto/pki/certificate.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"

namespace skep::crypto {

// How the aggregator judges a device: chain to the device CA, validity, EKU clientAuth present, key
// usage digitalSignature present, identity of this federation, and what `admit` says.
struct DeviceRules {
  Certificate authority;
  FederationId federation;
  // Asked last, with a certificate that has passed everything else: revoked serials and devices
  // (SKEP-3105). May be empty. Called from the thread of the handshake; must not wait.
  std::function<Status(const DeviceIdentity&, const Certificate&)> admit;
  std::optional<WallMs> judged_at;  // absent: the system's clock
};

// How a device judges the aggregator: chain to the one server CA, validity, EKU serverAuth present,
// host in the SAN. The CA is known from enrolment or, before that, found in the presented chain by
// the hash of its key; SKEP-3113 if it is another.
struct ServerRules {
  std::optional<Certificate> authority;
  std::optional<Hash32> pin;  // used if there is no authority
  std::string host;           // name or address
  std::optional<WallMs> judged_at;
};

// The error has the protocol's number (3101, 3102, 3105, 3106, 3108, 3109, 3110, 3112, 3113, 3115)
// and names issuer and SHA-256 of the certificate presented and of the trusted one.
//
// A certificate made for the other side is 3108 even if its authority is unknown: with two
// authorities that is what a mixed-up file looks like, and "not trusted" would send people to the
// wrong file.
[[nodiscard]] Result<DeviceIdentity> JudgeDevice(const DeviceRules& rules, const Certificate& leaf,
                                                 const std::vector<Certificate>& others);
[[nodiscard]] Status JudgeServer(const ServerRules& rules, const Certificate& leaf,
                                 const std::vector<Certificate>& others);

// The same inside a handshake: leaves in `context` the reason from which OpenSSL chooses its alert.
[[nodiscard]] Result<DeviceIdentity> JudgeDevice(const DeviceRules& rules, X509_STORE_CTX* context);
[[nodiscard]] Status JudgeServer(const ServerRules& rules, X509_STORE_CTX* context);

}  // namespace skep::crypto
