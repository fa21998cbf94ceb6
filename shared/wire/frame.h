// Frames: an 8-byte header and a payload, cut out of a byte stream.
//
// FrameDecoder judges a header before it keeps one byte of the payload, and grows its buffer with
// what has arrived, never to what was announced. It knows nothing of what payloads mean (codec.h,
// chunk.h) and of what is legal in a session's state.
//
// One decoder a connection, used by one thread at a time; no I/O.
// Source: Skep protocol 1.0, section 3.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/wire/budget.h"
#include "shared/wire/messages.h"

namespace skep::wire {

inline constexpr std::size_t kFrameHeaderBytes = 8;
inline constexpr std::size_t kChunkHeaderBytes = 32;
inline constexpr std::uint32_t kSmallestChunkBytes = 16 * 1024;
inline constexpr std::uint32_t kLargestChunkBytes = 1024 * 1024;

enum class FrameKind : std::uint8_t { kControl = 1, kChunk = 2 };

// Who reads: which messages may arrive, and which one opens the connection.
enum class Role : std::uint8_t {
  kClient,          // a client on the device listener
  kEnrolClient,     // a client on the enrolment listener
  kDeviceListener,  // the aggregator; opened by Hello
  kEnrolListener,   // the aggregator; opened by EnrolRequest
};

struct Frame {
  FrameKind kind = FrameKind::kControl;
  MessageId id{};        // control frames only
  Bytes payload;         // of a chunk: its header and data
  ChargedBytes charged;  // the payload's memory
};

class FrameDecoder {
 public:
  // `budget` outlives the decoder and every frame it gives out.
  FrameDecoder(Role role, Budget& budget) : role_(role), budget_(budget) {}

  // The session's chunk size, from HelloAck. Until it is set every chunk frame is SKEP-3205.
  void SetChunkBytes(std::uint32_t chunk_bytes) { chunk_bytes_ = chunk_bytes; }

  // Takes bytes from the front of `input` up to the end of one frame, and gives the frame. Nothing:
  // `input` is used up, or (bytes are left) the budget has no room now, and the same call may be
  // made again later. SKEP-3201..3205 and 3301 are final: from then on nothing is taken and the
  // same error comes back.
  [[nodiscard]] Result<std::optional<Frame>> Next(BytesView& input);

  // What the connection waits for in the middle of a frame, for its deadlines.
  [[nodiscard]] bool is_in_header() const { return header_bytes_ > 0 && !has_header_; }
  [[nodiscard]] bool is_in_body() const { return has_header_; }
  [[nodiscard]] std::uint32_t body_length() const { return length_; }  // while in the body
  // Whether the opening message is complete.
  [[nodiscard]] bool is_open() const { return is_open_; }
  // Memory kept for the frame that is not complete.
  [[nodiscard]] std::size_t capacity() const { return payload_.capacity(); }

 private:
  [[nodiscard]] Status JudgeHeader();
  [[nodiscard]] Status JudgeControl(std::uint16_t id) const;
  [[nodiscard]] bool TakePayload(BytesView& input);
  [[nodiscard]] Frame FinishFrame();

  Role role_;
  Budget& budget_;
  std::uint32_t chunk_bytes_ = 0;
  bool is_open_ = false;
  std::optional<Error> failure_;

  std::array<std::uint8_t, kFrameHeaderBytes> header_{};
  std::size_t header_bytes_ = 0;
  bool has_header_ = false;
  std::uint32_t length_ = 0;
  Bytes payload_;
  ChargedBytes charged_;
};

// Header and payload of a control message. Precondition: within the limits of its fields.
[[nodiscard]] Bytes EncodeFrame(const Message& message);

}  // namespace skep::wire
