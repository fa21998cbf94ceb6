#include "shared/wire/frame.h"

#include <algorithm>
#include <cstring>

#include "shared/base/check.h"
#include "shared/base/try.h"
#include "shared/wire/codec.h"

namespace skep::wire {
namespace {

constexpr std::size_t kLargestStep = 64 * 1024;
constexpr std::size_t kFirstStep = 4 * 1024;

Error Refuse(int code, const char* what) {
  return Error{code, what, ""};
}

bool IsLegal(Role role, const MessageInfo& info) {
  switch (role) {
    case Role::kClient:
      return info.session && info.from_aggregator;
    case Role::kEnrolClient:
      return info.enrolment && info.from_aggregator;
    case Role::kDeviceListener:
      return info.session && info.from_client;
    case Role::kEnrolListener:
      return info.enrolment && info.from_client;
  }
  return false;
}

// The message that must come first; none where the other side has to be spoken to first.
std::optional<MessageId> OpeningOf(Role role) {
  switch (role) {
    case Role::kDeviceListener:
      return MessageId::kHello;
    case Role::kEnrolListener:
      return MessageId::kEnrolRequest;
    default:
      return std::nullopt;
  }
}

}  // namespace

Status FrameDecoder::JudgeControl(std::uint16_t id) const {
  const MessageInfo* info = FindMessage(id);
  if (info == nullptr || !IsLegal(role_, *info))
    return Refuse(3203, "message id unknown or wrong direction");
  if (length_ > info->max_bytes) return Refuse(3204, "frame above the limit of its message");
  return Ok();
}

Status FrameDecoder::JudgeHeader() {
  const std::uint8_t kind = header_[0];
  const auto id = LoadLittle<std::uint16_t>(header_.data() + 2);
  length_ = LoadLittle<std::uint32_t>(header_.data() + 4);
  const bool is_chunk = kind == std::uint8_t{2};
  if (kind != 1 && !is_chunk) return Refuse(3201, "unknown frame kind");
  if (header_[1] != 0 || (is_chunk && id != 0)) return Refuse(3202, "reserved bits set");
  // Before the peer has said who it is, nothing else about its frame is of interest.
  const std::optional<MessageId> opening = OpeningOf(role_);
  if (opening && !is_open_ && (is_chunk || id != static_cast<std::uint16_t>(*opening)))
    return Refuse(3301, "first frame is not the opening message");
  if (!is_chunk) return JudgeControl(id);
  if (length_ <= kChunkHeaderBytes || length_ - kChunkHeaderBytes > chunk_bytes_)
    return Refuse(3205, "chunk frame length inconsistent");
  return Ok();
}

// True when the payload is complete.
bool FrameDecoder::TakePayload(BytesView& input) {
  while (payload_.size() < length_ && !input.empty()) {
    if (payload_.size() == payload_.capacity()) {
      const std::size_t received = payload_.size();
      const std::size_t wanted =
          std::min<std::size_t>({length_, received + kLargestStep, 2 * received + kFirstStep});
      if (!charged_.Grow(wanted - received)) return false;
      payload_.reserve(wanted);
    }
    const std::size_t room = std::min<std::size_t>(payload_.capacity(), length_) - payload_.size();
    const std::size_t count = std::min(room, input.size());
    Append(payload_, input.first(count));
    input = input.subspan(count);
  }
  return payload_.size() == length_;
}

Frame FrameDecoder::FinishFrame() {
  Frame frame;
  frame.kind = FrameKind{header_[0]};
  frame.id = MessageId{LoadLittle<std::uint16_t>(header_.data() + 2)};
  frame.payload = std::exchange(payload_, {});
  frame.charged = std::move(charged_);
  is_open_ = true;
  has_header_ = false;
  header_bytes_ = 0;
  return frame;
}

Result<std::optional<Frame>> FrameDecoder::Next(BytesView& input) {
  if (failure_) return *failure_;
  if (!has_header_) {
    const std::size_t count = std::min(kFrameHeaderBytes - header_bytes_, input.size());
    std::copy_n(input.begin(), count, header_.begin() + static_cast<std::ptrdiff_t>(header_bytes_));
    header_bytes_ += count;
    input = input.subspan(count);
    if (header_bytes_ < kFrameHeaderBytes) return std::optional<Frame>();
    if (Status judged = JudgeHeader(); !judged) {
      failure_ = judged.error();
      return *failure_;
    }
    has_header_ = true;
    charged_ = ChargedBytes(budget_);
  }
  if (!TakePayload(input)) return std::optional<Frame>();
  return std::optional<Frame>(FinishFrame());
}

Bytes EncodeFrame(const Message& message) {
  const Bytes payload = EncodeMessage(message);
  const MessageInfo* info = FindMessage(static_cast<std::uint16_t>(IdOf(message)));
  SKEP_CHECK(payload.size() <= info->max_bytes);
  Bytes frame;
  frame.reserve(kFrameHeaderBytes + payload.size());
  frame.push_back(static_cast<std::uint8_t>(FrameKind::kControl));
  frame.push_back(0);
  AppendLittle(frame, static_cast<std::uint16_t>(info->id));
  AppendLittle(frame, static_cast<std::uint32_t>(payload.size()));
  Append(frame, payload);
  return frame;
}

}  // namespace skep::wire
