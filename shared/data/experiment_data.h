// What the section [data] of a configuration means for the reader and for the partition: one
// translation for the simulator, the aggregator and the client, so that all three see the same
// rows.
//
// Pure functions; any thread. Source: docs/reference/experiment.md ([data]).
#pragma once

#include <cstdint>

#include "shared/config/experiment.h"
#include "shared/data/partition.h"
#include "shared/data/reader.h"

namespace skep::data {

// `run_seed`: the experiment's, or 0 while it is not drawn; no split depends on it.
[[nodiscard]] PartitionOptions PartitionOptionsOf(const config::DataConfig& config,
                                                  std::uint64_t run_seed);
[[nodiscard]] DataOptions DataOptionsOf(const config::DataConfig& config, std::uint64_t run_seed);

}  // namespace skep::data
