#include "shared/wire/chunk.h"

#include "tests/support/catch.h"

namespace skep::wire {
namespace {

constexpr std::uint32_t kSize = 16;

Bytes Body(std::size_t size) {
  Bytes body(size);
  for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<std::uint8_t>(i * 7);
  return body;
}

Bytes PayloadOf(const Bytes& frame) {
  return {frame.begin() + kFrameHeaderBytes, frame.end()};
}

// The first chunk of a transfer of 40 bytes, as a payload to damage.
Bytes FirstChunk() {
  ChunkSender sender({.id = 3, .total = 40, .offset = 0, .chunk_bytes = kSize});
  const Bytes body = Body(40);
  return PayloadOf(sender.NextFrame(BytesView(body).first(kSize)));
}

ChunkReceiver Receiver() {
  return ChunkReceiver({.id = 3, .total = 40, .offset = 0, .chunk_bytes = kSize});
}

// The code of the refusal; checks that nothing changed and that the true chunk is still welcome.
int CodeOf(const Bytes& payload) {
  ChunkReceiver receiver = Receiver();
  const auto refused = receiver.Accept(payload);
  REQUIRE_FALSE(refused.has_value());
  CHECK(receiver.received() == 0);
  CHECK(receiver.Accept(FirstChunk()).has_value());
  return refused.error().code;
}

template <class T>
Bytes With(std::size_t offset, T value) {
  Bytes payload = FirstChunk();
  StoreLittle(value, payload.data() + offset);
  return payload;
}

TEST_CASE("the last chunk of a model is the protocol's golden bytes", "[unit]") {
  ChunkSender sender({.id = 2, .total = 262'150, .offset = 262'144, .chunk_bytes = 262'144});
  CHECK(ToHex(sender.NextFrame(AsBytes("abcdef"))) ==
        "0200000026000000"
        "0200000001000000"
        "0000040000000000"
        "0600040000000000"
        "06000000f1efbc53"
        "616263646566");
  CHECK(sender.is_done());
}

TEST_CASE("a body comes over in chunks, from the start or from where it was left", "[unit]") {
  const Bytes body = Body(40);
  for (const std::uint64_t start : {0U, 1U, 16U, 39U, 40U}) {
    INFO("from " << start);
    const Transfer transfer{.id = 9, .total = 40, .offset = start, .chunk_bytes = kSize};
    ChunkSender sender(transfer);
    ChunkReceiver receiver(transfer);
    Bytes got(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(start));
    while (!sender.is_done()) {
      const BytesView data = BytesView(body).subspan(sender.offset(), sender.NextLength());
      const Bytes payload = PayloadOf(sender.NextFrame(data));
      const auto chunk = receiver.Accept(payload);
      REQUIRE(chunk.has_value());
      CHECK(chunk->offset == got.size());
      CHECK(chunk->crc32c == Crc32c(chunk->data));
      Append(got, chunk->data);
      CHECK(chunk->is_last == receiver.is_done());
    }
    CHECK(receiver.is_done());
    CHECK(got == body);
  }
}

TEST_CASE("a chunk of another transfer is refused", "[unit]") {
  CHECK(CodeOf(With(0, std::uint32_t{4})) == 3303);
}
TEST_CASE("reserved flags of a chunk are refused", "[unit]") {
  CHECK(CodeOf(With(4, std::uint32_t{2})) == 3202);
  CHECK(CodeOf(With(4, std::uint32_t{0x80000000})) == 3202);
}
TEST_CASE("a chunk at another offset is refused", "[unit]") {
  CHECK(CodeOf(With(8, std::uint64_t{16})) == 3304);
  CHECK(CodeOf(With(8, std::uint64_t{0xFFFFFFFFFFFFFFFF})) == 3304);
}
TEST_CASE("a chunk that repeats another total is refused", "[unit]") {
  CHECK(CodeOf(With(16, std::uint64_t{41})) == 3304);
}
TEST_CASE("a chunk whose data length is not the frame's is refused", "[unit]") {
  CHECK(CodeOf(With(24, std::uint32_t{15})) == 3205);
  CHECK(CodeOf(With(24, std::uint32_t{0xFFFFFFFF})) == 3205);
}
TEST_CASE("a chunk without data is refused", "[unit]") {
  CHECK(CodeOf(Bytes(32)) == 3205);
  CHECK(CodeOf({}) == 3205);
}
TEST_CASE("a chunk with a wrong checksum is refused", "[unit]") {
  CHECK(CodeOf(With(28, std::uint32_t{1})) == 3305);
  Bytes flipped = FirstChunk();
  flipped.back() = static_cast<std::uint8_t>(flipped.back() ^ 1);
  CHECK(CodeOf(flipped) == 3305);
}
TEST_CASE("a chunk that says it is the last and is not is refused before its checksum", "[unit]") {
  Bytes payload = With(4, std::uint32_t{1});
  payload.back() = static_cast<std::uint8_t>(payload.back() ^ 1);
  CHECK(CodeOf(payload) == 3304);
}
TEST_CASE("a chunk shorter than the rest is refused", "[unit]") {
  Bytes payload = FirstChunk();
  payload.pop_back();
  StoreLittle(std::uint32_t{15}, payload.data() + 24);
  CHECK(CodeOf(payload) == 3304);
}
TEST_CASE("a chunk longer than the agreed size is refused", "[unit]") {
  Bytes payload = FirstChunk();
  payload.push_back(0);
  StoreLittle(std::uint32_t{17}, payload.data() + 24);
  CHECK(CodeOf(payload) == 3304);
}

TEST_CASE("a last chunk longer than the agreed size is refused", "[unit]") {
  ChunkReceiver receiver({.id = 3, .total = 17, .offset = 0, .chunk_bytes = kSize});
  ChunkSender sender({.id = 3, .total = 17, .offset = 0, .chunk_bytes = 17});
  const auto refused = receiver.Accept(PayloadOf(sender.NextFrame(Body(17))));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == 3304);
  CHECK(receiver.received() == 0);
}

TEST_CASE("a chunk past the end of its transfer is refused", "[unit]") {
  ChunkReceiver receiver({.id = 3, .total = 40, .offset = 32, .chunk_bytes = kSize});
  Bytes payload = With(8, std::uint64_t{32});
  for (const std::uint32_t flags : {0U, 1U}) {
    StoreLittle(flags, payload.data() + 4);
    const auto refused = receiver.Accept(payload);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == 3304);
    CHECK(receiver.received() == 32);
  }
}
TEST_CASE("a last chunk without its flag is refused", "[unit]") {
  ChunkReceiver receiver({.id = 3, .total = 16, .offset = 0, .chunk_bytes = kSize});
  const auto refused = receiver.Accept(With(16, std::uint64_t{16}));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == 3304);
}
TEST_CASE("the same chunk twice is refused", "[unit]") {
  ChunkReceiver receiver = Receiver();
  REQUIRE(receiver.Accept(FirstChunk()).has_value());
  const auto refused = receiver.Accept(FirstChunk());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == 3304);
  CHECK(receiver.received() == 16);
}
TEST_CASE("nothing is accepted after the end", "[unit]") {
  ChunkReceiver receiver({.id = 3, .total = 40, .offset = 40, .chunk_bytes = kSize});
  REQUIRE(receiver.is_done());
  const auto refused = receiver.Accept(With(8, std::uint64_t{40}));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == 3304);
}
TEST_CASE("sizes near the end of 64 bits do not overflow", "[unit]") {
  constexpr std::uint64_t kLast = 0xFFFFFFFFFFFFFFFF;
  ChunkReceiver receiver({.id = 3, .total = kLast, .offset = kLast - 8, .chunk_bytes = kSize});
  Bytes payload = With(8, kLast - 8);
  StoreLittle(kLast, payload.data() + 16);
  const auto refused = receiver.Accept(payload);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == 3304);
}

}  // namespace
}  // namespace skep::wire
