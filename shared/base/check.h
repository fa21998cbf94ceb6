// SKEP_CHECK: a broken promise of our own code ends the program at once. Never reachable from a
// peer's bytes or a user's input: those are Results.
#pragma once

namespace skep {

// Prints the place and the condition to standard error and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace skep

#define SKEP_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::skep::CheckFailed(__FILE__, __LINE__, #condition))
