// Doctor: everything that a check-in needs, tried step by step, up to the first that fails.
//
// Says of each step whether it is well, or the number and the remedy. Contributes nothing: it opens
// a session only if no other process is connected as this device, and asks for no task. Called by
// the command `doctor`. One thread. Source: Skep interfaces, sections 5 and 9.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "client/agent/loop.h"
#include "shared/base/result.h"
#include "shared/config/client_config.h"

namespace skep::agent {

struct Step {
  std::string name;  // "folder"
  std::string text;  // what was found
  std::optional<Error> problem;
};

struct DoctorSettings {
  config::ClientConfig config;
  std::string software;
  LinkLimits limits;
};

// `tell` hears of each step as it is done. The error of the last one, or nothing.
[[nodiscard]] Status Examine(const DoctorSettings& settings, Loop& loop,
                             const std::function<void(const Step&)>& tell);

}  // namespace skep::agent
