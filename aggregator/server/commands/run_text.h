// A run as `run show` prints it, from the daemon's answer. Pure functions; any thread.
#pragma once

#include <string>

#include "aggregator/server/commands/daemon.h"

namespace skep::aggregator {

// The screen of `run show`: where it is, what it waits for and since when, counts, seed, model.
[[nodiscard]] std::string RunScreen(const View& run);
// One line of it: "run pump (7f3a11c2)  round 12/100, attempt 1  collecting  ...".
[[nodiscard]] std::string RunLine(const View& run);
// The same without the run: "round 12/100, attempt 1  collecting  ...".
[[nodiscard]] std::string PlaceLine(const View& run);
// "round=12/100 attempt=1 state=published loss=0.51 ok=10 ...": stable names, new ones at the end.
[[nodiscard]] std::string AttemptLine(const View& attempt, std::int64_t rounds);
// The last `count` attempts, one line each.
[[nodiscard]] std::string AttemptLines(const View& run, std::size_t count);
// How a run that is over ended: "run pump finished after 100 rounds", its reason, the model.
[[nodiscard]] std::string EndText(const View& run);

// Stopped, finished or halted; or paused by itself, which only an operator ends.
[[nodiscard]] bool IsOver(const View& run);
[[nodiscard]] bool HasSucceeded(const View& run);

}  // namespace skep::aggregator
