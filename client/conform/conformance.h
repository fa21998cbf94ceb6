// The conformance harness: does a program that embeds the library behave as its device's owner may
// expect? It starts the program against an aggregator of its own and makes things go wrong.
//
// Called by `skep-client check`. It links nothing of the embedder and nothing of the library.
// Source: docs/conformance.md.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/conform/report.h"
#include "client/conform/request.h"
#include "shared/base/result.h"

namespace skep::conform {

// The numbers that --only may name.
[[nodiscard]] std::set<int> KnownNumbers();

// Makes the checks that are asked for, one after the other; each line is also told when it is
// there. Errors of FindProgram, FindCompanion and Host::Start: nothing could be checked.
[[nodiscard]] Result<std::vector<Line>> RunChecks(const Request& request,
                                                  const std::function<void(const Line&)>& tell);

}  // namespace skep::conform
