// What main says of a command line: the text that repeats it, and why it was refused.
#pragma once

#include <string>

#include "simulator/console.h"

namespace skep::simulator {

// The command line for a shell; an absolute path keeps its last part alone, so that no file of a
// run says where it was made.
[[nodiscard]] std::string CommandText(int argc, char** argv);

// Says what is wrong with the command line; `command` may be empty. Returns exit code 2.
[[nodiscard]] int RefuseCommandLine(const Console& console, const std::string& message,
                                    const std::string& hint, const std::string& command);

}  // namespace skep::simulator
