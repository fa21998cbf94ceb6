// Runs the built skep-simulator as a user would, and keeps what it printed.
#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace skep::simulator {

struct ProgramResult {
  int exit_code = -1;  // 128 + n: ended by signal n
  std::string output;
  std::string error;

  [[nodiscard]] std::size_t error_lines() const;
};

// `command` goes to a shell with `folder` as current directory; "skep-simulator" in it stands for
// the built program. `before` goes first: "LC_ALL=C TZ=Asia/Tokyo".
[[nodiscard]] ProgramResult RunProgram(const test::TemporaryFolder& folder,
                                       const std::string& command, const std::string& before = "");

[[nodiscard]] std::string ReadText(const std::string& path);  // empty if it is not there

}  // namespace skep::simulator
