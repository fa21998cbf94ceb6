// Conditions: the state of this machine (power, battery, load, heat), and whether it allows work.
//
// What cannot be found out is unknown, and an unknown state does not satisfy a condition that is
// required. Reads files of the system and asks on its bus, for as long as the bus's patience at
// most; keeps nothing. Called before a connection and when a task is offered. Any thread. Source:
// Skep client library, section 7.
#pragma once

#include <optional>
#include <string>

#include "client/agent/system_bus.h"
#include "shared/base/result.h"

namespace skep::agent {

struct Conditions {
  bool has_battery = false;
  std::optional<bool> is_charging{};
  std::optional<double> battery{};  // 0..1
  std::optional<bool> is_idle{};
  std::optional<bool> is_unmetered{};
  std::optional<bool> is_cool{};  // below the passive trip points
};

// What the owner of a device demands before it works.
struct Eligibility {
  bool charging = false, idle = false, unmetered = false;
  double min_battery = 0.3;  // while it is not charging
};

// `system` and `processes` are where /sys and /proc lie.
[[nodiscard]] Conditions ProbeConditions(const std::string& system = "/sys",
                                         const std::string& processes = "/proc",
                                         const SystemBus& bus = SystemBus());

// SKEP-7401 names the first condition that is not met, and whether it is unknown. A machine that is
// not cool never works; one of which that is unknown may.
[[nodiscard]] Status CheckEligible(const Eligibility& required, const Conditions& conditions);

// "charging yes, unmetered unknown, no battery".
[[nodiscard]] std::string ConditionsText(const Conditions& conditions);

}  // namespace skep::agent
