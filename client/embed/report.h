// Report: what a storage folder says about its device, as JSON for applications.
//
// Reads files that are replaced whole, so a client may be at work in the folder meanwhile. Any
// thread. Source: skep/skep.h (..._json); Skep interfaces, section 9 (status, history).
#pragma once

#include <skep/skep.h>

#include <optional>
#include <string>

#include "client/agent/storage.h"
#include "client/embed/options.h"

namespace skep::embed {

// One object: enrolment, next check-in, today's bytes, eligibility by the library's own probes, and
// `last`, what the last run came to. `trains_on` may be empty.
[[nodiscard]] std::string StatusJson(const agent::Storage& storage, const Options& options,
                                     const std::optional<skep_outcome>& last,
                                     const std::string& trains_on);
// What options.device comes to on this machine: "CPU: no CUDA device: ...". Opens the device and
// closes it again.
[[nodiscard]] std::string TrainsOn(const Options& options);

// {"contributions": [...]}, newest first.
[[nodiscard]] std::string HistoryJson(const agent::Storage& storage);

}  // namespace skep::embed
