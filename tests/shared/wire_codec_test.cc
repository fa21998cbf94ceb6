#include <limits>

#include "shared/wire/codec.h"
#include "shared/wire/frame.h"
#include "shared/wire/preparse.h"
#include "tests/shared/wire_samples.h"
#include "tests/support/catch.h"

namespace skep::wire {
namespace {

using test::kMessageKinds;
using test::Samples;

TEST_CASE("Ping and Hello are the protocol's golden bytes", "[unit]") {
  CHECK(ToHex(EncodeFrame(Ping{.nonce = 0x0123456789abcdef})) ==
        "010001000900000009efcdab8967452301");
  const Hello hello{.major = 1,
                    .minor = 0,
                    .min_minor = 0,
                    .software = "skep-client 0.1.0",
                    .app_version = "2.4.1",
                    .clock_ms = 0,
                    .known_key_ids = {}};
  CHECK(ToHex(EncodeFrame(hello)) ==
        "010010001c00000008012211736b65702d636c69656e7420302e312e302a05322e342e31");
}

TEST_CASE("the golden payloads decode to what they say", "[unit]") {
  const auto ping = DecodeMessage(MessageId::kPing, *FromHex("09efcdab8967452301"));
  REQUIRE(ping.has_value());
  CHECK(std::get<Ping>(*ping).nonce == 0x0123456789abcdef);
  const auto hello = DecodeMessage(
      MessageId::kHello, *FromHex("08012211736b65702d636c69656e7420302e312e302a05322e342e31"));
  REQUIRE(hello.has_value());
  CHECK(std::get<Hello>(*hello).software == "skep-client 0.1.0");
  CHECK(std::get<Hello>(*hello).app_version == "2.4.1");
}

TEST_CASE("every message comes back as it was sent", "[unit]") {
  constexpr std::uint64_t kSeed = 20260101;
  INFO("seed " << kSeed);
  Samples samples(kSeed);
  for (int round = 0; round < 40; ++round) {
    for (std::size_t kind = 0; kind < kMessageKinds; ++kind) {
      const Message message = samples.Any(kind);
      INFO(MessageName(IdOf(message)) << ", round " << round);
      const Bytes payload = EncodeMessage(message);
      REQUIRE(payload.size() <= FindMessage(static_cast<std::uint16_t>(IdOf(message)))->max_bytes);
      const auto back = DecodeMessage(IdOf(message), payload);
      INFO((back ? "" : back.error().message));
      REQUIRE(back.has_value());
      REQUIRE(*back == message);
      REQUIRE(EncodeMessage(*back) == payload);
    }
  }
}

TEST_CASE("manifests, key statements and plans come back as they were made", "[unit]") {
  constexpr std::uint64_t kSeed = 20260102;
  INFO("seed " << kSeed);
  Samples samples(kSeed);
  for (int round = 0; round < 200; ++round) {
    const Manifest manifest = samples.AnyManifest();
    REQUIRE(DecodeManifest(EncodeManifest(manifest)).value() == manifest);
    const KeyStatement statement = samples.AnyKeyStatement();
    REQUIRE(DecodeKeyStatement(EncodeKeyStatement(statement)).value() == statement);
    const Plan plan = samples.AnyPlan();
    const auto bytes = EncodePlan(plan);
    INFO((bytes ? "" : bytes.error().message));
    REQUIRE(bytes.has_value());
    REQUIRE(DecodePlan(*bytes).value() == plan);
  }
}

TEST_CASE("a signed manifest comes back as it was signed", "[unit]") {
  SignedManifest manifest{.payload = {1, 2, 3}, .key_id = {}, .signature = {}};
  manifest.signature.bytes.fill(7);
  CHECK(DecodeSignedManifest(EncodeSignedManifest(manifest)).value() == manifest);
}

TEST_CASE("absent role and scale are averaged and 1", "[unit]") {
  const auto plan =
      DecodePlan(*FromHex("0801"
                          "12050a01771001"
                          "2a090801"
                          "12050a01781001"));
  REQUIRE(plan.has_value());
  CHECK(plan->layout[0].role == TensorRole::kAveraged);
  CHECK(plan->data->features[0].scale == 1);
}

TEST_CASE("a metric may be sent that is not a number", "[unit]") {
  Samples samples(3);
  auto begin = std::get<UploadBegin>(samples.Any(18));
  begin.metrics = {{.id = 1, .value = std::numeric_limits<double>::infinity()}};
  CHECK(DecodeMessage(MessageId::kUploadBegin, EncodeMessage(begin)).has_value());
}

TEST_CASE("a window that ends before it begins is refused wherever it stands", "[unit]") {
  const ComeBack wrong{.earliest_ms = 5, .latest_ms = 4, .reason = ComeBackReason::kPacing};
  const TaskRef task{.run_id = {}, .round = 1, .attempt = 1, .kind = TaskKind::kTrain};
  const std::vector<Message> messages{
      wrong,
      Goodbye{.reason = GoodbyeReason::kDone, .come_back = wrong},
      RoundClosed{.task = task, .reason = RoundClosedReason::kDeadline, .come_back = wrong},
      UpdateAck{.update_id = {},
                .sha256 = {},
                .seq = 1,
                .disposition = Disposition::kAccepted,
                .come_back = wrong},
      UpdateRefused{.update_id = {},
                    .code = 2101,
                    .come_back = wrong,
                    .transfer_id = 1,
                    .retry = RetryClass::kNever,
                    .retry_after_ms = 0},
  };
  for (const Message& message : messages) {
    INFO(MessageName(IdOf(message)));
    const auto decoded = DecodeMessage(IdOf(message), EncodeMessage(message));
    REQUIRE_FALSE(decoded.has_value());
    CHECK(decoded.error().code == 3208);
  }
}

Plan PlanOf(std::vector<TensorSpec> layout) {
  Plan plan;
  plan.layout = std::move(layout);
  return plan;
}

TEST_CASE("a plan with a tensor named twice is refused", "[unit]") {
  const auto bytes = EncodePlan(PlanOf({{.name = "w"}, {.name = "w"}}));
  REQUIRE_FALSE(bytes.has_value());
  CHECK(bytes.error().code == 5307);
  const auto decoded =
      DecodePlan(*FromHex("0801"
                          "12050a01771001"
                          "12050a01771001"));
  REQUIRE_FALSE(decoded.has_value());
  CHECK(decoded.error().code == 3208);
}

TEST_CASE("a plan whose sizes overflow 64 bits is refused", "[unit]") {
  // 2^16 four times: the product is 2^64, which would read 0.
  const auto bytes =
      EncodePlan(PlanOf({{.name = "w", .shape = {1U << 16, 1U << 16, 1U << 16, 1U << 16}}}));
  REQUIRE_FALSE(bytes.has_value());
  CHECK(bytes.error().code == 5307);
}

TEST_CASE("a manifest of an evaluation lists encoding 0 alone", "[unit]") {
  Samples samples(4);
  Manifest manifest = samples.AnyManifest();
  manifest.encodings = {Encoding::kNone};
  CHECK(DecodeManifest(EncodeManifest(manifest)).value() == manifest);
  manifest.encodings.clear();
  CHECK(DecodeManifest(EncodeManifest(manifest)).error().code == 3212);
}

TEST_CASE("a plan of 2^34 values is the largest", "[unit]") {
  CHECK(EncodePlan(PlanOf({{.name = "w", .shape = {1U << 17, 1U << 17}}})).has_value());
  const auto one_more =
      EncodePlan(PlanOf({{.name = "w", .shape = {1U << 17, 1U << 17}}, {.name = "b"}}));
  REQUIRE_FALSE(one_more.has_value());
  CHECK(one_more.error().code == 5307);
}

TEST_CASE("a plan above 61,440 bytes is refused with its size", "[unit]") {
  Plan plan = PlanOf({{.name = "w"}});
  for (int i = 0; i < 240; ++i)
    plan.params.push_back({.key = "k" + std::to_string(i), .text = std::string(256, 'x')});
  const auto bytes = EncodePlan(plan);
  REQUIRE_FALSE(bytes.has_value());
  CHECK(bytes.error().code == 5307);
  CHECK(bytes.error().message.find("at most 61440") != std::string::npos);
  CHECK(DecodePlan(Bytes(kMaxPlanBytes + 1)).error().code == 3210);
}

TEST_CASE("a payload of an unknown id or above its limit is refused by number", "[unit]") {
  CHECK(DecodeMessage(MessageId{0x0050}, {}).error().code == 3203);
  CHECK(DecodeMessage(MessageId::kPing, Bytes(17)).error().code == 3204);
}

TEST_CASE("a signature covers its purpose, a zero byte and the payload", "[unit]") {
  const Bytes payload{0xAA};
  CHECK(ToHex(ManifestSignatureInput(payload)) == ToHex(AsBytes("skep/1 manifest")) + "00aa");
  CHECK(ToHex(KeyStatementSignatureInput(payload)) == ToHex(AsBytes("skep/1 key")) + "00aa");
}

}  // namespace
}  // namespace skep::wire
