// Diagnosis: everything that a check-in needs, tried step by step, up to the first that fails.
//
// Says of each step whether it is well, or the number and the remedy. Contributes nothing: it opens
// a session only if no other process is connected as this device, and asks for no task. One thread.
// Source: Skep interfaces, sections 5 and 9 (doctor).
#pragma once

#include <skep/skep.h>

#include "client/embed/app_host.h"
#include "client/embed/options.h"

namespace skep::embed {

// As skep_diagnose: `tell` hears of each step as it is done.
[[nodiscard]] skep_status Diagnose(const Options& options, Hook<skep_step_fn> tell);

}  // namespace skep::embed
