#include "crypto/signature.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>

#include "crypto/openssl.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"

namespace skep::crypto {
namespace {

Bytes SignatureInput(SignedKind kind, BytesView payload) {
  Bytes input;
  Append(input, AsBytes(std::string_view(kind == SignedKind::kManifest ? "skep/1 manifest"
                                                                       : "skep/1 key")));
  input.push_back(0);
  Append(input, payload);
  return input;
}

}  // namespace

KeyId KeyIdOf(const wire::PublicKey& key) {
  const Hash32 hash = Sha256::Of(key.view());
  return KeyId::From(hash.view().first(KeyId::kBytes)).value();
}

Result<SigningKey> SigningKey::Make() {
  SKEP_ASSIGN(PrivateKey key, PrivateKey::MakeEd25519());
  return From(std::move(key), "new signing key");
}

Result<SigningKey> SigningKey::Load(const std::string& path) {
  SKEP_ASSIGN(PrivateKey key, PrivateKey::Load(path));
  return From(std::move(key), path);
}

Result<SigningKey> SigningKey::From(PrivateKey key, const std::string& name) {
  if (!key.IsEd25519()) {
    return Error{5114, name + ": not an Ed25519 private key (found " + key.Description() + ")", ""};
  }
  wire::PublicKey public_key;
  std::size_t size = public_key.bytes.size();
  if (EVP_PKEY_get_raw_public_key(key.handle(), public_key.bytes.data(), &size) != 1) {
    return OpenSslError(9001, name);
  }
  return SigningKey(std::move(key), public_key);
}

Result<wire::Signature> SigningKey::Sign(SignedKind kind, BytesView payload) const {
  const Bytes input = SignatureInput(kind, payload);
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  wire::Signature signature;
  std::size_t size = signature.bytes.size();
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.handle()) != 1 ||
      EVP_DigestSign(context.get(), signature.bytes.data(), &size, input.data(), input.size()) !=
          1) {
    return OpenSslError(9001, "not signed");
  }
  return signature;
}

bool IsSignedBy(const wire::PublicKey& key, SignedKind kind, BytesView payload,
                const wire::Signature& signature) {
  const Bytes input = SignatureInput(kind, payload);
  const Owned<EVP_PKEY> public_key(EVP_PKEY_new_raw_public_key_ex(
      nullptr, "ED25519", nullptr, key.bytes.data(), key.bytes.size()));
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  const bool is_signed =
      public_key != nullptr && context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, public_key.get()) == 1 &&
      EVP_DigestVerify(context.get(), signature.bytes.data(), signature.bytes.size(), input.data(),
                       input.size()) == 1;
  // A refused signature leaves a reason that the next failure of this thread must not inherit.
  ERR_clear_error();
  return is_signed;
}

}  // namespace skep::crypto
