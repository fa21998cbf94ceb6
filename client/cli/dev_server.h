// The command `dev-server`: an aggregator for one device of this machine, as long as it is needed.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/console.h"

namespace skep::cli {

struct DevServerOptions {
  std::string join_file;  // where the join string goes, mode 0600; empty: printed
  std::uint32_t rounds = 3;
  bool allows_root = false;
};

// Until the run is over, or SIGINT or SIGTERM.
[[nodiscard]] int RunDevServer(const GlobalOptions& options, const DevServerOptions& dev);

}  // namespace skep::cli
