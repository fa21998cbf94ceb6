// The command `partition`: who holds what, before anything trains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/console.h"

namespace skep::simulator {

struct PartitionCommandOptions {
  std::string file;
  std::vector<std::string> sets;
  std::uint32_t clients = 30;  // rows of the table
  std::string csv;             // files to write, or empty
  std::string svg;
};
[[nodiscard]] int PartitionCommand(const PartitionCommandOptions& options, const Console& console);

}  // namespace skep::simulator
