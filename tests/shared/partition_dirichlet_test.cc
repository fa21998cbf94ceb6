#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>

#include "shared/base/clock.h"
#include "shared/data/dirichlet.h"
#include "shared/data/partition.h"
#include "tests/support/catch.h"

namespace skep::data {
namespace {

Dataset Interleaved(std::uint32_t classes, std::uint32_t each) {
  Dataset data;
  data.rows = std::size_t{classes} * each;
  for (std::size_t row = 0; row < data.rows; ++row) {
    data.labels.push_back(static_cast<std::int32_t>(row % classes));
  }
  return data;
}

PartitionOptions Dirichlet(double alpha, std::uint32_t clients, std::uint32_t min_examples = 10) {
  PartitionOptions options;
  options.dirichlet_alpha = alpha;
  options.num_clients = clients;
  options.min_examples = min_examples;
  return options;
}

void CheckEveryRowOnce(const Partition& partition, std::size_t rows) {
  std::vector<std::uint32_t> all;
  for (const ClientPart& part : partition.clients) {
    all.insert(all.end(), part.train.begin(), part.train.end());
  }
  std::sort(all.begin(), all.end());
  REQUIRE(all.size() == rows);
  for (std::size_t row = 0; row < rows; ++row) REQUIRE(all[row] == row);
}

TEST_CASE("shares have the mean and variance of a Dirichlet distribution", "[unit]") {
  constexpr int kDraws = 2000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    RandomStream stream(static_cast<std::uint64_t>(i),
                        {.purpose = Purpose::kPartition, .client = 0});
    const std::vector<double> shares = DrawShares(stream, 10, 0.5);
    REQUIRE(std::accumulate(shares.begin(), shares.end(), 0.0) == Approx(1).margin(1e-12));
    sum += shares[0];
    squares += shares[0] * shares[0];
  }
  const double mean = sum / kDraws;
  const double variance = squares / kDraws - mean * mean;
  CHECK(mean == Approx(0.1).margin(0.008));
  CHECK(variance == Approx(0.015).epsilon(0.2));
}

TEST_CASE("a tiny alpha still yields shares that sum to 1", "[unit]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    RandomStream stream(seed, {.purpose = Purpose::kPartition, .client = 0});
    const std::vector<double> shares = DrawShares(stream, 100, 1e-5);
    REQUIRE(std::accumulate(shares.begin(), shares.end(), 0.0) == Approx(1).margin(1e-12));
    REQUIRE(std::all_of(shares.begin(), shares.end(), [](double p) { return p >= 0 && p <= 1; }));
  }
}

TEST_CASE("every example appears exactly once and every client has enough", "[unit]") {
  const Dataset data = Interleaved(10, 6000);
  for (const bool is_balanced : {false, true}) {
    PartitionOptions options = Dirichlet(0.5, 100);
    options.self_balancing = is_balanced;
    const Partition partition = Split(data, 10, options).value();
    CheckEveryRowOnce(partition, data.rows);
    for (const ClientPart& part : partition.clients) CHECK(part.train.size() >= 10);
  }
}

TEST_CASE("a small alpha skews labels more than a large one", "[unit]") {
  const Dataset data = Interleaved(10, 1000);
  const auto skew = [&](double alpha) {
    const Partition partition = Split(data, 10, Dirichlet(alpha, 20)).value();
    const LabelTable table = TableOf(partition, data, 10);
    return std::accumulate(table.total_variation.begin(), table.total_variation.end(), 0.0) / 20;
  };
  CHECK(skew(0.1) > 0.5);
  CHECK(skew(100) < 0.1);
}

TEST_CASE("a huge alpha splits a class into nearly equal parts", "[unit]") {
  const Partition partition = Split(Interleaved(1, 6000), 1, Dirichlet(1e6, 10)).value();
  for (const ClientPart& part : partition.clients) {
    CHECK(part.train.size() >= 596);
    CHECK(part.train.size() <= 604);
  }
}

