// The command `check`: is an experiment valid, what would it do, does it repeat.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/console.h"

namespace skep::simulator {

struct CheckOptions {
  std::string file;
  std::vector<std::string> sets;
  bool shows_effective = false;  // every key with its value and source
  bool is_determinism = false;   // train the first rounds twice and compare
  std::uint32_t rounds = 5;
};
[[nodiscard]] int CheckCommand(const CheckOptions& options, const Console& console);

}  // namespace skep::simulator
