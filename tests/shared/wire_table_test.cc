// The walker's table against what protoc says about the schema. This test alone links the full
// protobuf runtime: the product's has no descriptors.
#include <google/protobuf/descriptor.pb.h>

#include <fstream>
#include <map>
#include <set>

#include "shared/wire/preparse.h"
#include "tests/support/catch.h"

namespace skep::wire {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;

FileDescriptorSet ReadSchema() {
  FileDescriptorSet set;
  std::ifstream file(SKEP_WIRE_DESCRIPTORS, std::ios::binary);
  REQUIRE(set.ParseFromIstream(&file));
  return set;
}

std::map<std::string, DescriptorProto> Messages(const FileDescriptorSet& set) {
  std::map<std::string, DescriptorProto> messages;
  for (const FileDescriptorProto& file : set.file())
    for (const DescriptorProto& message : file.message_type()) messages[message.name()] = message;
  return messages;
}

// Every rule that a payload can reach, by name.
void Collect(const MessageRule& rule, std::map<std::string, const MessageRule*>& rules) {
  rules[std::string(rule.name)] = &rule;
  for (const FieldRule& field : rule.fields)
    if (field.message != nullptr) Collect(*field.message, rules);
}

std::map<std::string, const MessageRule*> Rules() {
  std::map<std::string, const MessageRule*> rules;
  for (unsigned id = 0; id <= 0xFFFF; ++id)
    if (const MessageRule* rule = RuleOf(static_cast<MessageId>(id))) Collect(*rule, rules);
  Collect(kSignedManifestRule, rules);
  Collect(kManifestRule, rules);
  Collect(kPlanRule, rules);
  Collect(kKeyStatementRule, rules);
  return rules;
}

FieldDescriptorProto::Type ProtoTypeOf(FieldType type) {
  switch (type) {
    case FieldType::kU32:
    case FieldType::kCount:
    case FieldType::kEnum:
      return FieldDescriptorProto::TYPE_UINT32;
    case FieldType::kU64:
      return FieldDescriptorProto::TYPE_UINT64;
    case FieldType::kBool:
      return FieldDescriptorProto::TYPE_BOOL;
    case FieldType::kFixed64:
      return FieldDescriptorProto::TYPE_FIXED64;
    case FieldType::kDouble:
    case FieldType::kAnyDouble:
      return FieldDescriptorProto::TYPE_DOUBLE;
    case FieldType::kFixedBytes:
    case FieldType::kBytes:
      return FieldDescriptorProto::TYPE_BYTES;
    case FieldType::kMessage:
      return FieldDescriptorProto::TYPE_MESSAGE;
    default:
      return FieldDescriptorProto::TYPE_STRING;
  }
}

void CheckField(const FieldRule& rule, const FieldDescriptorProto& field) {
  INFO("field " << field.name());
  CHECK(rule.name == field.name());
  CHECK(static_cast<int>(rule.number) == field.number());
  CHECK(ProtoTypeOf(rule.type) == field.type());
  CHECK(rule.is_list == (field.label() == FieldDescriptorProto::LABEL_REPEATED));
  CHECK((rule.is_list || rule.most == 1));
  if (rule.message != nullptr)
    CHECK(field.type_name() == ".skep.wire.v1." + std::string(rule.message->name));
}

TEST_CASE("the walker's table is the schema, field by field", "[unit]") {
  const FileDescriptorSet set = ReadSchema();
  const auto messages = Messages(set);
  const auto rules = Rules();
  REQUIRE(messages.size() == rules.size());
  for (const auto& [name, message] : messages) {
    INFO("message " << name);
    const auto rule = rules.find(name);
    REQUIRE(rule != rules.end());
    const auto& fields = rule->second->fields;
    REQUIRE(fields.size() == static_cast<std::size_t>(message.field_size()));
    REQUIRE(fields.size() <= kMaxFieldNumber);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      CHECK(fields[i].number == i + 1);
      CheckField(fields[i], message.field(static_cast<int>(i)));
    }
  }
}

