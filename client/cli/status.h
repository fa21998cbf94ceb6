// The commands `status` and `history`: what this device is, has done, and waits for.
//
// Read from the storage folder alone, also while another process works in it.
#pragma once

#include <cstddef>

#include "client/cli/console.h"

namespace skep::cli {

[[nodiscard]] int RunStatus(const GlobalOptions& options);
[[nodiscard]] int RunHistory(const GlobalOptions& options, std::size_t most);

}  // namespace skep::cli
