// SecretBytes: a few bytes that must not outlive their use: wiped when dropped, left out of core
// dumps.
//
// For keys, tokens and seeds of masks. Each one takes a page of its own, so this is not for
// thousands of them nor for bulk data. Not thread-safe; moves, never copies by accident.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shared/base/bytes.h"

namespace skep::crypto {

class SecretBytes {
 public:
  SecretBytes() = default;
  // `size` zero bytes. Ends the program when the system has no page left.
  explicit SecretBytes(std::size_t size);
  ~SecretBytes();
  SecretBytes(SecretBytes&& other) noexcept;
  SecretBytes& operator=(SecretBytes&& other) noexcept;
  SecretBytes(const SecretBytes&) = delete;
  SecretBytes& operator=(const SecretBytes&) = delete;

  // The source stays as it is: whoever owns it wipes it.
  [[nodiscard]] static SecretBytes CopyOf(BytesView bytes);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] BytesView view() const { return {data_, size_}; }
  [[nodiscard]] std::span<std::uint8_t> writable() { return {data_, size_}; }

 private:
  void Release();

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

// Overwrites with zeros; not optimised away.
void Wipe(std::span<std::uint8_t> bytes);

// Compares in a time that depends on the sizes only.
[[nodiscard]] bool EqualSecrets(BytesView a, BytesView b);

}  // namespace skep::crypto
