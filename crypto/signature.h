// Ed25519 signatures over what an aggregator promises: manifests and statements about its signing
// keys.
//
// A prefix names what is signed, so that a signature over one can never be passed for the other.
// Not for certificates: those are signed in pki/. Called by the aggregator's signing job and by
// clients that check. Thread-safe. Source: RFC 8032 (pure Ed25519); Skep protocol 1.0, section 4
// (signature input) and 10.5.
#pragma once

#include <string>

#include "crypto/private_key.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace skep::crypto {

enum class SignedKind { kManifest, kKeyStatement };

// First 8 bytes of SHA-256 of the public key.
[[nodiscard]] KeyId KeyIdOf(const wire::PublicKey& key);

class SigningKey {
 public:
  [[nodiscard]] static Result<SigningKey> Make();
  // As PrivateKey::Load; SKEP-5114 if it is of another kind.
  [[nodiscard]] static Result<SigningKey> Load(const std::string& path);
  [[nodiscard]] static Result<SigningKey> From(PrivateKey key, const std::string& name);
  [[nodiscard]] Status Store(const std::string& path) const { return key_.Store(path); }

  [[nodiscard]] const wire::PublicKey& public_key() const { return public_; }
  [[nodiscard]] KeyId id() const { return KeyIdOf(public_); }

  // SKEP-9001 if OpenSSL cannot.
  [[nodiscard]] Result<wire::Signature> Sign(SignedKind kind, BytesView payload) const;

 private:
  SigningKey(PrivateKey key, const wire::PublicKey& public_key)
      : key_(std::move(key)), public_(public_key) {}

  PrivateKey key_;
  wire::PublicKey public_;
};

// False for any other payload, kind, key or signature, and for a key that is no point of the curve.
[[nodiscard]] bool IsSignedBy(const wire::PublicKey& key, SignedKind kind, BytesView payload,
                              const wire::Signature& signature);

}  // namespace skep::crypto
