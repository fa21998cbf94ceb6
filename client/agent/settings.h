// What the enrolment and the application's wishes say together: whom to connect to, and for which
// population.
//
// Pure functions; any thread. Source: Skep client library, section 3 (endpoint, population).
#pragma once

#include <string>

#include "client/agent/identity.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"
#include "shared/net/endpoint.h"

namespace skep::agent {

// No right clock shows an earlier time than this version was made at.
[[nodiscard]] Status CheckClock(WallMs now);
// SKEP-3102 if this device's certificate has ended.
[[nodiscard]] Status CheckCertificate(const Identity& identity, WallMs now);

// SKEP-3103 if another endpoint is wanted than that of the enrolment. Empty: no wish.
[[nodiscard]] Result<net::Endpoint> EndpointOf(const std::string& wanted, const Identity& identity);
// SKEP-3103 also if the device is in several populations and none is wanted.
[[nodiscard]] Result<std::string> PopulationOf(const std::string& wanted, const Identity& identity);

}  // namespace skep::agent
