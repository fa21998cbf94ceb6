// The rows of experiment.toml, in three files because there are many. Only for schema construction.
#pragma once

#include <vector>

#include "shared/config/schema.h"

namespace skep::config {

[[nodiscard]] std::vector<Section> DataAndModelSections();
[[nodiscard]] std::vector<Section> TrainingSections();
[[nodiscard]] std::vector<Section> ProtectionSections();
[[nodiscard]] std::vector<Section> SimulationSections();

// The rows of [data] from `dataset` to `scaling`, which client.toml shares.
[[nodiscard]] std::span<const Row> DataSourceRows();

}  // namespace skep::config
