// The walker: judges the bytes of a control payload before protobuf sees them.
//
// protobuf alone is too kind to a peer: empty sub-messages cost it 48 times their wire bytes, it
// truncates numbers, merges fields that come twice and keeps unknown ones. The walker refuses all
// of that from the bytes, without allocation (a stack of four levels), driven by a constexpr table.
// It does not judge rules across fields; codec.h does, after the parse.
//
// Called by codec.h only, and by tests with tables of their own. Pure functions, any thread.
// Source: Skep protocol 1.0, section 5.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace skep::wire {

inline constexpr std::size_t kMaxDepth = 4;              // the payload itself is 1
inline constexpr std::uint32_t kMaxFields = 16'384;      // in one payload, all levels together
inline constexpr std::uint32_t kMaxFieldNumber = 23;     // of the tables, not of the wire
inline constexpr std::uint32_t kMaxUnknownFields = 16;   // where unknown fields are allowed at all
inline constexpr std::uint32_t kMaxUnknownBytes = 1024;  // of them all, tags included

enum class FieldType : std::uint8_t {
  kU32,    // 0..limit
  kCount,  // u32, any value but 0
  kEnum,   // u32, 1..limit; an explicit 0 counts as absent
  kU64,
  kBool,
  kFixed64,
  kDouble,  // finite
  kAnyDouble,
  kFixedBytes,  // exactly `limit` bytes
  kBytes,       // at most `limit` bytes
  kName,
  kKey,
  kText,  // at most `limit` bytes
  kLabel,
  kMessage,
};

struct MessageRule;

struct FieldRule {
  std::uint32_t number = 0;
  std::string_view name;
  FieldType type = FieldType::kU32;
  std::uint32_t limit = 0;
  std::uint32_t most = 1;  // occurrences; of a list, elements
  bool is_list = false;
  bool is_required = false;
  const MessageRule* message = nullptr;  // kMessage
};

struct MessageRule {
  std::string_view name;
  std::span<const FieldRule> fields;  // field i has number i + 1
  bool skips_unknown = false;         // a few unknown fields are ignored: the opening messages
};

// The code of the first rule that `payload` breaks, in wire order: 3206..3212.
[[nodiscard]] Status Walk(const MessageRule& rule, BytesView payload);

// The table. Null if there is no such message.
[[nodiscard]] const MessageRule* RuleOf(MessageId id);
extern const MessageRule kSignedManifestRule;
extern const MessageRule kManifestRule;
extern const MessageRule kPlanRule;
extern const MessageRule kKeyStatementRule;

}  // namespace skep::wire
