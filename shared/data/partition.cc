#include "shared/data/partition.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "shared/base/rng.h"
#include "shared/base/try.h"
#include "shared/data/dirichlet.h"
#include "shared/data/fraction.h"

namespace skep::data {
namespace {

using RowList = std::vector<std::uint32_t>;

constexpr std::array<const char*, 4> kRules{"iid", "shards", "dirichlet", "natural"};
constexpr std::uint32_t kOwnerSubset = 1;  // round word of purpose 14: which owners take part

RowList AllRows(std::size_t rows) {
  RowList list(rows);
  std::iota(list.begin(), list.end(), 0U);
  return list;
}

RandomStream PartitionStream(const PartitionOptions& options) {
  return {options.partition_seed, {.purpose = Purpose::kPartition}};
}

// Consecutive parts of `list`; the first size mod `parts` are one longer.
std::vector<RowList> CutEvenly(const RowList& list, std::size_t parts) {
  std::vector<RowList> cut(parts);
  auto from = list.begin();
  for (std::size_t k = 0; k < parts; ++k) {
    const std::size_t size = list.size() / parts + (k < list.size() % parts ? 1 : 0);
    cut[k].assign(from, from + static_cast<std::ptrdiff_t>(size));
    from += static_cast<std::ptrdiff_t>(size);
  }
  return cut;
}

std::vector<RowList> SplitIid(const Dataset& train, const PartitionOptions& options) {
  RowList order = AllRows(train.rows);
  PartitionStream(options).Shuffle(std::span(order));
  return CutEvenly(order, options.num_clients);
}

struct Shards {
  std::size_t size = 0;
  std::size_t count = 0;                // whole ones, and the incomplete one if it is kept
  std::vector<std::size_t> per_client;  // how many each client takes
};

Result<Shards> PlanShards(std::size_t rows, const PartitionOptions& options) {
  const std::size_t clients = options.num_clients;
  const std::size_t each = options.shards_per_client;
  Shards shards;
  shards.size = options.shard_size > 0 ? options.shard_size
                : each > 0             ? rows / (clients * each)
                                       : 0;
  if (shards.size > 0) {
    shards.count = rows / shards.size;
    if (options.keep_incomplete_shard && rows % shards.size != 0) ++shards.count;
  }
  const std::size_t needed = each > 0 ? clients * each : clients;
  if (shards.count < needed) {
    return Error{1104,
                 std::to_string(rows) + " examples make " + std::to_string(shards.count) +
                     " shards; " + std::to_string(clients) + " clients need " +
                     std::to_string(needed),
                 "lower data.num_clients, data.shards_per_client or data.shard_size"};
  }
  shards.per_client.assign(clients, each > 0 ? each : shards.count / clients);
  for (std::size_t k = 0; each == 0 && k < shards.count % clients; ++k) ++shards.per_client[k];
  return shards;
}

Result<std::vector<RowList>> SplitShards(const Dataset& train, const PartitionOptions& options) {
  SKEP_ASSIGN(const Shards shards, PlanShards(train.rows, options));
  RowList sorted = AllRows(train.rows);
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::uint32_t a, std::uint32_t b) {
    return train.labels[a] < train.labels[b];
  });
  RowList order = AllRows(shards.count);
  PartitionStream(options).Shuffle(std::span(order));
  std::vector<RowList> lists;
  std::size_t next = 0;
  for (const std::size_t count : shards.per_client) {
    RowList& list = lists.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t from = order[next++] * shards.size;
      const std::size_t to = std::min(from + shards.size, sorted.size());
      list.insert(list.end(), sorted.begin() + static_cast<std::ptrdiff_t>(from),
                  sorted.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  return lists;
}

// The owners that become clients, in order of their first appearance.
Result<RowList> ChosenOwners(const Dataset& train, const PartitionOptions& options) {
  RowList owners = AllRows(train.owner_names.size());
  if (options.num_clients == 0 || options.num_clients == owners.size()) return owners;
  if (options.num_clients > owners.size()) {
    return Error{1102,
                 "data.num_clients = " + std::to_string(options.num_clients) +
                     ", but the training part has " + std::to_string(owners.size()) + " owners",
                 ""};
  }
  RandomStream stream(options.partition_seed, {.purpose = Purpose::kSplit, .round = kOwnerSubset});
  stream.ShuffleFront(std::span(owners), options.num_clients);
  owners.resize(options.num_clients);
  std::sort(owners.begin(), owners.end());
  return owners;
}

Result<std::vector<ClientPart>> SplitNatural(const Dataset& train,
                                             const PartitionOptions& options) {
  if (train.owner.empty()) {
    return Error{1103, "partition \"natural\" needs to know whose each row is",
                 "give data.client_column or data.client_file"};
  }
  SKEP_ASSIGN(const RowList owners, ChosenOwners(train, options));
  constexpr std::uint32_t kNobody = 0xFFFFFFFF;
  RowList client_of(train.owner_names.size(), kNobody);
  std::vector<ClientPart> clients(owners.size());
  for (std::size_t k = 0; k < owners.size(); ++k) {
    client_of[owners[k]] = static_cast<std::uint32_t>(k);
    clients[k].name = train.owner_names[owners[k]];
  }
  for (std::uint32_t row = 0; row < train.rows; ++row) {
    const std::uint32_t client = client_of[train.owner[row]];
    if (client != kNobody) clients[client].train.push_back(row);
  }
  return clients;
}

// "a", "b" and 3 more
std::string Listed(const std::vector<std::string>& names) {
  constexpr std::size_t kListed = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kListed); ++i) {
    text += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
  }
  if (names.size() > kListed) text += " and " + std::to_string(names.size() - kListed) + " more";
  return text;
}

