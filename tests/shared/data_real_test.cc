#include <algorithm>
#include <filesystem>
#include <numeric>

#include "shared/data/reader.h"
#include "tests/support/catch.h"

namespace skep::data {
namespace {

const std::string kData = SKEP_SOURCE_DIR "/../shared/data";
const std::string kFashion = "/usr/share/datasets/fashion-mnist";

bool IsThere(const std::string& path) {
  return std::filesystem::exists(path);
}

DataOptions Mnist() {
  DataOptions options;
  options.path = kData + "/mnist";
  return options;
}

std::vector<std::size_t> PerClass(const Dataset& data) {
  std::vector<std::size_t> counts(10);
  for (const std::int32_t label : data.labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

double MeanInput(const Dataset& data) {
  const double sum = std::accumulate(data.bytes.begin(), data.bytes.end(), 0.0);
  return sum / static_cast<double>(data.bytes.size()) / 255;
}

TEST_CASE("Fashion-MNIST is read as packaged", "[unit]") {
  if (!IsThere(kFashion)) SKEP_SKIP(kFashion + " is absent: install dataset-fashion-mnist");
  DataOptions options;
  options.dataset = "fashion-mnist";
  const LoadedData loaded = Load(options).value();
  CHECK(loaded.train->rows == 60000);
  CHECK(loaded.test->rows == 10000);
  CHECK(loaded.train->input_shape == std::vector<std::uint32_t>{1, 28, 28});
  CHECK(PerClass(*loaded.train) == std::vector<std::size_t>(10, 6000));
  CHECK(MeanInput(*loaded.train) == Approx(0.2860).margin(1e-4));

  PartitionOptions shards;
  shards.rule = "shards";
  const LabelTable table = TableOf(Split(*loaded.train, 10, shards).value(), *loaded.train, 10);
  for (const std::uint32_t count : table.counts) CHECK(count % 300 == 0);
}

TEST_CASE("MNIST has the counts of its description", "[unit]") {
  if (!IsThere(kData + "/mnist")) SKEP_SKIP(kData + "/mnist is absent");
  const LoadedData loaded = Load(Mnist()).value();
  CHECK(PerClass(*loaded.train) ==
        std::vector<std::size_t>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
  CHECK(PerClass(*loaded.test) ==
        std::vector<std::size_t>{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
  CHECK(MeanInput(*loaded.train) == Approx(0.1307).margin(1e-4));
  CHECK(MeanInput(*loaded.test) == Approx(0.1325).margin(1e-4));
  CHECK(loaded.spec.classes.size() == 10);
}

TEST_CASE("nine of the 200 shards of MNIST hold two digits", "[unit]") {
  if (!IsThere(kData + "/mnist")) SKEP_SKIP(kData + "/mnist is absent");
  const LoadedData loaded = Load(Mnist()).value();
  PartitionOptions options;
  options.rule = "shards";
  options.num_clients = 200;
  options.shards_per_client = 1;
  const Partition single = Split(*loaded.train, 10, options).value();
  const auto digits = [&](const LabelTable& table, std::size_t client) {
    const auto* const counts = table.counts.data() + 10 * client;
    return std::count_if(counts, counts + 10, [](std::uint32_t n) { return n > 0; });
  };
  const LabelTable shards = TableOf(single, *loaded.train, 10);
  std::size_t mixed = 0;
  for (std::size_t k = 0; k < 200; ++k) mixed += digits(shards, k) == 2 ? 1 : 0;
  CHECK(mixed == 9);

  options.num_clients = 100;
  options.shards_per_client = 2;
  std::vector<double> share(5);
  constexpr int kSeeds = 60;
  for (int seed = 0; seed < kSeeds; ++seed) {
    options.partition_seed = static_cast<std::uint64_t>(seed);
    const LabelTable table = TableOf(Split(*loaded.train, 10, options).value(), *loaded.train, 10);
    for (std::size_t k = 0; k < 100; ++k) {
      share[static_cast<std::size_t>(digits(table, k))] += 1.0 / (100 * kSeeds);
    }
  }
  CHECK(share[1] == Approx(0.087).margin(0.015));
  CHECK(share[2] == Approx(0.842).margin(0.02));
  CHECK(share[3] == Approx(0.070).margin(0.015));
  CHECK(share[4] < 0.005);
}

TEST_CASE("MNIST by writer has 539 clients of the described sizes", "[unit]") {
  if (!IsThere(kData + "/mnist")) SKEP_SKIP(kData + "/mnist is absent");
  DataOptions options = Mnist();
  options.client_file = kData + "/mnist/writers-train.csv.gz";
  options.client_column = "writer";
  const LoadedData loaded = Load(options).value();
  PartitionOptions natural;
  natural.rule = "natural";
  natural.num_clients = 0;
  const Partition partition = Split(*loaded.train, 10, natural).value();
  REQUIRE(partition.clients.size() == 539);
  CHECK(partition.clients[0].name == "2154");
  CHECK(partition.clients[1].name == "0");
  std::vector<std::size_t> sizes;
  for (const ClientPart& part : partition.clients) sizes.push_back(part.train.size());
  std::sort(sizes.begin(), sizes.end());
  CHECK(sizes.front() == 19);
  CHECK(sizes[539 / 2] == 116);
  CHECK(sizes.back() == 131);
}

TEST_CASE("adult has 15 clients by occupation and the described numbers", "[unit]") {
  const std::string path = kData + "/adult/adult.data.gz";
  if (!IsThere(path)) SKEP_SKIP(path + " is absent");
  DataOptions options;
  options.path = path;
  options.client_column = "6";
  options.test_fraction = 0;
  const LoadedData loaded = Load(options).value();
  CHECK(loaded.train->rows == 32561);
  CHECK(loaded.spec.classes == std::vector<std::string>{"<=50K", ">50K"});
  CHECK(std::count(loaded.train->labels.begin(), loaded.train->labels.end(), 1) == 7841);
  CHECK(loaded.train->owner_names.size() == 15);
  // 108 one-hot and number columns, less the 15 occupations.
  CHECK(loaded.spec.InputValues() == 93);
  CHECK(loaded.spec.features[1].categories[0] == "?");
}

TEST_CASE("heart files read by position, missing values and all", "[unit]") {
  const std::string folder = kData + "/heart";
  if (!IsThere(folder)) SKEP_SKIP(folder + " is absent");
  DataOptions options;
  options.path = folder + "/processed.cleveland.data";
  options.test_fraction = 0;
  const auto refused = Load(options);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == 1202);
  CHECK(refused.error().message.find(", line 88, column \"12\": missing value \"?\"") !=
        std::string::npos);
  options.missing = "drop";
  const LoadedData loaded = Load(options).value();
  CHECK(loaded.train->rows == 297);
  CHECK(loaded.spec.classes == std::vector<std::string>{"0", "1", "2", "3", "4"});
  CHECK(loaded.train->floats[0] == 63);
  CHECK(loaded.train->floats[9] == 2.3F);
}

TEST_CASE("the same content gives the same hash in another folder", "[unit]") {
  if (!IsThere(kData + "/mnist")) SKEP_SKIP(kData + "/mnist is absent");
  DataOptions detour = Mnist();
  detour.path = kData + "/../data/mnist/";
  CHECK(Load(Mnist()).value().hash == Load(detour).value().hash);
}

}  // namespace
}  // namespace skep::data
