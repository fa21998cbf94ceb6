// A session machine with a peer that is a script: messages in, what the machine wants out, on a
// clock that the test moves.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aggregator/server/session_machine.h"
#include "shared/base/sha256.h"
#include "shared/wire/codec.h"
#include "tests/support/catch.h"

namespace skep::aggregator::test {

using State = SessionMachine::State;
using UploadRegion = SessionMachine::UploadRegion;
using DownloadRegion = SessionMachine::DownloadRegion;

constexpr std::uint32_t kChunk = 16 * 1024;

inline SessionRules TestRules() {
  SessionRules rules;
  rules.federation.bytes.fill(0x5f);
  rules.software = "skep-aggregator test";
  rules.signing_keys = {KeyId{}};
  rules.chunk_bytes = kChunk;
  rules.progress_every = std::uint64_t{2} * kChunk;
  rules.min_rate = 4096;
  rules.rate_window = std::chrono::seconds(30);
  rules.first_frame_deadline = std::chrono::seconds(10);
  rules.header_deadline = std::chrono::seconds(10);
  rules.ping_interval = std::chrono::seconds(30);
  rules.ping_deadline = std::chrono::seconds(30);
  rules.idle_limit = std::chrono::seconds(60);
  rules.max_hold = std::chrono::seconds(60);
  rules.progress_interval = std::chrono::seconds(15);
  return rules;
}

inline wire::TaskRef TaskOf(std::uint32_t round) {
  wire::TaskRef task;
  task.run_id.bytes.fill(0x11);
  task.round = round;
  task.attempt = 1;
  return task;
}

inline Hash32 HashOf(std::uint8_t byte) {
  Hash32 hash;
  hash.bytes.fill(byte);
  return hash;
}

inline wire::TaskOffer OfferOf(std::uint32_t round) {
  wire::Manifest manifest;
  manifest.federation_id.bytes.fill(0x5f);
  manifest.run_id = TaskOf(round).run_id;
  manifest.epoch = 1;
  manifest.round = round;
  manifest.attempt = 1;
  manifest.population = "pump";
  manifest.plan_sha256 = HashOf(0xAA);
  manifest.plan_bytes = 10;
  manifest.model_sha256 = HashOf(0xBB);
  manifest.model_bytes = 40;
  manifest.layout_sha256 = HashOf(0xCC);
  manifest.issued_at_ms = 1;
  manifest.expires_at_ms = 2;
  manifest.encodings = {wire::Encoding::kF32};
  manifest.max_weight = 10;
  wire::TaskOffer offer;
  offer.manifest.payload = wire::EncodeManifest(manifest);
  offer.offer_ttl_ms = 1000;
  offer.report_within_ms = 1000;
  return offer;
}

inline wire::UploadBegin BeginOf(std::uint32_t transfer_id, BytesView body) {
  wire::UploadBegin begin;
  begin.transfer_id = transfer_id;
  begin.update_id.bytes.fill(7);
  begin.task = TaskOf(1);
  begin.encoding = wire::Encoding::kF32;
  begin.size = body.size();
  begin.sha256 = Sha256::Of(body);
  begin.layout_sha256 = HashOf(0xCC);
  begin.model_sha256 = HashOf(0xBB);
  begin.weight = 3;
  return begin;
}

class Peer {
 public:
  Peer() : machine(9, rules, now) {}

  SessionOutputs Say(const wire::Message& message) {
    return machine.OnFrame(now, {.kind = wire::FrameKind::kControl,
                                 .id = wire::IdOf(message),
                                 .payload = wire::EncodeMessage(message),
                                 .charged = {}});
  }
  // A whole chunk frame as ChunkSender makes it, without the frame's header.
  SessionOutputs SayChunk(Bytes frame) {
    frame.erase(frame.begin(), frame.begin() + wire::kFrameHeaderBytes);
    return machine.OnFrame(
        now,
        {.kind = wire::FrameKind::kChunk, .id = {}, .payload = std::move(frame), .charged = {}});
  }
  void Pass(Nanoseconds span) {
    now.steady += span;
    now.wall += static_cast<WallMs>(std::chrono::duration_cast<Milliseconds>(span).count());
  }