TEST_CASE("the schema has none of what the protocol forbids", "[unit]") {
  const FileDescriptorSet set = ReadSchema();
  for (const FileDescriptorProto& file : set.file()) {
    CHECK(file.syntax() == "proto3");
    CHECK(file.package() == "skep.wire.v1");
    CHECK(file.options().optimize_for() == google::protobuf::FileOptions::LITE_RUNTIME);
    CHECK(file.extension_size() == 0);
    CHECK(file.dependency_size() == 0);  // no Any
    for (const DescriptorProto& message : file.message_type()) {
      INFO("message " << message.name());
      CHECK(message.nested_type_size() == 0);  // no maps
      CHECK(message.extension_range_size() == 0);
      CHECK(message.oneof_decl_size() == 0);
      for (const FieldDescriptorProto& field : message.field())
        CHECK(field.type() != FieldDescriptorProto::TYPE_GROUP);
    }
  }
}

TEST_CASE("every message id has a rule of its name, and no other id has one", "[unit]") {
  for (unsigned id = 0; id <= 0xFFFF; ++id) {
    const MessageInfo* info = FindMessage(static_cast<std::uint16_t>(id));
    const MessageRule* rule = RuleOf(static_cast<MessageId>(id));
    INFO("id " << id);
    REQUIRE((info != nullptr) == (rule != nullptr));
    if (info != nullptr) CHECK(info->name == rule->name);
  }
}

TEST_CASE("no table of the protocol is deeper than the walker's stack", "[unit]") {
  struct Depth {
    static std::size_t Of(const MessageRule& rule) {
      std::size_t deepest = 0;
      for (const FieldRule& field : rule.fields)
        if (field.message != nullptr) deepest = std::max(deepest, Of(*field.message));
      return deepest + 1;
    }
  };
  for (const auto& [name, rule] : Rules()) {
    INFO("message " << name);
    CHECK(Depth::Of(*rule) <= kMaxDepth);
  }
}

// The limits of section 4 of the protocol, written out a second time: name, elements, limit.
TEST_CASE("lists and byte strings have the limits of the protocol", "[unit]") {
  const auto rules = Rules();
  const auto field = [&rules](const std::string& message, std::uint32_t number) {
    return rules.at(message)->fields[number - 1];
  };
  CHECK(field("Error", 5).limit == 200);
  CHECK(field("Hello", 4).limit == 64);
  CHECK(field("Hello", 5).limit == 32);
  CHECK(field("Hello", 7).most == 4);
  CHECK(field("HelloAck", 12).most == 4);
  CHECK(field("Poll", 5).most == 16);
  CHECK(field("Poll", 6).most == 8);
  CHECK(field("PlanReply", 2).limit == 61'440);
  CHECK(field("UploadBegin", 10).most == 32);
  CHECK(field("RenewRequest", 1).limit == 2'048);
  CHECK(field("RenewResult", 1).limit == 4'096);
  CHECK(field("RenewResult", 2).most == 2);
  CHECK(field("SigningKeyUpdate", 1).limit == 512);
  CHECK(field("SignedManifest", 1).limit == 2'048);
  CHECK(field("EnrolResult", 4).most == 2);
  CHECK(field("EnrolResult", 5).most == 4);
  CHECK(field("EnrolResult", 6).limit == 255);
  CHECK(field("EnrolResult", 8).most == 16);
  CHECK(field("Manifest", 16).most == 8);
  CHECK(field("Plan", 2).most == 1'024);
  CHECK(field("Plan", 3).most == 1'024);
  CHECK(field("Plan", 4).most == 32);
  CHECK(field("TensorSpec", 3).most == 8);
  CHECK(field("Param", 3).limit == 256);
  CHECK(field("DataSpec", 2).most == 4'096);
  CHECK(field("DataSpec", 3).most == 4'096);
  CHECK(field("Feature", 5).most == 1'000);
}

TEST_CASE("only the opening messages skip unknown fields", "[unit]") {
  std::set<std::string> skipping;
  for (const auto& [name, rule] : Rules())
    if (rule->skips_unknown) skipping.insert(name);
  CHECK(skipping == std::set<std::string>{"EnrolRequest", "Hello", "HelloAck"});
}

}  // namespace
}  // namespace skep::wire
