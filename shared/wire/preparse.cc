#include "shared/wire/preparse.h"

#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "shared/base/try.h"
#include "shared/wire/text.h"

namespace skep::wire {
namespace {

constexpr int kMalformed = 3206;
constexpr int kUnknownField = 3207;
constexpr int kOutOfRange = 3208;
constexpr int kTooMany = 3209;
constexpr int kNotAcceptable = 3210;
constexpr int kTooDeep = 3211;
constexpr int kMissing = 3212;

enum class WireType : std::uint8_t {
  kVarint = 0,
  k64Bit = 1,
  kLength = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  k32Bit = 5
};

WireType WireTypeOf(FieldType type) {
  switch (type) {
    case FieldType::kU32:
    case FieldType::kCount:
    case FieldType::kEnum:
    case FieldType::kU64:
    case FieldType::kBool:
      return WireType::kVarint;
    case FieldType::kFixed64:
    case FieldType::kDouble:
    case FieldType::kAnyDouble:
      return WireType::k64Bit;
    default:
      return WireType::kLength;
  }
}

// Whether a varint is a value of the field. A u32 is judged as sent: protobuf would cut it to 32
// bits and go on.
bool IsInRange(const FieldRule& field, std::uint64_t value) {
  switch (field.type) {
    case FieldType::kBool:
      return value <= 1;
    case FieldType::kU64:
      return true;
    case FieldType::kCount:
      return value >= 1 && value <= 0xFFFFFFFFU;
    default:
      return value <= field.limit;
  }
}

std::uint32_t LongestOf(const FieldRule& field) {
  switch (field.type) {
    case FieldType::kName:
    case FieldType::kKey:
    case FieldType::kLabel:
      return 64;
    default:
      return field.limit;
  }
}

bool IsInCharacterSet(FieldType type, std::string_view text) {
  switch (type) {
    case FieldType::kName:
      return IsName(text);
    case FieldType::kKey:
      return IsKey(text);
    case FieldType::kLabel:
      return IsLabelText(text);
    case FieldType::kText:
      return IsText(text);
    default:
      return true;
  }
}

// One walk over one payload. A member that returns Status has judged what it took from the front.
class Walker {
 public:
  explicit Walker(BytesView payload) : bytes_(payload) {}

  Status Run(const MessageRule& rule) {
    Enter(rule, bytes_.size());
    while (depth_ > 0) {
      if (at_ == top().end) {
        SKEP_TRY(JudgeMissing());
        --depth_;
      } else {
        SKEP_TRY(TakeField());
      }
    }
    return Ok();
  }

 private:
  struct Level {
    const MessageRule* rule = nullptr;
    std::size_t end = 0;
    std::uint32_t present = 0;  // bit n: field n has a value that counts
    std::array<std::uint16_t, kMaxFieldNumber + 1> seen{};
  };

  Level& top() { return levels_[depth_ - 1]; }

  void Enter(const MessageRule& rule, std::size_t end) {
    levels_[depth_++] = Level{.rule = &rule, .end = end, .present = 0, .seen = {}};
  }

  [[nodiscard]] Error Refuse(int code, const FieldRule* field, const char* what) {
    std::string place(top().rule->name);
    if (field != nullptr) place.append(".").append(field->name);
    return Error{code, place + ": " + what, ""};
  }

