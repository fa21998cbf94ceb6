// What experiment.toml derives and forbids across keys. Between the reader and the typed
// Experiment; not for other files.
#pragma once

#include <string>

#include "shared/config/experiment.h"
#include "shared/config/reader.h"

namespace skep::config {

// Defaults that depend on other keys, in the two steps that the reader needs.
void DeriveBeforeConditions(Reading& reading, const std::string& file, Program program);
void DeriveAfterConditions(Reading& reading);
// clients_per_round, min_reports; once num_clients is known.
void DeriveCounts(Effective& effective);

void CheckExperiment(Reading& reading);
void CheckCounts(Reading& reading);
// Warnings: what is allowed but seldom meant.
void AddWarnings(Reading& reading, Program program);

// Invited clients of a round. Precondition: clients_per_round has a value.
[[nodiscard]] std::uint64_t InvitedClients(const Effective& effective);

}  // namespace skep::config
