// Texts that `new` writes: experiment files with comments, and a small example table.
//
// Pure functions; any thread.
#pragma once

#include <string>

namespace skep::simulator {

[[nodiscard]] std::string FashionTemplate(const std::string& name);

struct TableTemplateValues {
  std::string name;  // of the run
  std::string path;  // TOML strings from here on
  std::string label;
  std::string client;       // or empty: no owners
  bool has_header = false;  // said to be there; else it is found
  std::string missing;      // or empty, as the next
  std::string decimal;
};
[[nodiscard]] std::string TableTemplate(const TableTemplateValues& values);

// A table of measurements from three sites that differ, always the same.
[[nodiscard]] std::string ExampleTable();

}  // namespace skep::simulator
