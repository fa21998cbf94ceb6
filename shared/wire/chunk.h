// Chunks: how models and update bodies travel, in order, each piece with its checksum.
//
// A chunk says again which transfer it belongs to, where it starts and how large the whole is, so
// that a lost or doubled piece cannot go unseen. Nothing here opens, cancels or resumes transfers
// (sessions do) or looks at values (admission does).
//
// A receiver or sender is a value of one transfer; one thread at a time.
// Source: Skep protocol 1.0, section 3.2.
#pragma once

#include <cstdint>

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/wire/frame.h"

namespace skep::wire {

struct ChunkHeader {
  std::uint32_t transfer_id = 0;
  std::uint32_t flags = 0;
  std::uint64_t offset = 0;
  std::uint64_t total = 0;
  std::uint32_t data_length = 0;
  std::uint32_t data_crc32c = 0;
};

inline constexpr std::uint32_t kLastChunkFlag = 1;

// The first 32 bytes of a chunk frame's payload, not judged. SKEP-3205 if it has no more than
// these.
[[nodiscard]] Result<ChunkHeader> DecodeChunkHeader(BytesView payload);

// What both sides agreed on when the transfer was opened.
struct Transfer {
  std::uint32_t id = 0;
  std::uint64_t total = 0;
  std::uint64_t offset = 0;  // where it begins, after a resume not 0; <= total
  std::uint32_t chunk_bytes = 0;
};

struct Chunk {
  BytesView data;  // within the payload given to Accept
  std::uint64_t offset = 0;
  std::uint32_t crc32c = 0;  // of the data; stored with it
  bool is_last = false;
};

class ChunkReceiver {
 public:
  explicit ChunkReceiver(const Transfer& transfer) : transfer_(transfer) {}

  // The payload of a chunk frame. Refused (SKEP-3303, 3202, 3304, 3205 or 3305, the first that
  // applies): nothing has changed.
  [[nodiscard]] Result<Chunk> Accept(BytesView payload);

  [[nodiscard]] std::uint64_t received() const { return transfer_.offset; }  // next offset
  [[nodiscard]] bool is_done() const { return transfer_.offset == transfer_.total; }

 private:
  Transfer transfer_;
};

class ChunkSender {
 public:
  explicit ChunkSender(const Transfer& transfer) : transfer_(transfer) {}

  [[nodiscard]] bool is_done() const { return transfer_.offset == transfer_.total; }
  [[nodiscard]] std::uint64_t offset() const { return transfer_.offset; }
  // Bytes of data in the next chunk; 0 when done.
  [[nodiscard]] std::uint32_t NextLength() const;
  // The next chunk as a whole frame. Precondition: `data` is what stands at offset(), of
  // NextLength() bytes, at least one.
  [[nodiscard]] Bytes NextFrame(BytesView data);

 private:
  Transfer transfer_;
};

}  // namespace skep::wire
