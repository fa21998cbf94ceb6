// The command `check`: does a program that embeds the library behave?
#pragma once

#include <string>
#include <vector>

#include "client/cli/console.h"

namespace skep::cli {

struct CheckOptions {
  std::vector<std::string> words;  // the program and its arguments
  std::string only;                // "1,2,20", or empty
  std::string forget_args;
  std::string experiment;
  std::string memory;         // "256MiB", or empty
  std::string bytes_per_day;  // likewise
  double cpu = 0.7;
  unsigned threads = 1;
  bool is_nondeterministic = false;
  bool trains_on_battery = false;
  bool allows_root = false;
};

[[nodiscard]] int RunCheck(const GlobalOptions& options, const CheckOptions& check);

}  // namespace skep::cli
