#include <cstring>

#include "shared/base/sha256.h"
#include "shared/model/safetensors.h"
#include "tests/support/catch.h"

namespace skep::model {
namespace {

FileTensor Floats(std::string name, std::vector<std::uint64_t> shape, std::vector<float> values) {
  const BytesView bytes = AsBytes(std::span<const float>(values));
  return {.name = std::move(name),
          .dtype = FileType::kF32,
          .shape = std::move(shape),
          .bytes = Bytes(bytes.begin(), bytes.end())};
}

TensorFile Sample() {
  return {.metadata = {}, .tensors = {Floats("w", {1, 2}, {3, 4}), Floats("b", {2}, {1, 2})}};
}

// A file of this header, unpadded, and `buffer` zero bytes.
Bytes FileOf(const std::string& header, std::size_t buffer = 0) {
  Bytes bytes;
  AppendLittle(bytes, std::uint64_t{header.size()});
  Append(bytes, AsBytes(header));
  bytes.resize(bytes.size() + buffer);
  return bytes;
}

std::string RefusalOf(BytesView bytes) {
  const auto file = DecodeTensorFile(bytes);
  REQUIRE_FALSE(file.has_value());
  REQUIRE(file.error().code == 1302);
  return file.error().message;
}

TEST_CASE("the sample file has the bytes of the format's vector", "[unit]") {
  const Bytes bytes = EncodeTensorFile(Sample());
  CHECK(bytes.size() == 136);
  CHECK(bytes[0] == 112);
  CHECK(Sha256::Of(bytes).Hex() ==
        "0eac63e3abeee63a8e226484587dfaa8f7c4ea6c20703d17be9c469e22c02ddd");
}

TEST_CASE("what was written is read back", "[unit]") {
  TensorFile file = Sample();
  file.metadata = {{"format", "pt"}, {"skep.model", "{\"hidden\":[1]}\n\\\x01\xC3\xA9"}};
  file.tensors.push_back(
      {.name = "steps", .dtype = FileType::kI64, .shape = {}, .bytes = Bytes(8, 7)});
  file.tensors.push_back({.name = "none", .dtype = FileType::kU8, .shape = {0, 3}, .bytes = {}});
  const Bytes bytes = EncodeTensorFile(file);
  CHECK(bytes.size() % 8 == 0);
  const TensorFile read = DecodeTensorFile(bytes).value();
  CHECK(read.metadata == file.metadata);
  REQUIRE(read.tensors.size() == 4);
  CHECK(read.tensors[0].name == "steps");
  CHECK(read.tensors[1].name == "b");
  CHECK(read.tensors[2].name == "w");
  CHECK(read.tensors[2].shape == std::vector<std::uint64_t>{1, 2});
  CHECK(read.tensors[2].bytes == file.tensors[0].bytes);
  CHECK(read.tensors[3].bytes.empty());
  CHECK(EncodeTensorFile(read) == bytes);
}

TEST_CASE("a file cut at any byte is refused", "[unit]") {
  const Bytes bytes = EncodeTensorFile(Sample());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    INFO("cut at " << size);
    REQUIRE_FALSE(DecodeTensorFile(BytesView(bytes).first(size)).has_value());
  }
}

TEST_CASE("any byte flipped is refused or read, never more than that", "[unit]") {
  const Bytes bytes = EncodeTensorFile(Sample());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int mask = 1; mask < 256; ++mask) {
      Bytes damaged = bytes;
      damaged[i] = static_cast<std::uint8_t>(damaged[i] ^ mask);
      const auto file = DecodeTensorFile(damaged);
      if (!file) REQUIRE(file.error().code == 1302);
      if (i >= 120) REQUIRE(file.has_value());
    }
  }
}

TEST_CASE("a header size beyond the file is refused before memory is taken", "[unit]") {
  Bytes bytes = FileOf("{}");
  StoreLittle(std::uint64_t{1} << 63, bytes.data());
  CHECK(RefusalOf(bytes).find("header of 9223372036854775808 bytes") == 0);
  StoreLittle(std::uint64_t{1}, bytes.data());
  CHECK(RefusalOf(bytes).find("header of 1 bytes") == 0);
  StoreLittle(std::uint64_t{3}, bytes.data());
  CHECK(RefusalOf(bytes).find("header of 3 bytes") == 0);
  CHECK(RefusalOf({}) == "shorter than the 8 bytes of a header size");
}

TEST_CASE("an empty object is a file without tensors", "[unit]") {
  CHECK(DecodeTensorFile(FileOf("{}")).value().tensors.empty());
  CHECK(DecodeTensorFile(FileOf("{}      ")).has_value());
}

TEST_CASE("headers that are no JSON object are refused", "[unit]") {
  CHECK(RefusalOf(FileOf("[]")) == "the header does not start with \"{\"");
  CHECK(RefusalOf(FileOf(" {}")) == "the header does not start with \"{\"");
  CHECK(RefusalOf(FileOf("{}{}")).find("the header") == 0);
  CHECK(RefusalOf(FileOf("{,}")).find("the header is no valid JSON near byte 1") == 0);
  CHECK(RefusalOf(FileOf("{\"a")).find("the header is no valid JSON") == 0);
  CHECK(RefusalOf(FileOf("{\"\xFF\":1}")).find("the header is no valid JSON") == 0);
}

