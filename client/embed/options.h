// Options of a client as values of its own: read, checked and with their strings copied.
//
// Pure functions; any thread. Source: skep/skep.h (skep_options); Skep client library, sections 2
// and 7.
#pragma once

#include <skep/skep.h>

#include <cstdint>
#include <optional>
#include <string>

#include "client/agent/agent.h"
#include "client/agent/conditions.h"
#include "client/embed/policy.h"
#include "kernels/backend.h"
#include "shared/base/log.h"
#include "shared/base/result.h"
#include "shared/net/endpoint.h"

namespace skep::embed {

struct Options {
  std::string join_string;
  std::string endpoint;
  std::string population;
  std::string app_version;
  std::string storage_dir;
  Policy policy;
  LogLevel log_level = LogLevel::kInfo;
  agent::Eligibility eligibility;
  agent::Caps caps;
  std::uint32_t max_threads = 1;
  std::string device = "auto";  // without the instruction set
  kernels::Isa isa = kernels::Isa::kPortable;
  std::optional<net::Endpoint> proxy;
  agent::LinkLimits limits{};  // the library's own; tests are less patient

  // "skep-client 0.1.0 (pump 2.4.1)": what the aggregator is told.
  [[nodiscard]] std::string Software() const;
};

// SKEP-7002 a struct_size that is none of the structure; SKEP-7001 an option out of range, which
// the message names.
[[nodiscard]] Result<Options> ReadOptions(const skep_options* from);

// As skep_options_init says.
[[nodiscard]] skep_options DefaultOptions();

}  // namespace skep::embed
