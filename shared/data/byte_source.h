// ByteSource: the bytes of a data file from front to back, unpacked if it is gzip (1F 8B).
//
// Not for files that we write. The file is not trusted: `most_bytes` bounds what can come before
// any of it is unpacked. Called by the readers of this folder; one thread. Source: RFC 1952.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "shared/base/bytes.h"
#include "shared/base/result.h"

namespace skep::data {

class ByteSource {
 public:
  // SKEP-1201 names the path and the system's reason.
  [[nodiscard]] static Result<ByteSource> Open(const std::string& path);
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;

  [[nodiscard]] const std::string& path() const;
  // No more bytes than this can come: the file's size, or what deflate can make of it at most.
  [[nodiscard]] std::uint64_t most_bytes() const;

  // Fills `to` as far as bytes are left; fewer means the end. SKEP-1202 damaged or cut gzip data,
  // 1201 a read error.
  [[nodiscard]] Result<std::size_t> Read(std::span<std::uint8_t> to);
  // Everything that is left. SKEP-1202 if it is more than `limit`.
  [[nodiscard]] Result<std::string> ReadAll(std::uint64_t limit);

 private:
  struct State;
  explicit ByteSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace skep::data
