#include "shared/base/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "shared/base/check.h"

namespace skep {
namespace {

Hash32 Hmac(BytesView key, BytesView message) {
  Hash32 mac;
  unsigned int size = 0;
  SKEP_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), message.data(),
                  message.size(), mac.bytes.data(), &size) != nullptr);
  return mac;
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  SKEP_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(BytesView bytes) {
  SKEP_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

Hash32 Sha256::Finish() {
  Hash32 hash;
  unsigned int size = 0;
  SKEP_CHECK(EVP_DigestFinal_ex(state_->context, hash.bytes.data(), &size) == 1);
  return hash;
}

Hash32 Sha256::Of(BytesView bytes) {
  Hash32 hash;
  SHA256(bytes.data(), bytes.size(), hash.bytes.data());
  return hash;
}

Seed32 DeriveSeed(BytesView input_key, BytesView info) {
  const Hash32 no_salt;
  const Hash32 extracted = Hmac(no_salt.bytes, input_key);
  Bytes block(info.begin(), info.end());
  block.push_back(1);  // T(1) of RFC 5869 section 2.3: one block is all that 32 bytes need
  return Seed32{Hmac(extracted.bytes, block).bytes};
}

}  // namespace skep