TEST_CASE("alpha 1e-5 with 100 clients ends in bounded time, repaired and said", "[unit]") {
  const Dataset data = Interleaved(10, 6000);
  const Nanoseconds before = ProcessCpuTime();
  const Partition partition = Split(data, 10, Dirichlet(1e-5, 100)).value();
  CHECK(ProcessCpuTime() - before < std::chrono::seconds(5));
  CheckEveryRowOnce(partition, data.rows);
  for (const ClientPart& part : partition.clients) CHECK(part.train.size() >= 10);
  REQUIRE(partition.notes.size() == 1);
  CHECK(partition.notes[0].find("after 10 attempts: moved ") != std::string::npos);
}

TEST_CASE("repair takes from the largest client's largest class, last example first", "[unit]") {
  const Dataset data = Interleaved(2, 30);
  PartitionOptions options = Dirichlet(1e-5, 4, 5);
  options.partition_attempts = 1;
  options.shuffle = false;
  std::vector<std::string> notes;
  const auto repaired = SplitDirichlet(data, 2, options, notes).value();
  options.min_examples = 0;
  auto expected = SplitDirichlet(data, 2, options, notes).value();
  // The rule once more, word for word and without any index.
  for (;;) {
    std::size_t small = 0;
    while (small < 4 && expected[small].size() >= 5) ++small;
    if (small == 4) break;
    std::size_t largest = 0;
    for (std::size_t k = 1; k < 4; ++k) {
      if (expected[k].size() > expected[largest].size()) largest = k;
    }
    auto& giver = expected[largest];
    const auto ones = std::count_if(giver.begin(), giver.end(),
                                    [&](std::uint32_t row) { return data.labels[row] == 1; });
    const std::int32_t label = ones > static_cast<std::ptrdiff_t>(giver.size()) - ones ? 1 : 0;
    std::size_t last = giver.size();
    while (data.labels[giver[last - 1]] != label) --last;
    expected[small].push_back(giver[last - 1]);
    giver.erase(giver.begin() + static_cast<std::ptrdiff_t>(last) - 1);
  }
  CHECK(repaired == expected);
}

TEST_CASE("without repair the clients that stay too small are named", "[unit]") {
  PartitionOptions options = Dirichlet(1e-5, 100);
  options.repair = false;
  options.partition_attempts = 2;
  const auto partition = Split(Interleaved(10, 6000), 10, options);
  REQUIRE_FALSE(partition.has_value());
  CHECK(partition.error().code == 1104);
  CHECK(partition.error().message.find(
            "after 2 attempts fewer than min_examples = 10 examples at client ") == 0);
  CHECK(partition.error().message.find(" more") != std::string::npos);
}

TEST_CASE("self-balancing gives no more to clients that hold their even share", "[unit]") {
  const Dataset data = Interleaved(10, 100);
  PartitionOptions options = Dirichlet(0.1, 5, 1);
  options.self_balancing = true;
  const Partition balanced = Split(data, 10, options).value();
  options.self_balancing = false;
  const Partition plain = Split(data, 10, options).value();
  const auto largest = [](const Partition& partition) {
    std::size_t most = 0;
    for (const ClientPart& part : partition.clients) most = std::max(most, part.train.size());
    return most;
  };
  // Below the even share of 200 a client can take at most one more class of 100.
  CHECK(largest(balanced) < 300);
  CHECK(largest(plain) > largest(balanced));
}

TEST_CASE("too many clients and an alpha of 0 are refused at once", "[unit]") {
  const auto many = Split(Interleaved(1, 99), 1, Dirichlet(0.5, 10));
  REQUIRE_FALSE(many.has_value());
  CHECK(many.error().code == 1104);
  const auto zero = Split(Interleaved(1, 100), 1, Dirichlet(0, 10));
  REQUIRE_FALSE(zero.has_value());
  CHECK(zero.error().code == 1102);
}

}  // namespace
}  // namespace skep::data