// Gives each client its rows of the test part and says which owners have no client, and why.
void JoinTestPart(Partition& partition, const Dataset& train, const Dataset* test) {
  const std::set<std::string> trained(train.owner_names.begin(), train.owner_names.end());
  std::set<std::string> test_only;
  if (test != nullptr && !test->owner.empty()) {
    std::map<std::string, std::size_t> number;
    for (std::size_t k = 0; k < partition.clients.size(); ++k)
      number[partition.clients[k].name] = k;
    for (std::uint32_t row = 0; row < test->rows; ++row) {
      const std::string& name = test->owner_names[test->owner[row]];
      const auto client = number.find(name);
      if (client != number.end()) partition.clients[client->second].test_part.push_back(row);
      if (!trained.contains(name)) test_only.insert(name);
    }
  }
  std::vector<std::string> unusable;
  for (const std::string& name : train.owners_without_rows) {
    if (!trained.contains(name)) unusable.push_back(name);
    test_only.erase(name);
  }
  if (!unusable.empty()) {
    partition.notes.push_back("no client for " + Listed(unusable) + ": no usable row");
  }
  if (!test_only.empty()) {
    partition.notes.push_back("no client for " + Listed({test_only.begin(), test_only.end()}) +
                              ": rows in the test part only");
  }
}

// Holds out, cuts to the limit and shuffles one client's list.
class Finisher {
 public:
  explicit Finisher(const PartitionOptions& options) : options_(options) {}

  void Finish(ClientPart& part, ClientNumber client) {
    const std::size_t all = part.train.size();
    const std::size_t limit = options_.max_examples == 0 ? all : options_.max_examples;
    const std::size_t kept = std::min(all, limit);
    const std::size_t held = FloorOf(kept, options_.client_test_fraction);
    if (kept < all || held > 0) Choose(part, client, kept, held);
    left_out_ += all - kept;
    if (!options_.shuffle) return;
    RandomStream stream(options_.partition_seed,
                        {.purpose = Purpose::kClientOrder, .client = client});
    stream.Shuffle(std::span(part.train));
  }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  // Of one shuffle the first `kept` stay, the last `held` of them as test rows; the others keep
  // their order.
  void Choose(ClientPart& part, ClientNumber client, std::size_t kept, std::size_t held) const {
    enum class Use : std::uint8_t { kLeftOut, kTrain, kTest };
    RowList places = AllRows(part.train.size());
    RandomStream stream(options_.partition_seed, {.purpose = Purpose::kSplit, .client = client});
    stream.Shuffle(std::span(places));
    std::vector<Use> use(places.size(), Use::kLeftOut);
    for (std::size_t i = 0; i < kept; ++i) {
      use[places[i]] = i < kept - held ? Use::kTrain : Use::kTest;
    }
    RowList train;
    for (std::size_t place = 0; place < use.size(); ++place) {
      if (use[place] == Use::kTrain) train.push_back(part.train[place]);
      if (use[place] == Use::kTest) part.test.push_back(part.train[place]);
    }
    part.train = std::move(train);
    std::sort(part.test.begin(), part.test.end());
  }

