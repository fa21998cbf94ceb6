// SHA-256 (FIPS 180-4), streaming or at once, and HKDF-SHA-256 (RFC 5869). libcrypto does the work.
#pragma once

#include <memory>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"

namespace skep {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(BytesView bytes);
  // The hash of everything so far. Call once, last.
  [[nodiscard]] Hash32 Finish();

  [[nodiscard]] static Hash32 Of(BytesView bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 32 bytes of HKDF-SHA-256 without salt. For derived seeds that are not secret; keys use
// crypto/kdf.h.
[[nodiscard]] Seed32 DeriveSeed(BytesView input_key, BytesView info);

}  // namespace skep
