#include <chrono>

#include "shared/base/clock.h"
#include "shared/data/idx.h"
#include "tests/shared/data_fixture.h"

namespace skep::data {
namespace {

using test::TemporaryFolder;

constexpr const char* kImages = "train-images-idx3-ubyte";
constexpr const char* kLabels = "train-labels-idx1-ubyte";

std::string TwoImages() {
  return Idx(8, {2, 2, 3}, std::string_view("\0\1\2\3\4\5\6\7\x08\x09\x0A\xFF", 12));
}
std::string TwoLabels() {
  return Idx(8, {2}, std::string_view("\7\3", 2));
}

Result<LoadedData> LoadFolder(const TemporaryFolder& folder, DataOptions options = {}) {
  options.path = folder.path().string();
  options.test_fraction = 0;
  return Load(options);
}

Result<LoadedData> LoadPair(const std::string& images, const std::string& labels,
                            const DataOptions& options = {}) {
  const TemporaryFolder folder;
  (void)folder.Write(kImages, images);
  (void)folder.Write(kLabels, labels);
  return LoadFolder(folder, options);
}

TEST_CASE("images and labels of a folder become bytes and classes in numerical order", "[unit]") {
  const LoadedData loaded = LoadPair(TwoImages(), TwoLabels()).value();
  const Dataset& train = *loaded.train;
  CHECK(train.input_shape == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(train.rows == 2);
  CHECK(train.values == 6);
  CHECK(train.bytes.size() == 12);
  CHECK(train.labels == std::vector<std::int32_t>{1, 0});
  CHECK(loaded.spec.classes == std::vector<std::string>{"3", "7"});
  CHECK(loaded.spec.IsUnnamedArray());
  CHECK(loaded.spec.features[0].scale == 255);
  CHECK(loaded.test == nullptr);
}

TEST_CASE("bytes are scaled when they are gathered", "[unit]") {
  const LoadedData loaded = LoadPair(TwoImages(), TwoLabels()).value();
  std::vector<float> x(12);
  std::vector<std::int32_t> y(2);
  const std::vector<std::uint32_t> rows{1, 0};
  loaded.train->Gather(rows, x.data(), y.data());
  CHECK(y == std::vector<std::int32_t>{0, 1});
  CHECK(x[0] == static_cast<float>(6.0 / 255));
  CHECK(x[5] == 1.0F);
  CHECK(x[11] == static_cast<float>(5.0 / 255));
}

TEST_CASE("gzip gives the same data as plain files", "[unit]") {
  const TemporaryFolder folder;
  (void)folder.Write(std::string(kImages) + ".gz", Gzip(TwoImages()));
  (void)folder.Write(std::string(kLabels) + ".gz", Gzip(TwoLabels()));
  CHECK(LoadFolder(folder).value().hash == LoadPair(TwoImages(), TwoLabels()).value().hash);
}

TEST_CASE("a folder's own test part is read and shares the classes", "[unit]") {
  const TemporaryFolder folder;
  (void)folder.Write(kImages, TwoImages());
  (void)folder.Write(kLabels, TwoLabels());
  (void)folder.Write("t10k-images-idx3-ubyte", Idx(8, {1, 2, 3}, "abcdef"));
  (void)folder.Write("t10k-labels-idx1-ubyte", Idx(8, {1}, "\5"));
  const LoadedData loaded = LoadFolder(folder).value();
  REQUIRE(loaded.test != nullptr);
  CHECK(loaded.spec.classes == std::vector<std::string>{"3", "5", "7"});
  CHECK(loaded.test->labels == std::vector<std::int32_t>{1});
}

TEST_CASE("other number types become floats, big-endian", "[unit]") {
  const LoadedData loaded =
      LoadPair(Idx(11, {2, 2}, std::string_view("\xFF\xFE\0\3\1\0\x7F\xFF", 8)),
               Idx(9, {2}, std::string_view("\xFF\1", 2)))
          .value();
  CHECK(loaded.train->floats == std::vector<float>{-2, 3, 256, 32767});
  CHECK(loaded.train->input_shape == std::vector<std::uint32_t>{2});
  CHECK(loaded.spec.classes == std::vector<std::string>{"-1", "1"});
  CHECK(loaded.spec.features[0].scale == 1);
}

TEST_CASE("an idx file cut at any byte is refused", "[unit]") {
  const TemporaryFolder folder;
  const std::string whole = TwoImages();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string path = folder.Write("cut", whole.substr(0, size)).string();
    const auto array = ReadIdx(path);
    INFO("cut at " << size);
    REQUIRE_FALSE(array.has_value());
    REQUIRE(array.error().code == 1202);
  }
}

TEST_CASE("any byte of an idx file flipped is refused or read, never more than that", "[unit]") {
  const TemporaryFolder folder;
  const std::string whole = TwoImages();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const auto array = ReadIdx(folder.Write("flipped", damaged).string());
      INFO("byte " << i << " mask " << mask);
      if (!array) REQUIRE(array.error().code == 1202);
      if (i >= 16) REQUIRE(array.has_value());
    }
  }
}