  const PartitionOptions& options_;
  std::uint64_t left_out_ = 0;
};

Status CheckSizes(const Partition& partition, const PartitionOptions& options) {
  for (std::size_t k = 0; k < partition.clients.size(); ++k) {
    const ClientPart& part = partition.clients[k];
    if (part.train.size() >= options.min_examples) continue;
    const std::string name = part.name.empty() ? std::to_string(k) : "\"" + part.name + "\"";
    return Error{1104,
                 "client " + name + " has " + std::to_string(part.train.size()) +
                     " examples; min_examples = " + std::to_string(options.min_examples),
                 "lower data.min_examples or data.num_clients"};
  }
  return Ok();
}

Status CheckRequest(const Dataset& train, const PartitionOptions& options) {
  if (std::find(kRules.begin(), kRules.end(), options.rule) == kRules.end()) {
    return Error{1019, "this build has no partition \"" + options.rule + "\"",
                 "it has iid, shards, dirichlet, natural"};
  }
  if (options.rule != "natural" && options.num_clients == 0) {
    return Error{1102, "data.num_clients = 0; at least 1", ""};
  }
  if (train.labels_per_row != 1 && options.rule != "natural" && options.rule != "iid") {
    return Error{1103,
                 "partition \"" + options.rule +
                     "\" splits examples by their class; each of these has many labels",
                 "set data.partition to natural or iid"};
  }
  const std::uint64_t needed = std::uint64_t{options.num_clients} * options.min_examples;
  if (needed > train.rows) {
    return Error{1104,
                 std::to_string(options.num_clients) + " clients with min_examples = " +
                     std::to_string(options.min_examples) + " need " + std::to_string(needed) +
                     " examples; the training part has " + std::to_string(train.rows),
                 "lower data.num_clients or data.min_examples"};
  }
  if (options.rule == "dirichlet" && !(options.dirichlet_alpha > 0)) {
    return Error{1102, "data.dirichlet_alpha is above 0", ""};
  }
  return Ok();
}

Result<std::vector<RowList>> ListsOf(const Dataset& train, std::uint32_t classes,
                                     const PartitionOptions& options,
                                     std::vector<std::string>& notes) {
  if (options.rule == "iid") return SplitIid(train, options);
  if (options.rule == "shards") return SplitShards(train, options);
  return SplitDirichlet(train, classes, options, notes);
}

void NoteUnused(Partition& partition, const Dataset& train, std::uint64_t left_out) {
  std::size_t used = 0;
  for (const ClientPart& part : partition.clients) used += part.train.size() + part.test.size();
  if (left_out > 0) {
    partition.notes.push_back("max_examples leaves out " + std::to_string(left_out) + " examples");
  }
  const std::size_t unused = train.rows - used - left_out;
  if (unused > 0) {
    partition.notes.push_back(std::to_string(unused) + " examples belong to no client");
  }
}

}  // namespace

Result<Partition> Split(const Dataset& train, std::uint32_t classes,
                        const PartitionOptions& options, const Dataset* test) {
  SKEP_TRY(CheckRequest(train, options));
  Partition partition;
  if (options.rule == "natural") {
    SKEP_ASSIGN(partition.clients, SplitNatural(train, options));
    JoinTestPart(partition, train, test);
  } else {
    SKEP_ASSIGN(std::vector<RowList> lists, ListsOf(train, classes, options, partition.notes));
    partition.clients.resize(lists.size());
    for (std::size_t k = 0; k < lists.size(); ++k) partition.clients[k].train = std::move(lists[k]);
  }
  SKEP_TRY(CheckSizes(partition, options));
  Finisher finisher(options);
  for (std::size_t k = 0; k < partition.clients.size(); ++k) {
    finisher.Finish(partition.clients[k], static_cast<ClientNumber>(k));
  }
  NoteUnused(partition, train, finisher.left_out());
  return partition;
}

std::vector<std::string> PartitionNames() {
  return {kRules.begin(), kRules.end()};
}

}  // namespace skep::data
