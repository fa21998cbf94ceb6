#include "shared/wire/chunk.h"

#include <algorithm>

#include "shared/base/check.h"
#include "shared/base/try.h"

namespace skep::wire {
namespace {

Error Refuse(int code, const char* what) {
  return Error{code, what, ""};
}

// Everything about a chunk but its checksum, in wire order.
Status JudgeHeader(const ChunkHeader& header, const Transfer& transfer, std::size_t data_bytes) {
  if (header.transfer_id != transfer.id) return Refuse(3303, "chunk without an open transfer");
  if ((header.flags & ~kLastChunkFlag) != 0) return Refuse(3202, "reserved bits set");
  if (header.offset != transfer.offset) return Refuse(3304, "chunk out of order");
  if (header.total != transfer.total) return Refuse(3304, "chunk of another size of transfer");
  if (header.data_length != data_bytes) return Refuse(3205, "chunk frame length inconsistent");
  const bool is_last = (header.flags & kLastChunkFlag) != 0;
  if (header.data_length > transfer.chunk_bytes ||
      (!is_last && header.data_length != transfer.chunk_bytes)) {
    return Refuse(3304, "chunk of another length");
  }
  const std::uint64_t rest = transfer.total - transfer.offset;
  if (header.data_length > rest || is_last != (header.data_length == rest))
    return Refuse(3304, "chunk does not end where its flag says");
  return Ok();
}

}  // namespace

Result<ChunkHeader> DecodeChunkHeader(BytesView payload) {
  if (payload.size() <= kChunkHeaderBytes) return Refuse(3205, "chunk frame length inconsistent");
  const std::uint8_t* at = payload.data();
  return ChunkHeader{.transfer_id = LoadLittle<std::uint32_t>(at),
                     .flags = LoadLittle<std::uint32_t>(at + 4),
                     .offset = LoadLittle<std::uint64_t>(at + 8),
                     .total = LoadLittle<std::uint64_t>(at + 16),
                     .data_length = LoadLittle<std::uint32_t>(at + 24),
                     .data_crc32c = LoadLittle<std::uint32_t>(at + 28)};
}

Result<Chunk> ChunkReceiver::Accept(BytesView payload) {
  SKEP_ASSIGN(const ChunkHeader header, DecodeChunkHeader(payload));
  const BytesView data = payload.subspan(kChunkHeaderBytes);
  SKEP_TRY(JudgeHeader(header, transfer_, data.size()));
  if (Crc32c(data) != header.data_crc32c) return Refuse(3305, "chunk checksum wrong");
  transfer_.offset += data.size();
  return Chunk{.data = data,
               .offset = header.offset,
               .crc32c = header.data_crc32c,
               .is_last = (header.flags & kLastChunkFlag) != 0};
}

std::uint32_t ChunkSender::NextLength() const {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(transfer_.chunk_bytes, transfer_.total - transfer_.offset));
}

Bytes ChunkSender::NextFrame(BytesView data) {
  SKEP_CHECK(!data.empty() && data.size() == NextLength());
  const auto length = static_cast<std::uint32_t>(data.size());
  const bool is_last = transfer_.offset + length == transfer_.total;
  Bytes frame;
  frame.reserve(kFrameHeaderBytes + kChunkHeaderBytes + data.size());
  frame.push_back(static_cast<std::uint8_t>(FrameKind::kChunk));
  frame.push_back(0);
  AppendLittle(frame, std::uint16_t{0});
  AppendLittle(frame, static_cast<std::uint32_t>(kChunkHeaderBytes + data.size()));
  AppendLittle(frame, transfer_.id);
  AppendLittle(frame, is_last ? kLastChunkFlag : 0U);
  AppendLittle(frame, transfer_.offset);
  AppendLittle(frame, transfer_.total);
  AppendLittle(frame, length);
  AppendLittle(frame, Crc32c(data));
  Append(frame, data);
  transfer_.offset += length;
  return frame;
}

}  // namespace skep::wire
