// The command `new-app`: a project with libskep-client that builds and runs as it is.
#pragma once

#include <string>

#include "client/cli/console.h"

namespace skep::cli {

struct NewAppOptions {
  std::string name;  // of the folder and of the program
  bool is_cpp = false;
  bool is_c = false;
  bool is_python = false;
};

// Makes the folder `name` in the working folder; one that is there is not touched (SKEP-4004).
[[nodiscard]] int RunNewApp(const GlobalOptions& options, const NewAppOptions& app);

}  // namespace skep::cli
