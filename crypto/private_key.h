// A private key of ours: made, kept in a PEM file of mode 0600, never printed.
//
// For TLS (EC P-256; others may be loaded) and, by signature.h, for manifests (Ed25519). Copies
// share one key object, which OpenSSL wipes when the last is dropped. Thread-safe once made.
// Source: Skep protocol 1.0, section 10.2 (T16).
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "crypto/secret.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"

namespace skep::crypto {

class PrivateKey {
 public:
  // SKEP-9001 if OpenSSL cannot.
  [[nodiscard]] static Result<PrivateKey> MakeP256();
  [[nodiscard]] static Result<PrivateKey> MakeEd25519();

  // PKCS#8 or traditional PEM without a pass phrase. SKEP-1010 otherwise.
  [[nodiscard]] static Result<PrivateKey> FromPem(std::string_view pem);
  // SKEP-1010 if the file cannot be read; SKEP-5101 unless its mode is 0600 or 0400 and it belongs
  // to this user (root reads any user's).
  [[nodiscard]] static Result<PrivateKey> Load(const std::string& path);
  // Takes over one reference.
  [[nodiscard]] static PrivateKey Adopt(EVP_PKEY* key);

  [[nodiscard]] Result<SecretBytes> ToPem() const;
  // On stable storage, mode 0600, whole or not at all; replaces a file of that name. SKEP-4001 with
  // the system's reason.
  [[nodiscard]] Status Store(const std::string& path) const;

  // "EC P-256", "Ed25519", "RSA 2048".
  [[nodiscard]] std::string Description() const;
  [[nodiscard]] bool IsEd25519() const;
  // SHA-256 of the SubjectPublicKeyInfo.
  [[nodiscard]] Hash32 KeyHash() const;

  // Borrowed. OpenSSL takes no pointer to const where it only reads.
  [[nodiscard]] EVP_PKEY* handle() const { return key_.get(); }

 private:
  explicit PrivateKey(std::shared_ptr<EVP_PKEY> key) : key_(std::move(key)) {}

  std::shared_ptr<EVP_PKEY> key_;
};

// "EC P-256", "Ed25519", "RSA 2048": what kind a key is, for messages.
[[nodiscard]] std::string DescribeKey(EVP_PKEY* key);
// SHA-256 of a key's SubjectPublicKeyInfo.
[[nodiscard]] Hash32 HashKey(EVP_PKEY* key);

}  // namespace skep::crypto
