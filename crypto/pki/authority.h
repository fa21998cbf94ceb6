// Authority: a certificate authority of a federation, and the certificates that it issues.
//
// There are two, never one: the server CA vouches for the aggregator, the device CA for devices, so
// that no device can ever pose as the aggregator. What may be issued is decided before: requests
// are checked (request.h), identities come from the store. Called by `init` and by enrolment.
// Thread-safe. Source: RFC 5280; Skep protocol 1.0, sections 10.2 (T6, T7) and 10.3.
#pragma once

#include <string>
#include <vector>

#include "crypto/pki/certificate.h"
#include "crypto/pki/request.h"
#include "crypto/private_key.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"

namespace skep::crypto {

enum class AuthorityKind { kServer, kDevice };

// Both ends are part of it; whole seconds, rounded down.
struct Validity {
  WallMs not_before = 0;
  WallMs not_after = 0;
};

inline constexpr Milliseconds kAuthorityLifetime = std::chrono::hours(24 * 3652);
inline constexpr Milliseconds kServerCertificateLifetime = std::chrono::hours(24 * 365);

class Authority {
 public:
  // A new P-256 key and its self-signed certificate, "skep server CA 5f3c9a" by the federation,
  // valid from `now` less five minutes (clocks differ) for ten years.
  [[nodiscard]] static Result<Authority> Make(AuthorityKind kind, const FederationId& federation,
                                              WallMs now);
  // SKEP-5116 unless the certificate is a CA's, SKEP-5102 unless the key is its own; `name` stands
  // for both in messages.
  [[nodiscard]] static Result<Authority> From(Certificate certificate, PrivateKey key,
                                              const std::string& name);

  [[nodiscard]] const Certificate& certificate() const { return certificate_; }
  [[nodiscard]] const PrivateKey& key() const { return key_; }

  // For the aggregator: EKU serverAuth and one SAN entry per host, a name or an address. At least
  // one host; the first is the common name.
  [[nodiscard]] Result<Certificate> IssueServer(const PrivateKey& key,
                                                const std::vector<std::string>& hosts,
                                                const Validity& validity) const;

  // For a device: serial of 16 random bytes, the identity as SAN URI, EKU clientAuth, key usage
  // digitalSignature, CA:FALSE.
  [[nodiscard]] Result<Certificate> IssueDevice(const CertificateRequest& request,
                                                const DeviceIdentity& identity,
                                                const Validity& validity) const;

 private:
  Authority(Certificate certificate, PrivateKey key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}

  Certificate certificate_;
  PrivateKey key_;
};

}  // namespace skep::crypto
