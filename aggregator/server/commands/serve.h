// `serve`: the daemon. Looks at everything first, then opens the store, listens, and works until a
// signal ends it.
//
// SIGTERM and SIGINT drain (exit 0); a second one stops at once (143, 130): what was acknowledged
// is on disk either way. Source: docs/operations.md (commands, service behaviour).
#pragma once

#include "aggregator/server/commands/console.h"

namespace skep::aggregator {

// Exit 2 with every problem before anything listens; 70 after a storage failure.
int RunServe(const GlobalOptions& options);

}  // namespace skep::aggregator
