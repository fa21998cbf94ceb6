// Texts that `new` writes: experiment files with comments, and small example data.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
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

// An experiment on plays: `path` is a TOML string.
[[nodiscard]] std::string PlaysTemplate(const std::string& name, const std::string& path,
                                        std::uint32_t rounds);
// A short play of three roles that speak differently, always the same.
[[nodiscard]] std::string ExamplePlay();

// An experiment on windows of a sensor of six channels in "windows.csv".
[[nodiscard]] std::string SensorsTemplate(const std::string& name);
// Windows of 128 times and six channels, five activities of four people, always the same.
[[nodiscard]] std::string ExampleWindows();

// A table of measurements from three sites that differ, always the same.
[[nodiscard]] std::string ExampleTable();

}  // namespace skep::simulator
