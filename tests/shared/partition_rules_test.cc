#include <algorithm>
#include <numeric>
#include <set>

#include "shared/base/rng.h"
#include "shared/data/partition.h"
#include "tests/support/catch.h"

namespace skep::data {
namespace {

using RowList = std::vector<std::uint32_t>;

Dataset WithLabels(std::vector<std::int32_t> labels) {
  Dataset data;
  data.rows = labels.size();
  data.labels = std::move(labels);
  return data;
}

// `each` rows of every class, sorted by class.
Dataset Sorted(std::uint32_t classes, std::uint32_t each) {
  std::vector<std::int32_t> labels;
  for (std::uint32_t c = 0; c < classes; ++c)
    labels.insert(labels.end(), each, static_cast<int>(c));
  return WithLabels(std::move(labels));
}

Dataset WithOwners(const std::vector<std::string>& owners) {
  Dataset data = WithLabels(std::vector<std::int32_t>(owners.size(), 0));
  for (const std::string& name : owners) {
    auto found = std::find(data.owner_names.begin(), data.owner_names.end(), name);
    data.owner.push_back(static_cast<std::uint32_t>(found - data.owner_names.begin()));
    if (found == data.owner_names.end()) data.owner_names.push_back(name);
  }
  return data;
}

PartitionOptions Rule(const std::string& rule, std::uint32_t clients) {
  PartitionOptions options;
  options.rule = rule;
  options.num_clients = clients;
  return options;
}

// Every row at most once; how many rows are there.
std::size_t DistinctRows(const Partition& partition) {
  std::set<std::uint32_t> rows;
  std::size_t all = 0;
  for (const ClientPart& part : partition.clients) {
    rows.insert(part.train.begin(), part.train.end());
    rows.insert(part.test.begin(), part.test.end());
    all += part.train.size() + part.test.size();
  }
  CHECK(rows.size() == all);
  return all;
}

Error RefusalOf(const Dataset& data, const PartitionOptions& options) {
  const auto partition = Split(data, 10, options);
  REQUIRE_FALSE(partition.has_value());
  return partition.error();
}

TEST_CASE("iid shuffles a sorted file and cuts it evenly", "[unit]") {
  const Dataset data = Sorted(10, 601);
  const Partition partition = Split(data, 10, Rule("iid", 100)).value();
  CHECK(DistinctRows(partition) == 6010);
  CHECK(partition.clients[9].train.size() == 61);
  CHECK(partition.clients[10].train.size() == 60);
  const LabelTable table = TableOf(partition, data, 10);
  for (const double distance : table.total_variation) CHECK(distance < 0.35);
  for (std::size_t k = 0; k < 100; ++k) {
    const auto* const counts = table.counts.data() + 10 * k;
    CHECK(std::count_if(counts, counts + 10, [](std::uint32_t n) { return n > 0; }) >= 7);
  }
}

TEST_CASE("iid is the purpose-2 shuffle cut in order", "[unit]") {
  PartitionOptions options = Rule("iid", 3);
  options.shuffle = false;
  const Partition partition = Split(Sorted(1, 8), 1, options).value();
  RowList order(8);
  std::iota(order.begin(), order.end(), 0U);
  RandomStream stream(42, {.purpose = Purpose::kPartition});
  stream.Shuffle(std::span(order));
  CHECK(partition.clients[0].train == RowList(order.begin(), order.begin() + 3));
  CHECK(partition.clients[1].train == RowList(order.begin() + 3, order.begin() + 6));
  CHECK(partition.clients[2].train == RowList(order.begin() + 6, order.end()));
}

TEST_CASE("another partition seed gives another split, another run seed does not", "[unit]") {
  const Dataset data = Sorted(2, 50);
  PartitionOptions options = Rule("iid", 4);
  const RowList first = Split(data, 2, options).value().clients[0].train;
  options.run_seed = 7;
  CHECK(Split(data, 2, options).value().clients[0].train == first);
  options.partition_seed = 7;
  CHECK(Split(data, 2, options).value().clients[0].train != first);
}

TEST_CASE("two shards per client give few classes to each", "[unit]") {
  const Dataset data = Sorted(10, 6000);
  const Partition partition = Split(data, 10, Rule("shards", 100)).value();
  CHECK(DistinctRows(partition) == 60000);
  const LabelTable table = TableOf(partition, data, 10);
  for (std::size_t k = 0; k < 100; ++k) {
    CHECK(partition.clients[k].train.size() == 600);
    const auto* const counts = table.counts.data() + 10 * k;
    CHECK(std::count_if(counts, counts + 10, [](std::uint32_t n) { return n > 0; }) <= 2);
  }
}

TEST_CASE("one client in eleven gets two shards of one class", "[unit]") {
  // Two of 200 shards, 20 of each class: 19 / 199 = 9.5 %.
  const Dataset data = Sorted(10, 20);
  PartitionOptions options = Rule("shards", 100);
  options.shard_size = 1;
  std::size_t single = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    options.partition_seed = seed;
    const Partition partition = Split(data, 10, options).value();
    for (const ClientPart& part : partition.clients) {
      if (data.labels[part.train[0]] == data.labels[part.train[1]]) ++single;
    }
  }
  CHECK(static_cast<double>(single) / 20000 == Approx(0.095).margin(0.01));
}

TEST_CASE("a shard size alone hands out all whole shards, as evenly as can be", "[unit]") {
  PartitionOptions options = Rule("shards", 3);
  options.shards_per_client = 0;
  options.shard_size = 4;
  Partition partition = Split(Sorted(1, 34), 1, options).value();
  CHECK(partition.clients[0].train.size() == 12);
  CHECK(partition.clients[1].train.size() == 12);
  CHECK(partition.clients[2].train.size() == 8);
  CHECK(partition.notes == std::vector<std::string>{"2 examples belong to no client"});
  options.keep_incomplete_shard = true;
  partition = Split(Sorted(1, 34), 1, options).value();
  CHECK(DistinctRows(partition) == 34);
  CHECK(partition.notes.empty());
}

TEST_CASE("more shards than the data make are refused", "[unit]") {
  PartitionOptions options = Rule("shards", 5);
  options.shard_size = 4;
  const Error error = RefusalOf(Sorted(1, 34), options);
  CHECK(error.code == 1104);
  CHECK(error.message == "34 examples make 8 shards; 5 clients need 10");
}

TEST_CASE("natural makes one client for each owner, in order of first appearance", "[unit]") {
  const Dataset data = WithOwners({"s", "n", "s", "w", "n"});
  PartitionOptions options = Rule("natural", 0);
  options.shuffle = false;
  const Partition partition = Split(data, 1, options).value();
  REQUIRE(partition.clients.size() == 3);
  CHECK(partition.clients[0].name == "s");
  CHECK(partition.clients[0].train == RowList{0, 2});
  CHECK(partition.clients[1].name == "n");
  CHECK(partition.clients[2].train == RowList{3});
}

TEST_CASE("fewer clients are a seeded subset of the owners, in their order", "[unit]") {
  std::vector<std::string> owners;
  for (int i = 0; i < 20; ++i) owners.push_back("o" + std::to_string(i));
  const Dataset data = WithOwners(owners);
  PartitionOptions options = Rule("natural", 5);
  const auto names = [&] {
    std::vector<std::size_t> numbers;
    const Partition partition = Split(data, 1, options).value();
    for (const ClientPart& part : partition.clients) {
      numbers.push_back(std::stoul(part.name.substr(1)));
    }
    return numbers;
  };
  const auto first = names();
  CHECK(first.size() == 5);
  CHECK(std::is_sorted(first.begin(), first.end()));
  options.partition_seed = 43;
  CHECK(names() != first);
  options.num_clients = 21;
  const Error error = RefusalOf(data, options);
  CHECK(error.code == 1104);
  options.min_examples = 0;
  CHECK(RefusalOf(data, options).code == 1102);
}

TEST_CASE("a test part is joined by the owner's name, and owners without a client are listed",
          "[unit]") {
  Dataset train = WithOwners({"s", "n", "s"});
  train.owners_without_rows = {"east"};
  const Dataset test = WithOwners({"n", "west", "s", "n", "east"});
  const Partition partition = Split(train, 1, Rule("natural", 0), &test).value();
  CHECK(partition.clients[0].test_part == RowList{2});
  CHECK(partition.clients[1].test_part == RowList{0, 3});
  CHECK(partition.notes ==
        std::vector<std::string>{"no client for \"east\": no usable row",
                                 "no client for \"west\": rows in the test part only"});
}

TEST_CASE("natural without owners, unknown rules and empty requests are refused", "[unit]") {
  const Error natural = RefusalOf(Sorted(1, 5), Rule("natural", 0));
  CHECK(natural.code == 1103);
  CHECK(natural.hint == "give data.client_column or data.client_file");
  const Error rule = RefusalOf(Sorted(1, 5), Rule("square", 2));
  CHECK(rule.code == 1019);
  CHECK(rule.message == "this build has no partition \"square\"");
  CHECK(rule.hint == "it has iid, shards, dirichlet, natural");
  CHECK(RefusalOf(Sorted(1, 5), Rule("iid", 0)).code == 1102);
}

TEST_CASE("too little data for min_examples is refused before anything is drawn", "[unit]") {
  PartitionOptions options = Rule("iid", 3);
  options.min_examples = 4;
  const Error error = RefusalOf(Sorted(1, 11), options);
  CHECK(error.code == 1104);
  CHECK(error.message ==
        "3 clients with min_examples = 4 need 12 examples; the training part has 11");
  const Dataset owned = WithOwners({"n", "s", "s"});
  options = Rule("natural", 0);
  options.min_examples = 2;
  CHECK(RefusalOf(owned, options).message == "client \"n\" has 1 examples; min_examples = 2");
}

TEST_CASE("a client holds out the end of its own shuffle and keeps the order of the rest",
          "[unit]") {
  PartitionOptions options = Rule("natural", 0);
  options.client_test_fraction = 0.25;
  options.shuffle = false;
  const Dataset data = WithOwners({"a", "b", "a", "a", "a", "a", "b", "a", "a", "a"});
  const Partition partition = Split(data, 1, options).value();
  const ClientPart& a = partition.clients[0];
  REQUIRE(a.train.size() == 6);
  REQUIRE(a.test.size() == 2);
  CHECK(std::is_sorted(a.train.begin(), a.train.end()));
  CHECK(partition.clients[1].test.empty());
  CHECK(DistinctRows(partition) == 10);

  RowList order{0, 2, 3, 4, 5, 7, 8, 9};
  RandomStream stream(42, {.purpose = Purpose::kSplit, .client = 0});
  stream.Shuffle(std::span(order));
  RowList held(order.end() - 2, order.end());
  std::sort(held.begin(), held.end());
  CHECK(a.test == held);
}

TEST_CASE("a client's list is the purpose-17 shuffle of what it trains on", "[unit]") {
  const Dataset data = WithOwners({"a", "a", "a", "a", "a", "b", "b"});
  const Partition partition = Split(data, 1, Rule("natural", 0)).value();
  RowList expected{0, 1, 2, 3, 4};
  RandomStream stream(42, {.purpose = Purpose::kClientOrder, .client = 0});
  stream.Shuffle(std::span(expected));
  CHECK(partition.clients[0].train == expected);
}

TEST_CASE("max_examples leaves out a random rest and says how much", "[unit]") {
  PartitionOptions options = Rule("iid", 2);
  options.max_examples = 10;
  options.client_test_fraction = 0.2;
  const Partition partition = Split(Sorted(1, 60), 1, options).value();
  CHECK(partition.clients[0].train.size() == 8);
  CHECK(partition.clients[0].test.size() == 2);
  CHECK(partition.notes == std::vector<std::string>{"max_examples leaves out 40 examples"});
}

TEST_CASE("the label table counts and compares shares", "[unit]") {
  const Dataset data = WithLabels({0, 0, 1, 1});
  Partition partition;
  partition.clients.resize(2);
  partition.clients[0].train = {0};
  partition.clients[0].test = {1};
  partition.clients[1].train = {2, 3};
  const LabelTable table = TableOf(partition, data, 2);
  CHECK(table.counts == std::vector<std::uint32_t>{2, 0, 0, 2});
  CHECK(table.all == std::vector<std::uint64_t>{2, 2});
  CHECK(table.total_variation == std::vector<double>{0.5, 0.5});
}

TEST_CASE("partition.csv lists examples in order, names quoted where they must be", "[unit]") {
  Partition partition;
  partition.clients.resize(2);
  partition.clients[0].train = {2, 0};
  partition.clients[1].test = {1};
  CHECK(PartitionCsv(partition) == "example,client\n0,0\n1,1\n2,0\n");
  partition.clients[0].name = "north, \"old\"";
  partition.clients[1].name = "south";
  CHECK(
      PartitionCsv(partition) ==
      "example,client,owner\n0,0,\"north, \"\"old\"\"\"\n1,1,south\n2,0,\"north, \"\"old\"\"\"\n");
}

}  // namespace
}  // namespace skep::data
