// The Dirichlet rule: each class is shared out by its own draw of Dir(alpha), tried again within
// bounds, then repaired.
//
// Called by Split. Source: docs/experiments.md (partitioners, Dirichlet).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/base/rng.h"
#include "shared/data/partition.h"

namespace skep::data {

// Row numbers by client, each in the order of classes. Warnings go to `notes`. SKEP-1104: clients
// stay below min_examples and repair is off. Precondition: clients x min_examples <= rows, alpha >
// 0.
[[nodiscard]] Result<std::vector<std::vector<std::uint32_t>>> SplitDirichlet(
    const Dataset& train, std::uint32_t classes, const PartitionOptions& options,
    std::vector<std::string>& notes);

// One draw of Dir(alpha) over `clients`, formed from logarithms so that a tiny alpha still yields
// shares that sum to 1.
[[nodiscard]] std::vector<double> DrawShares(RandomStream& stream, std::size_t clients,
                                             double alpha);

}  // namespace skep::data
