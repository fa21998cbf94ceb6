// Messages, manifests and plans to bytes and back.
//
// Encoding is canonical: the same value gives the same bytes, fields in ascending order. Decoding
// is the whole way from a peer's bytes to a value that a session may trust to be well formed:
// walker, protobuf, rules across fields. What a peer sent is hashed and verified as received, never
// after encoding it again.
//
// Called by sessions, engines and drivers of both sides. Pure functions, any thread.
// Source: Skep protocol 1.0, sections 4 and 5.
#pragma once

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace skep::wire {

// The payload of a frame, without its header (frame.h: EncodeFrame).
[[nodiscard]] Bytes EncodeMessage(const Message& message);
[[nodiscard]] Bytes EncodeManifest(const Manifest& manifest);
[[nodiscard]] Bytes EncodeSignedManifest(const SignedManifest& manifest);
[[nodiscard]] Bytes EncodeKeyStatement(const KeyStatement& statement);

// SKEP-5307 with its size if the plan is above 61,440 bytes or the walker would refuse it: found
// when a run starts, not by its devices.
[[nodiscard]] Result<Bytes> EncodePlan(const Plan& plan);

// SKEP-3203 for an id that no message has, SKEP-3204 for a payload above the limit of its message,
// else the first rule broken: SKEP-3206..3212.
[[nodiscard]] Result<Message> DecodeMessage(MessageId id, BytesView payload);
[[nodiscard]] Result<Manifest> DecodeManifest(BytesView payload);
[[nodiscard]] Result<SignedManifest> DecodeSignedManifest(BytesView payload);
[[nodiscard]] Result<KeyStatement> DecodeKeyStatement(BytesView payload);
[[nodiscard]] Result<Plan> DecodePlan(BytesView payload);

// What an Ed25519 key signs: a purpose, a zero byte, the payload as it travels.
[[nodiscard]] Bytes ManifestSignatureInput(BytesView payload);
[[nodiscard]] Bytes KeyStatementSignatureInput(BytesView payload);

}  // namespace skep::wire
