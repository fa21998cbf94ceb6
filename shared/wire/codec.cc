#include "shared/wire/codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message_lite.h>

#include <limits>
#include <unordered_set>

#include "shared/base/check.h"
#include "shared/base/try.h"
#include "shared/wire/convert.h"
#include "shared/wire/preparse.h"

namespace skep::wire {
namespace {

constexpr int kParserRecursion = 16;
constexpr std::uint64_t kMaxLayoutValues = std::uint64_t{1} << 34;

Error OutOfRange(std::string what) {
  return Error{3208, std::move(what), ""};
}

// Rules across fields, judged on the value. A type without such rules takes the first.
template <class T>
Status CheckFields(const T& /*value*/) {
  return Ok();
}

Status CheckFields(const ComeBack& come_back) {
  if (come_back.earliest_ms > come_back.latest_ms)
    return OutOfRange("ComeBack: earliest_ms is after latest_ms");
  return Ok();
}
Status CheckFields(const std::optional<ComeBack>& come_back) {
  return come_back ? CheckFields(*come_back) : Ok();
}
Status CheckFields(const Goodbye& message) {
  return CheckFields(message.come_back);
}
Status CheckFields(const RoundClosed& message) {
  return CheckFields(message.come_back);
}
Status CheckFields(const UpdateAck& message) {
  return CheckFields(message.come_back);
}
Status CheckFields(const UpdateRefused& message) {
  return CheckFields(message.come_back);
}

Status CheckFields(const Plan& plan) {
  std::unordered_set<std::string_view> names;
  std::uint64_t total = 0;
  for (const TensorSpec& tensor : plan.layout) {
    if (!names.insert(tensor.name).second) return OutOfRange("Plan.layout: a name comes twice");
    std::uint64_t values = 1;
    for (const std::uint32_t dimension : tensor.shape) {
      if (dimension > kMaxLayoutValues / values) return OutOfRange("Plan.layout: too many values");
      values *= dimension;
    }
    total += values;  // at most 1,024 x 2^34
    if (total > kMaxLayoutValues) return OutOfRange("Plan.layout: too many values");
  }
  return Ok();
}

template <class T>
Result<T> Decode(const MessageRule& rule, BytesView payload) {
  SKEP_TRY(Walk(rule, payload));
  T value;
  if (!Parse(payload, value))
    return Error{3206, std::string(rule.name) + ": the parser refuses it", ""};
  SKEP_TRY(CheckFields(value));
  return value;
}

template <std::size_t kAlternative = 0>
Result<Message> DecodeAlternative(MessageId id, BytesView payload) {
  if constexpr (kAlternative < std::variant_size_v<Message>) {
    using T = std::variant_alternative_t<kAlternative, Message>;
    if (T::kId != id) return DecodeAlternative<kAlternative + 1>(id, payload);
    SKEP_ASSIGN(T value, Decode<T>(*RuleOf(id), payload));
    return Message(std::move(value));
  } else {
    return Error{3203, "no message has this id", ""};
  }
}

Bytes SignatureInput(std::string_view purpose, BytesView payload) {
  Bytes input;
  input.reserve(purpose.size() + 1 + payload.size());
  Append(input, AsBytes(purpose));
  input.push_back(0);
  Append(input, payload);
  return input;
}

Status CheckSize(BytesView payload, std::size_t limit, const char* what) {
  if (payload.size() <= limit) return Ok();
  return Error{3210, std::string(what) + ": longer than its limit", ""};
}

}  // namespace

Bytes SerializeProto(const google::protobuf::MessageLite& proto) {
  Bytes bytes(proto.ByteSizeLong());
  SKEP_CHECK(bytes.size() <= std::numeric_limits<int>::max());
  SKEP_CHECK(proto.SerializeToArray(bytes.data(), static_cast<int>(bytes.size())));
  return bytes;
}

bool ParseProto(BytesView payload, google::protobuf::MessageLite& proto) {
  google::protobuf::io::CodedInputStream stream(payload.data(), static_cast<int>(payload.size()));
  stream.SetRecursionLimit(kParserRecursion);
  return proto.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

Bytes EncodeMessage(const Message& message) {
  return std::visit([](const auto& value) { return Serialize(value); }, message);
}

Bytes EncodeManifest(const Manifest& manifest) {
  return Serialize(manifest);
}
Bytes EncodeSignedManifest(const SignedManifest& manifest) {
  return Serialize(manifest);
}
Bytes EncodeKeyStatement(const KeyStatement& statement) {
  return Serialize(statement);
}

Result<Bytes> EncodePlan(const Plan& plan) {
  Bytes bytes = Serialize(plan);
  const std::string size = "the plan has " + std::to_string(bytes.size()) + " bytes";
  if (bytes.size() > kMaxPlanBytes) {
    return Error{5307, size + "; at most " + std::to_string(kMaxPlanBytes),
                 "shorten names of tensors, columns, categories and classes, or use fewer of them"};
  }
  if (auto walked = Decode<Plan>(kPlanRule, bytes); !walked)
    return Error{5307, size + " and breaks a limit: " + walked.error().message, ""};
  return bytes;
}

Result<Message> DecodeMessage(MessageId id, BytesView payload) {
  const MessageInfo* info = FindMessage(static_cast<std::uint16_t>(id));
  if (info != nullptr && payload.size() > info->max_bytes)
    return Error{3204, std::string(info->name) + ": above the limit of its message", ""};
  return DecodeAlternative(id, payload);
}

Result<Manifest> DecodeManifest(BytesView payload) {
  SKEP_TRY(CheckSize(payload, kMaxManifestBytes, "Manifest"));
  return Decode<Manifest>(kManifestRule, payload);
}

Result<SignedManifest> DecodeSignedManifest(BytesView payload) {
  SKEP_TRY(CheckSize(payload, kMaxControlBytes, "SignedManifest"));
  return Decode<SignedManifest>(kSignedManifestRule, payload);
}

Result<KeyStatement> DecodeKeyStatement(BytesView payload) {
  SKEP_TRY(CheckSize(payload, kMaxKeyStatementBytes, "KeyStatement"));
  return Decode<KeyStatement>(kKeyStatementRule, payload);
}

Result<Plan> DecodePlan(BytesView payload) {
  SKEP_TRY(CheckSize(payload, kMaxPlanBytes, "Plan"));
  return Decode<Plan>(kPlanRule, payload);
}

Bytes ManifestSignatureInput(BytesView payload) {
  return SignatureInput("skep/1 manifest", payload);
}
Bytes KeyStatementSignatureInput(BytesView payload) {
  return SignatureInput("skep/1 key", payload);
}

}  // namespace skep::wire
