// LocalData of this device: what client.toml says it trains on, read by the plan's specification.
//
// Either a source of its own (file or folder), or one part of an experiment's data, split as the
// simulator splits it. Only this device's rows stay in memory. Called when a task is offered, and
// by `doctor`. Source: Skep client library, section 6; Skep interfaces, section 9 ([data]).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/config/client_config.h"
#include "shared/data/data_spec.h"
#include "shared/data/dataset.h"

namespace skep::cli {

// What an experiment says about the work of one of its clients.
struct ExpectedWork {
  std::uint64_t model_bytes = 0;  // of one direction
  double tasks = 0;               // on average, in the whole run
};

// Rows of a data set of which nothing else is in memory.
struct LocalRows {
  std::shared_ptr<const data::Dataset> dataset;
  std::vector<std::uint32_t> train;
  std::vector<std::uint32_t> test;  // held out; empty if none
};

struct LocalData {
  LocalRows rows;
  std::string owner;                       // whose rows these are, where owners have names
  std::vector<std::string> notes;          // warnings of the reader, complete sentences
  std::optional<ExpectedWork> expected{};  // of a part of an experiment
};

// What the data of a device say by themselves.
[[nodiscard]] bool HasDataSource(const config::ClientConfig& config);

// `client`: its part of an experiment's data, unless the configuration names one. Without `plan`
// the data's own specification counts. SKEP-7402 where no data are configured or none are there;
// SKEP-7414 data that do not match the plan; SKEP-1102 no such part; SKEP-12xx as data::Load;
// SKEP-1xxx of a faulty experiment file. `text_length`: characters of an example of text, 0 as
// configured.
[[nodiscard]] Result<LocalData> LoadLocalData(const config::ClientConfig& config,
                                              ClientNumber client,
                                              const std::optional<data::DataSpec>& plan,
                                              std::uint32_t text_length = 0);

// Without reading them: SKEP-7402 no data are configured, SKEP-1201 what is configured is not
// there, or the errors of a faulty experiment file.
[[nodiscard]] Status CheckDataSource(const config::ClientConfig& config);

// The instruction set that an experiment pins: "auto", "avx2".
[[nodiscard]] Result<std::string> TrainingIsa(const config::ClientConfig& config);

}  // namespace skep::cli
