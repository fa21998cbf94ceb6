// ClientConfig: client.toml of the reference client as typed values.
//
// What the plan decides (columns, classes, scaling) is not here. Plain values, any thread.
// Source: docs/reference/client.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shared/config/experiment.h"

namespace skep::config {

struct ClientConfig {
  std::string endpoint;    // HOST:PORT, or empty: from the enrolment
  std::string population;  // or empty: from the enrolment
  std::string storage_dir;
  struct Eligibility {
    bool charging = false, idle = false, unmetered = false;
    double min_battery = 0.3;
  } eligibility;
  struct Limits {
    std::uint32_t threads = 1;
    double cpu = 0.7;
    std::string device = "auto";
    std::uint64_t memory = 0, storage = 0, bytes_per_day = 0;
    Nanoseconds per_run{}, between_runs{};
  } limits;
  DataConfig data;  // its first part; dataset, path and experiment empty: no data given
  std::string
      experiment;  // path of an experiment.toml whose part `part` this client trains on, or empty
  std::optional<std::uint32_t> part;  // nothing: the client number
  std::string log_format = "text";    // text, json
  std::string log_level = "info";     // error, warning, info, debug
};

struct ClientLoadOptions {
  std::vector<std::string> sets;
};

// Relative paths are below the folder of the file.
[[nodiscard]] Validated<Loaded<ClientConfig>> LoadClientConfig(const std::string& path,
                                                               const ClientLoadOptions& options);
[[nodiscard]] Validated<Loaded<ClientConfig>> ParseClientConfig(const std::string& text,
                                                                const std::string& path,
                                                                const ClientLoadOptions& options);

}  // namespace skep::config
