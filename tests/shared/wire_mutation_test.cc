#include "shared/wire/codec.h"
#include "tests/shared/wire_samples.h"
#include "tests/support/catch.h"

namespace skep::wire {
namespace {

using test::kMessageKinds;
using test::Samples;

// One to four small damages: a byte changed, cut, doubled or put in, or the tail cut off.
void Damage(Bytes& bytes, RandomStream& stream) {
  const std::uint64_t times = 1 + stream.Below(4);
  for (std::uint64_t i = 0; i < times && !bytes.empty(); ++i) {
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(stream.Below(bytes.size()));
    switch (stream.Below(6)) {
      case 0:
        *at = static_cast<std::uint8_t>(stream.Word());
        break;
      case 1:
        *at = static_cast<std::uint8_t>(*at ^ (1U << stream.Below(8)));
        break;
      case 2:
        bytes.erase(at);
        break;
      case 3:
        bytes.insert(at, *at);
        break;
      case 4:
        bytes.insert(at, static_cast<std::uint8_t>(stream.Below(32)));
        break;
      default:
        bytes.erase(at, bytes.end());
    }
  }
}

bool IsWalkerCode(int code) {
  return code >= 3206 && code <= 3212;
}

// 3206 with this text would mean that the walker let through what protobuf refuses.
bool IsParserRefusal(const Error& error) {
  return error.message.find("the parser refuses it") != std::string::npos;
}

template <class Decoded>
void CheckOutcome(const Decoded& decoded) {
  if (decoded) return;
  INFO(decoded.error().message);
  REQUIRE(IsWalkerCode(decoded.error().code));
  REQUIRE_FALSE(IsParserRefusal(decoded.error()));
}

TEST_CASE("whatever is done to a message, what the walker accepts the parser accepts", "[unit]") {
  constexpr std::uint64_t kSeed = 20260103;
  INFO("seed " << kSeed);
  Samples samples(kSeed);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Message message = samples.Any(samples.stream().Below(kMessageKinds));
    Bytes payload = EncodeMessage(message);
    Damage(payload, samples.stream());
    INFO("case " << i << ", " << MessageName(IdOf(message)));
    const std::uint32_t limit = FindMessage(static_cast<std::uint16_t>(IdOf(message)))->max_bytes;
    if (payload.size() > limit) payload.resize(limit);
    const auto decoded = DecodeMessage(IdOf(message), payload);
    CheckOutcome(decoded);
    if (!decoded) continue;
    ++accepted;
    // What was accepted is a value like any other: it survives its own encoding.
    REQUIRE(DecodeMessage(IdOf(message), EncodeMessage(*decoded)).has_value());
  }
  CHECK(accepted > 100);
  CHECK(accepted < 19'900);
}

TEST_CASE("damaged plans and manifests never reach the parser undetected", "[unit]") {
  constexpr std::uint64_t kSeed = 20260104;
  INFO("seed " << kSeed);
  Samples samples(kSeed);
  for (int i = 0; i < 5'000; ++i) {
    INFO("case " << i);
    Bytes plan = EncodePlan(samples.AnyPlan()).value();
    Damage(plan, samples.stream());
    CheckOutcome(DecodePlan(plan));
    Bytes manifest = EncodeManifest(samples.AnyManifest());
    Damage(manifest, samples.stream());
    CheckOutcome(DecodeManifest(manifest));
    Bytes statement = EncodeKeyStatement(samples.AnyKeyStatement());
    Damage(statement, samples.stream());
    CheckOutcome(DecodeKeyStatement(statement));
  }
}

TEST_CASE("random bytes never crash a decoder", "[unit]") {
  constexpr std::uint64_t kSeed = 20260105;
  INFO("seed " << kSeed);
  Samples samples(kSeed);
  RandomStream& stream = samples.stream();
  for (int i = 0; i < 10'000; ++i) {
    Bytes bytes(stream.Below(64));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(stream.Word());
    const Message kind = samples.Any(stream.Below(kMessageKinds));
    const auto decoded = DecodeMessage(IdOf(kind), bytes);
    INFO("case " << i);
    if (decoded || decoded.error().code == 3204) continue;
    CheckOutcome(decoded);
  }
}

}  // namespace
}  // namespace skep::wire
