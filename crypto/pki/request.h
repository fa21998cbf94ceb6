// CertificateRequest: a PKCS#10 request that has passed every check of enrolment, and how a device
// makes one.
//
// The key in it is all that counts: subject, attributes and wished-for extensions are ignored.
// Checked by the aggregator before it signs anything. Thread-safe. Source: RFC 2986; Skep
// protocol 1.0, section 10.3 (SKEP-3119).
#pragma once

#include <memory>

#include "crypto/openssl.h"
#include "crypto/private_key.h"
#include "shared/base/result.h"

namespace skep::crypto {

inline constexpr std::size_t kLargestRequest = 2048;

// A request for a P-256 key, in DER. Precondition: the key is P-256.
[[nodiscard]] Result<Bytes> MakeRequest(const PrivateKey& key);

class CertificateRequest {
 public:
  // SKEP-3119 with the reason unless `der` is at most 2,048 bytes of DER without anything after it,
  // of version 1, for an uncompressed point of the named curve P-256, signed with that key by
  // ecdsa-with-SHA256. (A compressed point is the same key with another hash, so it could pass as a
  // new one.)
  [[nodiscard]] static Result<CertificateRequest> Check(BytesView der);

  // SHA-256 of the SubjectPublicKeyInfo: what a token is bound to.
  [[nodiscard]] Hash32 KeyHash() const { return HashKey(key()); }
  // Borrowed.
  [[nodiscard]] EVP_PKEY* key() const;

 private:
  explicit CertificateRequest(std::shared_ptr<X509_req_st> request)
      : request_(std::move(request)) {}

  std::shared_ptr<X509_req_st> request_;
};

}  // namespace skep::crypto