TEST_CASE("a gzip file cut or damaged anywhere is refused", "[unit]") {
  const TemporaryFolder folder;
  const std::string packed = Gzip(TwoImages());
  for (std::size_t size = 2; size < packed.size(); ++size) {
    const auto array = ReadIdx(folder.Write("cut.gz", packed.substr(0, size)).string());
    INFO("cut at " << size);
    REQUIRE_FALSE(array.has_value());
    REQUIRE(array.error().code == 1202);
    REQUIRE(array.error().message.find("gzip data") != std::string::npos);
  }
  std::string damaged = packed;
  damaged[packed.size() - 5] ^= 1;  // its checksum
  CHECK_FALSE(ReadIdx(folder.Write("damaged.gz", damaged).string()).has_value());
  CHECK_FALSE(ReadIdx(folder.Write("more.gz", packed + "x").string()).has_value());
}

TEST_CASE("a wrong magic number is shown", "[unit]") {
  CHECK(MessageOf(LoadPair("GIF89a..........", TwoLabels()), 1202) ==
        std::string(kImages) + ": no idx file: it starts with 47494638");
  CHECK(MessageOf(LoadPair(Idx(10, {2, 2, 3}, std::string(12, 'a')), TwoLabels()), 1202)
            .find("no idx file") != std::string::npos);
  CHECK(MessageOf(LoadPair(Idx(8, {1, 1, 1, 1, 1}, "a"), TwoLabels()), 1202) ==
        std::string(kImages) + ": 5 dimensions; 1 to 4 are read");
  CHECK(MessageOf(LoadPair(Idx(8, {}, "a"), TwoLabels()), 1202) ==
        std::string(kImages) + ": 0 dimensions; 1 to 4 are read");
}

TEST_CASE("data shorter or longer than the header claims are refused", "[unit]") {
  CHECK(MessageOf(LoadPair(TwoImages() + "x", TwoLabels()), 1202) ==
        std::string(kImages) + ": goes on after its data");
  CHECK(MessageOf(LoadPair(Idx(8, {0, 2, 3}, ""), TwoLabels()), 1202) ==
        std::string(kImages) + ": a dimension is 0");
}

TEST_CASE("sizes that a file cannot hold are refused at once", "[unit]") {
  const TemporaryFolder folder;
  const std::uint32_t big = 0xFFFFFFFF;
  const std::string plain = folder.Write("plain", Idx(8, {1U << 31, 1U << 31, 2}, "")).string();
  const std::string packed =
      folder.Write("packed.gz", Gzip(Idx(8, {1U << 31, 1U << 30}, ""))).string();
  const std::string beyond = folder.Write("beyond", Idx(14, {big, big, big, big}, "")).string();
  const Nanoseconds before = ProcessCpuTime();
  CHECK(ReadIdx(plain).error().message ==
        plain + ": claims 9223372036854775808 bytes of data; the file cannot hold them");
  CHECK(ReadIdx(packed).error().message ==
        packed + ": claims 2305843009213693952 bytes of data; the file cannot hold them");
  CHECK(ReadIdx(beyond).error().message == beyond + ": its dimensions do not fit 64 bits");
  CHECK(ProcessCpuTime() - before < std::chrono::milliseconds(30));
}

TEST_CASE("as many labels as images", "[unit]") {
  const std::string message = MessageOf(LoadPair(TwoImages(), Idx(8, {3}, "abc")), 1202);
  CHECK(message.find("holds 2 images, ") != std::string::npos);
}

TEST_CASE("labels are one dimension of integers", "[unit]") {
  CHECK(MessageOf(LoadPair(TwoImages(), Idx(8, {2, 1}, "ab")), 1202) ==
        std::string(kLabels) + ": labels are one dimension of integers");
  CHECK(MessageOf(LoadPair(TwoImages(), Idx(13, {2}, std::string(8, '\0'))), 1202) ==
        std::string(kLabels) + ": labels are one dimension of integers");
}

