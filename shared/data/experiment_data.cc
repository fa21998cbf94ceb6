#include "shared/data/experiment_data.h"

namespace skep::data {

PartitionOptions PartitionOptionsOf(const config::DataConfig& config, std::uint64_t run_seed) {
  PartitionOptions options;
  options.rule = config.partition;
  options.num_clients = config.num_clients;
  options.partition_seed = config.partition_seed;
  options.run_seed = run_seed;
  options.dirichlet_alpha = config.dirichlet_alpha;
  options.self_balancing = config.self_balancing;
  options.partition_attempts = config.partition_attempts;
  options.repair = config.repairs_partition;
  options.min_examples = config.min_examples;
  options.max_examples = config.max_examples;
  options.shards_per_client = config.shards_per_client;
  options.shard_size = config.shard_size;
  options.keep_incomplete_shard = config.keep_incomplete_shard;
  options.shuffle = config.shuffle;
  options.client_test_fraction = config.client_test_fraction;
  return options;
}

DataOptions DataOptionsOf(const config::DataConfig& config, std::uint64_t run_seed) {
  DataOptions options;
  options.dataset = config.dataset;
  options.path = config.path;
  options.format = config.format;
  options.label = config.label;
  options.label_index = config.label_index;
  options.client_column = config.client_column;
  options.client_file = config.client_file;
  options.header = config.header;
  options.missing = config.missing;
  options.decimal = config.decimal;
  options.task = config.task;
  options.text_length = config.text_length;
  options.normalize = config.normalize;
  options.test_path = config.test_path;
  options.test_fraction = config.test_fraction;
  options.partition_seed = config.partition_seed;
  options.features = config.features;
  options.classes = config.classes;
  options.categories = config.categories;
  options.scaling = config.scaling;
  options.clients = PartitionOptionsOf(config, run_seed);
  return options;
}

}  // namespace skep::data
