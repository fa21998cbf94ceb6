#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>

#include "shared/base/file.h"
#include "shared/model/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::model {
namespace {

using test::TemporaryFolder;

LayoutPtr TwoTensors() {
  return Layout::Make({{.name = "fc1.weight", .shape = {2, 3}}, {.name = "fc1.bias", .shape = {2}}})
      .value();
}

Params Counting(const LayoutPtr& layout) {
  Params params(layout);
  float next = 0.5F;
  for (float& value : params.values()) value = next++;
  return params;
}

std::string Save(const TemporaryFolder& folder, const TensorFile& file) {
  return folder.Write("model.safetensors", AsText(EncodeTensorFile(file))).string();
}

FileTensor Zeros(std::string name, FileType type, std::vector<std::uint64_t> shape) {
  std::uint64_t size = ItemSize(type);
  for (const std::uint64_t s : shape) size *= s;
  return {.name = std::move(name), .dtype = type, .shape = std::move(shape), .bytes = Bytes(size)};
}

Error RefusalOf(const std::string& path) {
  const auto params = ReadModel(path, TwoTensors());
  REQUIRE_FALSE(params.has_value());
  return params.error();
}

TEST_CASE("a model file gives back the same model", "[unit]") {
  const TemporaryFolder folder;
  const Params params = Counting(TwoTensors());
  const std::string path = (folder.path() / "model.safetensors").string();
  REQUIRE(WriteModel(path, params, {{"format", "pt"}, {"skep.round", "3"}}).has_value());
  Metadata metadata;
  const Params read = ReadModel(path, TwoTensors(), &metadata).value();
  CHECK(read.ModelHash() == params.ModelHash());
  CHECK(metadata.at("skep.round") == "3");
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST_CASE("a model file of other shapes or names is refused by tensor", "[unit]") {
  const TemporaryFolder folder;
  const FileTensor weight = Zeros("fc1.weight", FileType::kF32, {2, 3});
  const FileTensor bias = Zeros("fc1.bias", FileType::kF32, {2});
  const auto refusal = [&](std::vector<FileTensor> tensors) {
    const Error error = RefusalOf(Save(folder, {.metadata = {}, .tensors = std::move(tensors)}));
    CHECK(error.code == 1301);
    return error.message.substr(error.message.find(": ") + 2);
  };
  const std::string differs = "the file's tensors are not the model's; ";
  CHECK(refusal({weight}) == differs + "missing: \"fc1.bias\" [2]");
  CHECK(refusal({}) == differs + "missing: \"fc1.weight\" [2, 3], \"fc1.bias\" [2]");
  CHECK(refusal({weight, Zeros("fc1.bias", FileType::kF32, {3})}) ==
        "tensor \"fc1.bias\": shape [3], the model's is [2]");
  CHECK(refusal({weight, bias, Zeros("fc2.bias", FileType::kF32, {2})}) ==
        differs + "left over: \"fc2.bias\" [2]");
  CHECK(refusal({weight, Zeros("fc1.bias", FileType::kI32, {2})}) ==
        "tensor \"fc1.bias\": holds I32, no floats");
}

TEST_CASE("a value that is not finite is refused", "[unit]") {
  const TemporaryFolder folder;
  Params params(TwoTensors());
  params.values()[4] = NAN;
  const std::string path = (folder.path() / "model.safetensors").string();
  REQUIRE(WriteModel(path, params, {}).has_value());
  CHECK(RefusalOf(path).message == path + ": tensor \"fc1.weight\": value 4 is not finite");
}

TEST_CASE("counters of foreign files are skipped and named", "[unit]") {
  const TemporaryFolder folder;
  const std::string path =
      Save(folder, {.metadata = {},
                    .tensors = {Zeros("fc1.weight", FileType::kF32, {2, 3}),
                                Zeros("fc1.bias", FileType::kF32, {2}),
                                Zeros("norm1.num_batches_tracked", FileType::kI64, {})}});
  std::vector<std::string> notes;
  REQUIRE(ReadModel(path, TwoTensors(), nullptr, &notes).has_value());
  CHECK(notes == std::vector<std::string>{"skipped the integers of \"norm1.num_batches_tracked\""});
}

TEST_CASE("narrow and wide floats are converted", "[unit]") {
  const TemporaryFolder folder;
  FileTensor bias = Zeros("fc1.bias", FileType::kF16, {2});
  bias.bytes = {0x00, 0xBE, 0x01, 0x00};  // -1.5 and the smallest subnormal
  FileTensor weight = Zeros("fc1.weight", FileType::kBf16, {2, 3});
  weight.bytes[1] = 0x40;  // 2
  const std::string path = Save(folder, {.metadata = {}, .tensors = {weight, bias}});
  const Params params = ReadModel(path, TwoTensors()).value();
  CHECK(params.values()[0] == 2.0F);
  CHECK(params.Tensor(1)[0] == -1.5F);
  CHECK(params.Tensor(1)[1] == 0x1p-24F);
}

TEST_CASE("a file that is absent, or no file, is refused with the reason", "[unit]") {
  const TemporaryFolder folder;
  const Error absent = RefusalOf((folder.path() / "none").string());
  CHECK(absent.code == 1302);
  CHECK(absent.message ==
        "cannot read " + (folder.path() / "none").string() + ": No such file or directory");
  CHECK(RefusalOf(folder.path().string()).message ==
        folder.path().string() + " is no regular file");
}

TEST_CASE("a model file far larger than the model is refused by its size", "[unit]") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("big", "").string();
  std::filesystem::resize_file(path, std::uintmax_t{1} << 36);
  const Error error = RefusalOf(path);
  CHECK(error.code == 1302);
  CHECK(error.message.find("has 68719476736 bytes; at most ") != std::string::npos);
}

TEST_CASE("writing into a folder that is absent says why and leaves nothing", "[unit]") {
  const TemporaryFolder folder;
  const auto status = WriteModel((folder.path() / "no/model").string(), Params(TwoTensors()), {});
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().code == 4001);
  CHECK(status.error().message.find("No such file or directory") != std::string::npos);
}

TEST_CASE("a full disk at any byte leaves the old file", "[unit]") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("model", "old").string();
  const Bytes content(100, 7);
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  std::size_t refused = 0;
  for (rlim_t limit = 0; limit < content.size(); ++limit) {
    const struct rlimit small { .rlim_cur = limit, .rlim_max = before.rlim_max };
    (void)setrlimit(RLIMIT_FSIZE, &small);
    const auto status = WriteFileAtomically(path, content);
    (void)setrlimit(RLIMIT_FSIZE, &before);
    if (!status.has_value() && status.error().code == 4001) ++refused;
  }
  (void)std::signal(SIGXFSZ, old_handler);
  CHECK(refused == content.size());
  CHECK(ReadFile(path, 10, 1).value() == Bytes{'o', 'l', 'd'});
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
}

}  // namespace
}  // namespace skep::model