TEST_CASE("equal keys are refused at every level", "[unit]") {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  CHECK(RefusalOf(FileOf("{\"a\":" + entry + ",\"a\":" + entry + "}")) ==
        "the key \"a\" occurs twice");
  CHECK(RefusalOf(FileOf(R"({"__metadata__":{"k":"1","k":"2"}})")) == "the key \"k\" occurs twice");
  CHECK(RefusalOf(FileOf(R"({"a":{"dtype":"U8","dtype":"I8","shape":[],"data_offsets":[0,1]}})",
                         1)) == "tensor \"a\": the key \"dtype\" occurs twice");
}

TEST_CASE("an entry has exactly its three keys", "[unit]") {
  CHECK(RefusalOf(FileOf(R"({"a":{"shape":[0],"data_offsets":[0,0]}})")) ==
        "tensor \"a\": lacks dtype");
  CHECK(RefusalOf(FileOf(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})")) ==
        "tensor \"a\": lacks shape");
  CHECK(RefusalOf(FileOf(R"({"a":{"dtype":"U8","shape":[0]}})")) ==
        "tensor \"a\": lacks data_offsets");
  CHECK(RefusalOf(FileOf(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"more":1}})")) ==
        "tensor \"a\": unknown key \"more\"");
}

TEST_CASE("values of the wrong kind are refused", "[unit]") {
  for (const char* value :
       {"1", "\"x\"", "[]", "null", "true", R"({"dtype":1,"shape":[],"data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":"1","data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":[1.5],"data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":[[1]],"data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":[null],"data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":[1],"data_offsets":[1]})",
        R"({"dtype":"U8","shape":[1],"data_offsets":[0,1,1]})",
        R"({"dtype":{},"shape":[1],"data_offsets":[0,1]})"}) {
    INFO(value);
    CHECK_FALSE(RefusalOf(FileOf(std::string("{\"a\":") + value + "}", 1)).empty());
  }
  CHECK(RefusalOf(FileOf(R"({"__metadata__":{"k":1}})")) == "a number where none belongs");
}

TEST_CASE("a type that is not read is named", "[unit]") {
  CHECK(RefusalOf(FileOf(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1)) ==
        "tensor \"a\": type F8_E4M3 is not read");
}

TEST_CASE("shapes are multiplied without overflow", "[unit]") {
  CHECK(RefusalOf(FileOf(
            R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})")) ==
        "tensor \"a\": its size does not fit 64 bits");
  CHECK(RefusalOf(FileOf(R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":)"
                         R"([0,9223372036854775808]}})")) ==
        "the tensors cover 9223372036854775808 bytes, the buffer has 0");
  CHECK(RefusalOf(FileOf(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})",
                         1)) == "tensor \"a\": more than 8 dimensions");
}

TEST_CASE("ranges hold their shapes and cover the buffer exactly", "[unit]") {
  const auto two = [](const std::string& first, const std::string& second) {
    return "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" + first +
           "},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" + second + "}}";
  };
  CHECK(DecodeTensorFile(FileOf(two("[2,4]", "[0,2]"), 4)).has_value());
  CHECK(RefusalOf(FileOf(two("[0,2]", "[1,3]"), 3)) ==
        "tensor \"b\": starts at 1 of the buffer, where 2 is the next byte");
  CHECK(RefusalOf(FileOf(two("[0,2]", "[3,5]"), 5)) ==
        "tensor \"b\": starts at 3 of the buffer, where 2 is the next byte");
  CHECK(RefusalOf(FileOf(two("[1,3]", "[3,5]"), 5)) ==
        "tensor \"a\": starts at 1 of the buffer, where 0 is the next byte");
  CHECK(RefusalOf(FileOf(two("[0,2]", "[2,4]"), 5)) ==
        "the tensors cover 4 bytes, the buffer has 5");
  CHECK(RefusalOf(FileOf(two("[0,2]", "[4,2]"), 4)).find("tensor \"b\": data_offsets [4, 2]") == 0);
  CHECK(RefusalOf(FileOf(two("[0,2]", "[2,5]"), 5)).find("tensor \"b\": data_offsets [2, 5]") == 0);
}

TEST_CASE("names have 1 to 256 bytes without control characters", "[unit]") {
  const auto named = [](const std::string& name) {
    return FileOf("{\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
  };
  CHECK(DecodeTensorFile(named(std::string(256, 'a'))).has_value());
  CHECK(RefusalOf(named(std::string(257, 'a'))).find("a tensor's name has") == 0);
  CHECK(RefusalOf(named("")).find("a tensor's name has") == 0);
  CHECK(RefusalOf(named("a\\u0001")).find("a tensor's name has") == 0);
}

TEST_CASE("deep nesting is refused", "[unit]") {
  std::string nested = R"({"a":{"shape":)";
  nested.append(100000, '[');
  CHECK_FALSE(RefusalOf(FileOf(nested)).empty());
}

TEST_CASE("at most 100000 tensors", "[unit]") {
  std::string header = "{";
  for (int i = 0; i <= 100000; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  CHECK(RefusalOf(FileOf(header + "}")) == "more than 100000 tensors");
}

}  // namespace
}  // namespace skep::model
