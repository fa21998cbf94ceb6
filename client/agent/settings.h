// What the enrolment and client.toml say together: whom to connect to, and for which population.
//
// Pure functions, but the last; any thread. Source: Skep interfaces, section 9 ([aggregator]).
#pragma once

#include <string>

#include "client/agent/conditions.h"
#include "client/agent/identity.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"
#include "shared/config/client_config.h"
#include "shared/net/endpoint.h"

namespace skep::agent {

// No right clock shows an earlier time than this version was made at.
[[nodiscard]] Status CheckClock(WallMs now);
// SKEP-3102 if this device's certificate has ended.
[[nodiscard]] Status CheckCertificate(const Identity& identity, WallMs now);

// SKEP-3103 if the configuration names another endpoint or population than the enrolment.
[[nodiscard]] Result<net::Endpoint> EndpointOf(const config::ClientConfig& config,
                                               const Identity& identity);
// SKEP-3103 also if the device is in several populations and the configuration names none.
[[nodiscard]] Result<std::string> PopulationOf(const config::ClientConfig& config,
                                               const Identity& identity);

// [eligibility] of client.toml.
[[nodiscard]] Eligibility EligibilityOf(const config::ClientConfig& config);

// What limits.device comes to on this machine: "CPU: no CUDA device: ...". SKEP-1102; 72xx where it
// names a device that cannot be used. Opens the device and closes it again.
[[nodiscard]] Result<std::string> FindDevice(const config::ClientConfig& config);

}  // namespace skep::agent