TEST_CASE("numbers that are not finite are refused by place", "[unit]") {
  CHECK(
      MessageOf(LoadPair(Idx(13, {2, 1}, std::string_view("\0\0\0\0\x7F\xC0\0\0", 8)), TwoLabels()),
                1202) == std::string(kImages) + ": value 1 is not finite");
}

TEST_CASE("a folder with half a pair, or with nothing, is refused by name", "[unit]") {
  const TemporaryFolder folder;
  (void)folder.Write(kImages, TwoImages());
  CHECK(MessageOf(LoadFolder(folder), 1201).find("train-labels-idx1-ubyte is missing") !=
        std::string::npos);
  const TemporaryFolder empty;
  CHECK(LoadFolder(empty).error().code == 1201);
}

TEST_CASE("a data set that is not installed names its package", "[unit]") {
  const TemporaryFolder empty;
  DataOptions options;
  options.dataset = "fashion-mnist";
  options.dataset_folder = empty.path().string();
  const auto loaded = Load(options);
  REQUIRE_FALSE(loaded.has_value());
  CHECK(loaded.error().code == 1203);
  CHECK(loaded.error().hint.find("apt install dataset-fashion-mnist") != std::string::npos);
}

TEST_CASE("given classes are matched by name if they are integers, else by index", "[unit]") {
  DataOptions options;
  options.classes = {"7", "5", "3"};
  CHECK(LoadPair(TwoImages(), TwoLabels(), options).value().train->labels ==
        std::vector<std::int32_t>{0, 2});
  options.classes = {"shirt", "shoe", "bag", "hat", "coat", "sock", "belt", "scarf"};
  CHECK(LoadPair(TwoImages(), TwoLabels(), options).value().train->labels ==
        std::vector<std::int32_t>{7, 3});
  options.classes = {"shirt", "shoe", "bag", "hat"};
  CHECK(MessageOf(LoadPair(TwoImages(), TwoLabels(), options), 1202) ==
        std::string(kLabels) +
            ", row 0: unknown class 7; known: \"shirt\", \"shoe\", \"bag\", \"hat\"");
}

TEST_CASE("against a plan the class found is not shown", "[unit]") {
  DataOptions options;
  options.plan = DataSpec{};
  options.plan->features.emplace_back().name = "x";
  options.plan->features[0].scale = 100;
  options.plan->classes = {"3", "4"};
  CHECK(MessageOf(LoadPair(TwoImages(), TwoLabels(), options), 7414) ==
        std::string(kLabels) + ", row 0: unknown class; known: \"3\", \"4\"");
  options.plan->classes = {"3", "4", "7"};
  const LoadedData loaded = LoadPair(TwoImages(), TwoLabels(), options).value();
  CHECK(loaded.train->byte_scale == 100);
  CHECK(loaded.train->labels == std::vector<std::int32_t>{2, 0});
  options.plan->features[0].name = "age";
  CHECK(MessageOf(LoadPair(TwoImages(), TwoLabels(), options), 7414)
            .find("named features are expected") != std::string::npos);
}

TEST_CASE("a client file names the owner of each image", "[unit]") {
  const TemporaryFolder folder;
  (void)folder.Write(kImages, TwoImages());
  (void)folder.Write(kLabels, TwoLabels());
  DataOptions options;
  options.client_file = folder.Write("writers.csv", "index,writer\n0,w7\n1,w1\n").string();
  options.client_column = "writer";
  const LoadedData loaded = LoadFolder(folder, options).value();
  CHECK(loaded.train->owner_names == std::vector<std::string>{"w7", "w1"});
  CHECK(loaded.train->owner == std::vector<std::uint32_t>{0, 1});

  (void)folder.Write("writers.csv", "index,writer\n0,w7\n");
  CHECK(MessageOf(LoadFolder(folder, options), 1202) ==
        "writers.csv names the clients of 1 rows, the data have 2");
  (void)folder.Write("writers.csv", "index,writer\n0,w7\n1,\n");
  CHECK(MessageOf(LoadFolder(folder, options), 1202) ==
        "writers.csv, line 3, column \"writer\": no client's name");
  options.client_column = "writter";
  const auto loaded_without = LoadFolder(folder, options);
  CHECK(MessageOf(loaded_without, 1202).find("no column \"writter\"") != std::string::npos);
  CHECK(loaded_without.error().hint == "did you mean \"writer\"?");
  options.client_file.clear();
  CHECK(LoadFolder(folder, options).error().code == 1202);
}

}  // namespace
}  // namespace skep::data
