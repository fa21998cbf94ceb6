// Inside the codec: plain structs to and from generated protobuf classes.
//
// Only the codec's own files include this. Generated headers are included in .cc files alone; here
// they are names. Each convert_*.cc ties the structs that it knows to their generated classes.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"
#include "shared/wire/messages.h"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace skep::wire {

namespace v1 {
class ComeBack;
class SignedManifest;
class TaskRef;
}  // namespace v1

// Defined where a struct is tied to its class. The bytes are canonical: fields in ascending order,
// each once. Parse: false if protobuf refuses the bytes, which the walker must have accepted.
template <class T>
[[nodiscard]] Bytes Serialize(const T& value);
template <class T>
[[nodiscard]] bool Parse(BytesView payload, T& value);

[[nodiscard]] Bytes SerializeProto(const google::protobuf::MessageLite& proto);
[[nodiscard]] bool ParseProto(BytesView payload, google::protobuf::MessageLite& proto);

// Parts that several messages hold.
void ToProto(const TaskRef& from, v1::TaskRef& to);
void FromProto(const v1::TaskRef& from, TaskRef& to);
void ToProto(const SignedManifest& from, v1::SignedManifest& to);
void FromProto(const v1::SignedManifest& from, SignedManifest& to);
void ToProto(const ComeBack& from, v1::ComeBack& to);
void FromProto(const v1::ComeBack& from, ComeBack& to);

template <std::size_t kSize, class Tag>
std::string Raw(const FixedBytes<kSize, Tag>& id) {
  return std::string(AsText(id.view()));
}
inline std::string Raw(const Bytes& bytes) {
  return std::string(AsText(bytes));
}

// Precondition, kept by the walker: `from` has kSize bytes or none.
template <std::size_t kSize, class Tag>
void Take(const std::string& from, FixedBytes<kSize, Tag>& to) {
  std::copy_n(from.begin(), std::min(from.size(), kSize), to.bytes.begin());
}
inline void Take(const std::string& from, Bytes& to) {
  to.assign(from.begin(), from.end());
}

// Lists of ids or of byte strings.
template <class List, class ProtoList>
void AddRaw(const List& from, ProtoList* to) {
  for (const auto& element : from) *to->Add() = Raw(element);
}
template <class List, class ProtoList>
void TakeAll(const ProtoList& from, List& to) {
  to.resize(static_cast<std::size_t>(from.size()));
  for (std::size_t i = 0; i < to.size(); ++i) Take(from[static_cast<int>(i)], to[i]);
}

template <class E>
constexpr std::uint32_t Number(E value) {
  static_assert(std::is_same_v<std::underlying_type_t<E>, std::uint32_t>);
  return static_cast<std::uint32_t>(value);
}

}  // namespace skep::wire

// Defines Serialize and Parse of `Struct` by the ToProto and FromProto in scope.
#define SKEP_WIRE_TIE(Struct, Class)                      \
  template <>                                             \
  Bytes Serialize<Struct>(const Struct& value) {          \
    Class proto;                                          \
    ToProto(value, proto);                                \
    return SerializeProto(proto);                         \
  }                                                       \
  template <>                                             \
  bool Parse<Struct>(BytesView payload, Struct & value) { \
    Class proto;                                          \
    if (!ParseProto(payload, proto)) return false;        \
    FromProto(proto, value);                              \
    return true;                                          \
  }
