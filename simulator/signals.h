// Signals: how Ctrl-C and SIGTERM ask a run to stop.
//
// First SIGINT: after the round. Second: now. Third: the process ends at once. SIGTERM and SIGHUP
// act as the first, then, after 10 s, as the second. Process-wide. Source: docs/reference (output
// of a run).
#pragma once

#include "simulator/simulation.h"

namespace skep::simulator {

// Installs the handlers; the request that they set lives as long as the process.
[[nodiscard]] const StopRequest& InstallSignals();
// 130 after SIGINT, 143 after SIGTERM or SIGHUP.
[[nodiscard]] int InterruptedExitCode();

}  // namespace skep::simulator
