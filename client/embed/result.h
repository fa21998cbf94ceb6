// Result of a run: from the agent's outcome, or an error, to what skep_outcome says.
//
// Pure functions; any thread. Source: Skep client library, section 4 (results).
#pragma once

#include <skep/skep.h>

#include "client/agent/agent.h"
#include "shared/base/result.h"

namespace skep::embed {

// SKEP_OK and so on for SKEP-nnnn; 0: SKEP_NO_WORK.
[[nodiscard]] skep_status StatusOfCode(int code);

[[nodiscard]] skep_outcome OutcomeOf(const agent::Outcome& outcome);
// Of a call that came to nothing.
[[nodiscard]] skep_outcome OutcomeOf(const Error& why);
// The end of a message that is too long is cut, never within a character.
void SetMessage(skep_outcome& outcome, std::string_view message);

}  // namespace skep::embed