  // Brings a fresh session to a state.
  void Join() {
    static_cast<void>(Say(wire::Hello{.major = 1, .software = "test"}));
    static_cast<void>(machine.Welcome(now, SessionId{}, {}));
    REQUIRE(machine.state() == State::kReady);
  }
  void Hold() {
    Join();
    static_cast<void>(Say(APoll()));
    REQUIRE(machine.state() == State::kHeld);
  }
  void Offer() {
    Hold();
    static_cast<void>(machine.OnEngine(now, Grant{9, HashOf(0xAA), HashOf(0xBB)}));
    static_cast<void>(machine.OnEngine(now, Send{9, OfferOf(1)}));
    REQUIRE(machine.state() == State::kOffered);
  }
  void Accept() {
    Offer();
    static_cast<void>(Say(wire::TaskAccept{.task = TaskOf(1)}));
    REQUIRE(machine.state() == State::kReady);
  }
  void BeginUpload(BytesView body) {
    Accept();
    static_cast<void>(Say(BeginOf(1, body)));
    REQUIRE(machine.upload() == UploadRegion::kDeciding);
  }
  void Receive(BytesView body) {
    BeginUpload(body);
    static_cast<void>(machine.OnEngine(now, AdmitUpload{9, 1, 77, BeginOf(1, body)}));
    REQUIRE(machine.upload() == UploadRegion::kReceiving);
  }

  static wire::Poll APoll() {
    wire::Poll poll;
    poll.population = "pump";
    poll.hold_ms = 1000;
    poll.max_model_bytes = 1000;
    poll.max_update_bytes = 1000;
    poll.encodings = {wire::Encoding::kF32};
    poll.task_kinds = {wire::TaskKind::kTrain};
    return poll;
  }

  SessionRules rules = TestRules();
  Now now{SteadyTime(std::chrono::hours(1)), 1'800'000'000'000};
  SessionMachine machine;
};

// The messages that were sent, in order.
inline std::vector<wire::Message> SentIn(const SessionOutputs& outputs) {
  std::vector<wire::Message> messages;
  for (const SessionOutput& output : outputs) {
    const auto* send = std::get_if<SendFrame>(&output);
    if (send == nullptr) continue;
    wire::CountingBudget budget(1 << 20);
    wire::FrameDecoder decoder(wire::Role::kClient, budget);
    BytesView input = send->frame;
    auto frame = decoder.Next(input);
    REQUIRE(frame.has_value());
    REQUIRE(frame->has_value());
    messages.push_back(wire::DecodeMessage((**frame).id, (**frame).payload).value());
  }
  return messages;
}

template <class T>
std::optional<T> FindIn(const SessionOutputs& outputs) {
  for (const SessionOutput& output : outputs) {
    if (const auto* found = std::get_if<T>(&output)) {
      if constexpr (std::is_copy_constructible_v<T>) return *found;
    }
  }
  return std::nullopt;
}

template <class T>
std::optional<T> FindMessage(const SessionOutputs& outputs) {
  for (const wire::Message& message : SentIn(outputs)) {
    if (const auto* found = std::get_if<T>(&message)) return *found;
  }
  return std::nullopt;
}

// The code that closed the session, if these outputs do; the Error sent must say the same, and the
// engine must have heard nothing.
inline int ClosedWith(const SessionOutputs& outputs) {
  int code = 0;
  for (const SessionOutput& output : outputs) {
    if (const auto* end = std::get_if<EndSession>(&output)) code = end->code;
    CHECK_FALSE(std::holds_alternative<TellEngine>(output));
    CHECK_FALSE(std::holds_alternative<OfferUpload>(output));
    CHECK_FALSE(std::holds_alternative<TakeBody>(output));
  }
  if (code == 0) return 0;
  const auto error = FindMessage<wire::PeerError>(outputs);
  REQUIRE(error);
  CHECK(error->code == static_cast<std::uint32_t>(code));
  return code;
}

// What the engine was told, of one kind.
template <class T>
std::optional<T> ToldIn(const SessionOutputs& outputs) {
  for (const SessionOutput& output : outputs) {
    const auto* tell = std::get_if<TellEngine>(&output);
    if (tell == nullptr) continue;
    if (const auto* input = std::get_if<T>(&tell->input)) return *input;
  }
  return std::nullopt;
}

// A body's chunks, as frames.
inline std::vector<Bytes> ChunksOf(std::uint32_t transfer_id, BytesView body) {
  wire::ChunkSender sender(
      {.id = transfer_id, .total = body.size(), .offset = 0, .chunk_bytes = kChunk});
  std::vector<Bytes> frames;
  while (!sender.is_done()) {
    frames.push_back(sender.NextFrame(body.subspan(sender.offset(), sender.NextLength())));
  }
  return frames;
}

}  // namespace skep::aggregator::test
