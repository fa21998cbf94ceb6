#include "shared/wire/frame.h"

#include "shared/base/rng.h"
#include "shared/wire/chunk.h"
#include "shared/wire/codec.h"
#include "tests/shared/wire_samples.h"
#include "tests/support/catch.h"

namespace skep::wire {
namespace {

constexpr std::uint32_t kChunk = 16 * 1024;

// What a stream of bytes gave: the frames, then the error, if any.
struct Outcome {
  std::vector<Bytes> payloads;
  int code = 0;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Feeds `bytes` in pieces of `piece` bytes (0: at once).
Outcome Feed(FrameDecoder& decoder, BytesView bytes, std::size_t piece) {
  Outcome outcome;
  while (!bytes.empty()) {
    const std::size_t size = piece == 0 ? bytes.size() : std::min(piece, bytes.size());
    BytesView input = bytes.first(size);
    bytes = bytes.subspan(size);
    while (!input.empty()) {
      auto next = decoder.Next(input);
      if (!next) {
        outcome.code = next.error().code;
        return outcome;
      }
      if (*next) outcome.payloads.push_back((*next)->payload);
    }
  }
  return outcome;
}

int CodeOf(Role role, std::string_view hex, bool is_open = false) {
  CountingBudget budget(1 << 20);
  FrameDecoder decoder(role, budget);
  decoder.SetChunkBytes(kChunk);
  Bytes stream;
  if (is_open) {
    if (role == Role::kDeviceListener)
      stream = EncodeFrame(Hello{.major = 1, .software = "s"});
    else if (role == Role::kEnrolListener)
      stream = EncodeFrame(EnrolRequest{.major = 1, .csr = {1}, .software = "s"});
  }
  Append(stream, FromHex(hex).value());
  const Outcome outcome = Feed(decoder, stream, 0);
  CHECK(outcome.payloads.size() == (is_open ? 1 : 0));
  return outcome.code;
}

constexpr bool kOpen = true;

TEST_CASE("a frame of an unknown kind is refused", "[unit]") {
  CHECK(CodeOf(Role::kClient, "0000010009000000") == 3201);
  CHECK(CodeOf(Role::kClient, "0300010009000000") == 3201);
  CHECK(CodeOf(Role::kDeviceListener, "1603010200010001") == 3201);  // TLS in plain text
}
TEST_CASE("reserved bits are refused, a chunk with a message id too", "[unit]") {
  CHECK(CodeOf(Role::kClient, "0101010009000000") == 3202);
  CHECK(CodeOf(Role::kClient, "0180010009000000") == 3202);
  CHECK(CodeOf(Role::kClient, "0200010026000000") == 3202);
}
TEST_CASE("an unknown message id is refused", "[unit]") {
  CHECK(CodeOf(Role::kDeviceListener, "0100050004000000", kOpen) == 3203);
  CHECK(CodeOf(Role::kDeviceListener, "0100500004000000", kOpen) == 3203);  // reserved
  CHECK(CodeOf(Role::kClient, "0100ffff04000000") == 3203);
}
TEST_CASE("a message of the other direction is refused", "[unit]") {
  CHECK(CodeOf(Role::kClient, "0100100004000000") == 3203);                 // Hello
  CHECK(CodeOf(Role::kDeviceListener, "0100110004000000", kOpen) == 3203);  // HelloAck
}
TEST_CASE("enrolment stays on its listener", "[unit]") {
  CHECK(CodeOf(Role::kDeviceListener, "0100400004000000", kOpen) == 3203);
  CHECK(CodeOf(Role::kClient, "0100410004000000") == 3203);
  CHECK(CodeOf(Role::kEnrolClient, "0100110004000000") == 3203);
  CHECK(CodeOf(Role::kEnrolListener, "0100120004000000", kOpen) == 3203);
}
TEST_CASE("a control frame above the limit of its message is refused at its header", "[unit]") {
  CHECK(CodeOf(Role::kClient, "0100010010000000") == 0);
  CHECK(CodeOf(Role::kClient, "0100010011000000") == 3204);
  CHECK(CodeOf(Role::kClient, "01001800ffffffff") == 3204);
  CHECK(CodeOf(Role::kDeviceListener, "0100100001100000") == 3204);
}
TEST_CASE("a chunk frame too short or too long is refused at its header", "[unit]") {
  CHECK(CodeOf(Role::kClient, "0200000020000000") == 3205);
  CHECK(CodeOf(Role::kClient, "0200000000000000") == 3205);
  CHECK(CodeOf(Role::kClient, "0200000021000000") == 0);
  CHECK(CodeOf(Role::kClient, "0200000020400000") == 0);
  CHECK(CodeOf(Role::kClient, "0200000021400000") == 3205);
  CHECK(CodeOf(Role::kClient, "02000000ffffffff") == 3205);
}
TEST_CASE("no chunk is taken before a chunk size is agreed", "[unit]") {
  CountingBudget budget(1 << 20);
  FrameDecoder decoder(Role::kClient, budget);
  const Bytes header = FromHex("0200000021000000").value();
  CHECK(Feed(decoder, header, 0).code == 3205);
}
TEST_CASE("until Hello is complete anything else is refused, whatever its length", "[unit]") {
  CHECK(CodeOf(Role::kDeviceListener, "0100010009000000") == 3301);
  CHECK(CodeOf(Role::kDeviceListener, "01000100ffffffff") == 3301);
  CHECK(CodeOf(Role::kDeviceListener, "0100ffff00000000") == 3301);
  CHECK(CodeOf(Role::kDeviceListener, "02000000ffffffff") == 3301);
  CHECK(CodeOf(Role::kDeviceListener, "0100400004000000") == 3301);
  CHECK(CodeOf(Role::kEnrolListener, "0100100004000000") == 3301);
}
TEST_CASE("kind and reserved bits are judged before the opening message", "[unit]") {
  CHECK(CodeOf(Role::kDeviceListener, "0300010009000000") == 3201);
  CHECK(CodeOf(Role::kDeviceListener, "0101010009000000") == 3202);
}

TEST_CASE("an error is final: nothing more is taken", "[unit]") {
  CountingBudget budget(1 << 20);
  FrameDecoder decoder(Role::kClient, budget);
  const Bytes bad = FromHex("0300010009000000").value();
  REQUIRE(Feed(decoder, bad, 0).code == 3201);
  const Bytes good = EncodeFrame(Ping{.nonce = 1});
  BytesView input = good;
  const auto again = decoder.Next(input);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().code == 3201);
  CHECK(input.size() == good.size());
  CHECK(budget.used() == 0);
}

Bytes ManyFrames(std::uint64_t seed) {
  test::Samples samples(seed);
  Bytes stream = EncodeFrame(Hello{.major = 1, .software = "s"});
  for (std::size_t kind = 0; kind < test::kMessageKinds; ++kind) {
    const Message message = samples.Any(kind);
    const MessageInfo* info = FindMessage(static_cast<std::uint16_t>(IdOf(message)));
    if (info->from_client && info->session) Append(stream, EncodeFrame(message));
  }
  ChunkSender sender({.id = 1, .total = 20'000, .offset = 0, .chunk_bytes = kChunk});
  const Bytes body(20'000, 0x5A);
  while (!sender.is_done())
    Append(stream, sender.NextFrame(BytesView(body).subspan(sender.offset(), sender.NextLength())));
  return stream;
}

TEST_CASE("a stream gives the same frames and the same error however it is cut", "[unit]") {
  Bytes stream = ManyFrames(1);
  Append(stream, FromHex("01001100").value());  // a message of the other direction
  Append(stream, Bytes(4));
  const auto feed = [&stream](std::size_t piece) {
    CountingBudget budget(1 << 20);
    FrameDecoder decoder(Role::kDeviceListener, budget);
    decoder.SetChunkBytes(kChunk);
    return Feed(decoder, stream, piece);
  };
  const Outcome whole = feed(0);
  REQUIRE(whole.payloads.size() > 15);
  REQUIRE(whole.code == 3203);
  for (const std::size_t piece : {1, 2, 3, 5, 7, 8, 9, 64, 1000, 4096, 70'000}) {
    INFO("pieces of " << piece);
    REQUIRE(feed(piece) == whole);
  }
}

TEST_CASE("a damaged stream gives the same result however it is cut", "[unit]") {
  constexpr std::uint64_t kSeed = 20260106;
  INFO("seed " << kSeed);
  RandomStream draws(kSeed, {.purpose = Purpose::kSyntheticData});
  const Bytes whole = ManyFrames(2);
  for (int i = 0; i < 300; ++i) {
    Bytes stream = whole;
    for (int damage = 0; damage < 3; ++damage)
      stream[draws.Below(stream.size())] = static_cast<std::uint8_t>(draws.Word());
    const auto feed = [&stream](std::size_t piece) {
      CountingBudget budget(1 << 20);
      FrameDecoder decoder(Role::kDeviceListener, budget);
      decoder.SetChunkBytes(kChunk);
      return Feed(decoder, stream, piece);
    };
    INFO("case " << i);
    REQUIRE(feed(1 + draws.Below(300)) == feed(0));
  }
}

TEST_CASE("every cut in two of a short stream gives the same frames", "[unit]") {
  Bytes stream = EncodeFrame(Hello{.major = 1, .software = "s"});
  Append(stream, EncodeFrame(Ping{.nonce = 7}));
  Append(stream, FromHex("0300000000000000").value());
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    CountingBudget budget(1 << 20);
    FrameDecoder decoder(Role::kDeviceListener, budget);
    Outcome outcome = Feed(decoder, BytesView(stream).first(cut), 0);
    Outcome rest = Feed(decoder, BytesView(stream).subspan(cut), 0);
    for (Bytes& payload : rest.payloads) outcome.payloads.push_back(std::move(payload));
    if (outcome.code == 0) outcome.code = rest.code;
    INFO("cut at " << cut);
    REQUIRE(outcome.payloads.size() == 2);
    REQUIRE(outcome.code == 3201);
  }
}

TEST_CASE("the buffer grows with what has come, not with what was announced", "[unit]") {
  CountingBudget budget(std::size_t{2} << 20);
  FrameDecoder decoder(Role::kClient, budget);
  decoder.SetChunkBytes(kLargestChunkBytes);
  Bytes frame = FromHex("0200000020001000").value();
  frame.resize(kFrameHeaderBytes + kChunkHeaderBytes + kLargestChunkBytes);
  std::size_t capacity = 0;
  std::size_t received = 0;
  for (std::size_t at = 0; at < frame.size(); at += 1000) {
    BytesView input = BytesView(frame).subspan(at, std::min<std::size_t>(1000, frame.size() - at));
    received += input.size();
    const auto next = decoder.Next(input);
    REQUIRE(next.has_value());
    if (next->has_value()) break;
    REQUIRE(decoder.capacity() <= 2 * received + 4096);
    REQUIRE(decoder.capacity() <= capacity + 2 * 64 * 1024);
    REQUIRE(budget.used() == decoder.capacity());
    capacity = decoder.capacity();
  }
  CHECK(received == frame.size());
}

TEST_CASE("a header alone costs nothing", "[unit]") {
  CountingBudget budget(1 << 20);
  FrameDecoder decoder(Role::kClient, budget);
  const Bytes header = FromHex("0100180000000100").value();
  CHECK(Feed(decoder, header, 0).code == 0);
  CHECK(decoder.is_in_body());
  CHECK(decoder.body_length() == 65'536);
  CHECK(decoder.capacity() == 0);
  CHECK(budget.used() == 0);
}

TEST_CASE("without room the decoder waits and takes nothing", "[unit]") {
  CountingBudget budget(20);
  const Bytes frame = EncodeFrame(Hello{.major = 1, .software = std::string(40, 's')});
  FrameDecoder decoder(Role::kDeviceListener, budget);
  BytesView input = frame;
  const auto next = decoder.Next(input);
  REQUIRE(next.has_value());
  CHECK_FALSE(next->has_value());
  CHECK(input.size() == frame.size() - kFrameHeaderBytes);
  CHECK(budget.used() == 0);
}

TEST_CASE("once there is room the decoder goes on where it stood", "[unit]") {
  CountingBudget budget(1000);
  const Bytes frame = EncodeFrame(Hello{.major = 1, .software = std::string(40, 's')});
  FrameDecoder decoder(Role::kDeviceListener, budget);
  ChargedBytes other(budget);
  REQUIRE(other.Grow(990));
  BytesView input = frame;
  REQUIRE_FALSE(decoder.Next(input)->has_value());
  other = ChargedBytes();
  const auto next = decoder.Next(input);
  REQUIRE(next.has_value());
  REQUIRE(next->has_value());
  CHECK((*next)->payload == Bytes(frame.begin() + kFrameHeaderBytes, frame.end()));
}

TEST_CASE("memory is given back when a frame or a decoder goes", "[unit]") {
  CountingBudget global(1 << 20);
  CountingBudget budget(1 << 20, &global);
  const Bytes frame = EncodeFrame(Hello{.major = 1, .software = "s"});
  {
    FrameDecoder decoder(Role::kDeviceListener, budget);
    BytesView input = frame;
    auto next = decoder.Next(input);
    REQUIRE(next->has_value());
    CHECK(budget.used() == frame.size() - kFrameHeaderBytes);
    const Frame taken = std::move(**next);
    input = BytesView(frame).first(10);
    REQUIRE(decoder.Next(input).has_value());
    CHECK(global.used() > frame.size() - kFrameHeaderBytes);
  }
  CHECK(budget.used() == 0);
  CHECK(global.used() == 0);
}

TEST_CASE("a charge that the parent refuses is not kept", "[unit]") {
  CountingBudget global(100);
  CountingBudget budget(1000, &global);
  CHECK_FALSE(budget.Charge(101));
  CHECK(budget.used() == 0);
  CHECK(budget.Charge(100));
  CHECK_FALSE(budget.Charge(1));
  budget.Release(100);
  CHECK(global.used() == 0);
}

TEST_CASE("an empty control frame is a frame", "[unit]") {
  CountingBudget budget(1 << 20);
  FrameDecoder decoder(Role::kClient, budget);
  const Bytes header = FromHex("0100010000000000").value();
  const Outcome outcome = Feed(decoder, header, 0);
  REQUIRE(outcome.payloads.size() == 1);
  CHECK(DecodeMessage(MessageId::kPing, outcome.payloads[0]).error().code == 3212);
}

}  // namespace
}  // namespace skep::wire
