#include "crypto/secret.h"

#include <openssl/crypto.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "shared/base/check.h"

namespace skep::crypto {

SecretBytes::SecretBytes(std::size_t size) : size_(size) {
  if (size == 0) return;
  void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  SKEP_CHECK(page != MAP_FAILED);
  // Advice only: an old kernel that refuses it still keeps the secret out of freed memory.
  static_cast<void>(madvise(page, size, MADV_DONTDUMP));
  data_ = static_cast<std::uint8_t*>(page);
}

SecretBytes::~SecretBytes() {
  Release();
}

SecretBytes::SecretBytes(SecretBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SecretBytes& SecretBytes::operator=(SecretBytes&& other) noexcept {
  if (this == &other) return *this;
  Release();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

SecretBytes SecretBytes::CopyOf(BytesView bytes) {
  SecretBytes copy(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.data_);
  return copy;
}

void SecretBytes::Release() {
  if (data_ == nullptr) return;
  Wipe(writable());
  munmap(data_, size_);
}

void Wipe(std::span<std::uint8_t> bytes) {
  OPENSSL_cleanse(bytes.data(), bytes.size());
}

bool EqualSecrets(BytesView a, BytesView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace skep::crypto
