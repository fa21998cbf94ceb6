// Partition: which example belongs to which client.
//
// Every rule maps (labels, owners, parameters, seed) to lists of row numbers; no data are copied,
// every draw is a counter-based one under the partition seed. Source: docs/experiments.md
// (partitioners); Flower Datasets for the names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/dataset.h"

namespace skep::data {

struct PartitionOptions {
  std::string rule = "dirichlet";   // iid, shards, dirichlet, natural
  std::uint32_t num_clients = 100;  // natural: 0 = all owners
  std::uint64_t partition_seed = 42;
  std::uint64_t run_seed = 42;
  double dirichlet_alpha = 0.5;
  bool self_balancing = false;
  std::uint32_t partition_attempts = 10;
  bool repair = true;  // after the last attempt: move examples (true) or fail (false)
  std::uint32_t min_examples = 1;
  std::uint32_t max_examples = 0;       // 0 = no limit
  std::uint32_t shards_per_client = 2;  // 0, with a shard_size: all shards, as evenly as can be
  std::uint32_t shard_size = 0;         // 0 = floor(rows / (clients x shards_per_client))
  bool keep_incomplete_shard = false;
  bool shuffle = true;  // order of each client's list (purpose 17)
  double client_test_fraction = 0;
};

struct ClientPart {
  std::string name;                      // the owner's name, or empty
  std::vector<std::uint32_t> train;      // row numbers, in the client's order
  std::vector<std::uint32_t> test;       // held out on the client (purpose 14), ascending
  std::vector<std::uint32_t> test_part;  // natural: its rows of the test part, by the owner's name
};

struct Partition {
  std::vector<ClientPart> clients;  // by client number
  std::vector<std::string> notes;   // warnings, complete sentences
  bool cuts_in_file_order = false;
};

// SKEP-1104 too little data for min_examples; SKEP-1103 a rule without what it needs (natural
// without owners, one by class where examples have many labels); SKEP-1102 more clients than
// owners; SKEP-1019 a rule that this build does not have. `test` joins a test part to natural
// clients; owners without a client are in the notes.
[[nodiscard]] Result<Partition> Split(const Dataset& train, std::uint32_t classes,
                                      const PartitionOptions& options,
                                      const Dataset* test = nullptr);
[[nodiscard]] std::vector<std::string> PartitionNames();

// Examples per client and class (next_token: places), held-out ones included.
struct LabelTable {
  std::uint32_t classes = 0;
  std::vector<std::uint32_t> counts;    // clients x classes
  std::vector<std::uint64_t> all;       // per class, over all clients
  std::vector<double> total_variation;  // per client: half the sum of |its share - share of all|
};
[[nodiscard]] LabelTable TableOf(const Partition& partition, const Dataset& train,
                                 std::uint32_t classes);

// partition.csv: "example,client" in the order of examples, with a third column "owner" where
// clients have names.
[[nodiscard]] std::string PartitionCsv(const Partition& partition);

}  // namespace skep::data