  // At most `longest` bytes; nothing if it does not end within them, within the message, or within
  // 64 bits.
  std::optional<std::uint64_t> TakeVarint(std::size_t longest) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < longest && at_ < top().end; ++i) {
      const std::uint64_t byte = bytes_[at_++];
      if (i == 9 && byte > 1) return std::nullopt;
      value |= (byte & 0x7FU) << (7 * i);
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  Result<std::size_t> TakeLength(const FieldRule* field) {
    const std::optional<std::uint64_t> length = TakeVarint(5);
    if (!length) return Refuse(kMalformed, field, "length is not a number");
    if (*length > top().end - at_)
      return Refuse(kMalformed, field, "length passes the end of the message");
    return static_cast<std::size_t>(*length);
  }

  Status TakeField() {
    const std::size_t start = at_;
    const std::optional<std::uint64_t> tag = TakeVarint(5);
    if (!tag || *tag > 0xFFFFFFFFU) return Refuse(kMalformed, nullptr, "tag is not a number");
    const auto type = static_cast<WireType>(*tag & 7U);
    const auto number = static_cast<std::uint32_t>(*tag >> 3);
    if (number == 0) return Refuse(kMalformed, nullptr, "field number 0");
    if (type == WireType::kStartGroup || type == WireType::kEndGroup || type > WireType::k32Bit)
      return Refuse(kMalformed, nullptr, "wire type is not allowed");
    if (++fields_ > kMaxFields) return Refuse(kTooDeep, nullptr, "too many fields");

    const MessageRule& rule = *top().rule;
    if (number > rule.fields.size()) return TakeUnknown(start, type);
    const FieldRule& field = rule.fields[number - 1];
    if (type == WireType::kLength && field.is_list && WireTypeOf(field.type) == WireType::kVarint) {
      return TakePackedRun(field);
    }
    if (type != WireTypeOf(field.type)) return Refuse(kMalformed, &field, "another wire type");
    SKEP_TRY(CountOccurrence(field));
    switch (type) {
      case WireType::kVarint:
        return TakeNumber(field);
      case WireType::k64Bit:
        return TakeEightBytes(field);
      default:
        return TakeDelimited(field);
    }
  }

  Status CountOccurrence(const FieldRule& field) {
    std::uint16_t& seen = top().seen[field.number];
    if (seen == field.most)
      return Refuse(kTooMany, &field, field.is_list ? "too many elements" : "field came twice");
    ++seen;
    return Ok();
  }

  void Present(const FieldRule& field, bool counts) {
    if (counts || field.is_list) top().present |= 1U << field.number;
  }

  Status TakePackedRun(const FieldRule& field) {
    SKEP_ASSIGN(const std::size_t length, TakeLength(&field));
    // The run is judged as a message of its own would be: no number may pass its end.
    const std::size_t outer_end = top().end;
    top().end = at_ + length;
    while (at_ < top().end) {
      SKEP_TRY(CountOccurrence(field));
      SKEP_TRY(TakeNumber(field));
    }
    top().end = outer_end;
    return Ok();
  }

  Status TakeNumber(const FieldRule& field) {
    const std::optional<std::uint64_t> value = TakeVarint(10);
    if (!value) return Refuse(kMalformed, &field, "value is not a number");
    if (!IsInRange(field, *value)) return Refuse(kOutOfRange, &field, "value out of range");
    Present(field, *value != 0);
    return Ok();
  }

  Status TakeEightBytes(const FieldRule& field) {
    if (top().end - at_ < 8) return Refuse(kMalformed, &field, "value passes the end");
    const auto bits = LoadLittle<std::uint64_t>(bytes_.data() + at_);
    at_ += 8;
    if (field.type == FieldType::kDouble && !std::isfinite(std::bit_cast<double>(bits)))
      return Refuse(kOutOfRange, &field, "value is not finite");
    Present(field, bits != 0);
    return Ok();
  }

  Status TakeDelimited(const FieldRule& field) {
    SKEP_ASSIGN(const std::size_t length, TakeLength(&field));
    Present(field, length != 0 || field.type == FieldType::kMessage);
    if (field.type == FieldType::kMessage) {
      if (depth_ == kMaxDepth) return Refuse(kTooDeep, &field, "nested too deep");
      Enter(*field.message, at_ + length);
      return Ok();
    }
    if (field.type == FieldType::kFixedBytes) {
      if (length != field.limit) return Refuse(kOutOfRange, &field, "bytes of another length");
    } else if (length > LongestOf(field)) {
      return Refuse(kNotAcceptable, &field, "longer than its limit");
    }
    const BytesView content = bytes_.subspan(at_, length);
    at_ += length;
    // An explicit empty value of a singular field is that field's absence; in a list it is an
    // element that says nothing.
    if (length == 0 && !field.is_list) return Ok();
    if (length == 0 || !IsInCharacterSet(field.type, AsText(content)))
      return Refuse(kNotAcceptable, &field, "content is not acceptable");
    return Ok();
  }

  Status TakeUnknown(std::size_t start, WireType type) {
    if (!top().rule->skips_unknown || ++unknown_fields_ > kMaxUnknownFields)
      return Refuse(kUnknownField, nullptr, "unknown field");
    switch (type) {
      case WireType::kVarint:
        if (!TakeVarint(10)) return Refuse(kMalformed, nullptr, "value is not a number");
        break;
      case WireType::kLength: {
        SKEP_ASSIGN(const std::size_t length, TakeLength(nullptr));
        at_ += length;
        break;
      }
      default: {
        const std::size_t size = type == WireType::k64Bit ? 8 : 4;
        if (top().end - at_ < size) return Refuse(kMalformed, nullptr, "value passes the end");
        at_ += size;
      }
    }
    unknown_bytes_ += at_ - start;
    if (unknown_bytes_ > kMaxUnknownBytes)
      return Refuse(kUnknownField, nullptr, "too many bytes in unknown fields");
    return Ok();
  }

  Status JudgeMissing() {
    for (const FieldRule& field : top().rule->fields) {
      if (field.is_required && (top().present & (1U << field.number)) == 0)
        return Refuse(kMissing, &field, "required and missing");
    }
    return Ok();
  }

  BytesView bytes_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::array<Level, kMaxDepth> levels_{};
  std::uint32_t fields_ = 0;
  std::uint32_t unknown_fields_ = 0;
  std::size_t unknown_bytes_ = 0;
};

}  // namespace

Status Walk(const MessageRule& rule, BytesView payload) {
  return Walker(payload).Run(rule);
}

}  // namespace skep::wire
