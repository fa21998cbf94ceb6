// Conditions: the state of this machine (power, battery, load, heat), and whether it allows work.
//
// What cannot be found out is unknown, and an unknown state does not satisfy a condition that is
// required. Reads files of the system; keeps nothing. Called before a connection and when a task is
// offered. Any thread. Source: Skep client library, section 7.
#pragma once

#include <optional>
#include <string>

#include "shared/base/result.h"
#include "shared/config/client_config.h"

namespace skep::agent {

struct Conditions {
  bool has_battery = false;
  std::optional<bool> is_charging;
  std::optional<double> battery;  // 0..1
  std::optional<bool> is_idle;
  std::optional<bool> is_unmetered;
  bool is_hot = false;  // a passive trip point is passed
};

// `system` and `processes` are where /sys and /proc lie.
[[nodiscard]] Conditions ProbeConditions(const std::string& system = "/sys",
                                         const std::string& processes = "/proc");

// SKEP-7401 names the first condition that is not met, and whether it is unknown.
[[nodiscard]] Status CheckEligible(const config::ClientConfig::Eligibility& required,
                                   const Conditions& conditions);

// "charging yes, unmetered unknown, no battery".
[[nodiscard]] std::string ConditionsText(const Conditions& conditions);

}  // namespace skep::agent
