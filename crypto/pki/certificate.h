// Certificate: an X.509 certificate, parsed once, and the questions that Skep asks of it.
//
// Answers are facts about the bytes; whether a chain may be trusted is chain.h's question. Copies
// share one object. Thread-safe. Source: RFC 5280; Skep protocol 1.0, section 10.2 (T4, T5, T7).
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crypto/private_key.h"
#include "shared/base/clock.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"

namespace skep::crypto {

// Who a device certificate speaks for.
struct DeviceIdentity {
  FederationId federation;
  DeviceId device;

  friend bool operator==(const DeviceIdentity&, const DeviceIdentity&) = default;
};

// "urn:skep:<federation>:device:<device>", hexadecimal in lower case.
[[nodiscard]] std::string IdentityUri(const DeviceIdentity& identity);

class Certificate {
 public:
  // Exactly one certificate, without bytes after it. SKEP-3101 otherwise.
  [[nodiscard]] static Result<Certificate> FromDer(BytesView der);
  // The first, or all, of a PEM text. SKEP-1010 if there is none or one is damaged.
  [[nodiscard]] static Result<Certificate> FromPem(std::string_view pem);
  [[nodiscard]] static Result<std::vector<Certificate>> AllFromPem(std::string_view pem);
  // The first of a PEM file. SKEP-1010.
  [[nodiscard]] static Result<Certificate> Load(const std::string& path);
  // Takes over one reference; Share takes its own.
  [[nodiscard]] static Certificate Adopt(X509* certificate);
  [[nodiscard]] static Certificate Share(X509* certificate);

  [[nodiscard]] std::string ToPem() const;
  [[nodiscard]] Bytes ToDer() const;

  // SHA-256 of the DER, and of the SubjectPublicKeyInfo alone (the pin of a join string).
  [[nodiscard]] Hash32 Fingerprint() const;
  [[nodiscard]] Hash32 KeyHash() const;
  // Big-endian, without leading zeros.
  [[nodiscard]] Bytes Serial() const;
  [[nodiscard]] WallMs NotBefore() const;
  [[nodiscard]] WallMs NotAfter() const;
  // Common name, or the whole name where it has none; escaped to printable ASCII and cut to 64
  // characters: it may be a peer's.
  [[nodiscard]] std::string Subject() const;
  [[nodiscard]] std::string Issuer() const;
  // What Subject() is with issuer and fingerprint, for messages about trust.
  [[nodiscard]] std::string Describe() const;

  // DNS names and addresses of the subject alternative name, escaped alike.
  [[nodiscard]] std::vector<std::string> Names() const;
  // By the subject alternative name only; no common name, no partial wildcard. `host` is a name or
  // an address.
  [[nodiscard]] bool NamesHost(const std::string& host) const;
  // The one SAN URI. SKEP-3109 if there is none, more than one, or it is not an identity; SKEP-3110
  // if of another federation.
  [[nodiscard]] Result<DeviceIdentity> IdentityIn(const FederationId& federation) const;

  // basicConstraints CA:TRUE, present and well formed.
  [[nodiscard]] bool IsAuthority() const;
  // Signed by that authority's key and named by its subject.
  [[nodiscard]] bool IsIssuedBy(const Certificate& authority) const;
  // The extended key usage is present and lists it.
  [[nodiscard]] bool HasServerUsage() const;
  [[nodiscard]] bool HasClientUsage() const;
  // There is an extended key usage at all.
  [[nodiscard]] bool StatesUsage() const;
  // The key usage is present and allows digitalSignature.
  [[nodiscard]] bool MaySign() const;
  [[nodiscard]] bool BelongsTo(const PrivateKey& key) const;
  // "EC P-256", "RSA 1024".
  [[nodiscard]] std::string KeyDescription() const;

  // Borrowed. OpenSSL takes no pointer to const where it only reads.
  [[nodiscard]] X509* handle() const { return certificate_.get(); }

  // By content.
  friend bool operator==(const Certificate& a, const Certificate& b) {
    return a.Fingerprint() == b.Fingerprint();
  }

 private:
  explicit Certificate(std::shared_ptr<X509> certificate) : certificate_(std::move(certificate)) {}

  std::shared_ptr<X509> certificate_;
};

}  // namespace skep::crypto
