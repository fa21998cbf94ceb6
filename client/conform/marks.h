// The table that programs under check train on, and the values in it that must not be found
// anywhere else.
//
// Text only. Source: docs/conformance.md.
#pragma once

#include <string>
#include <string_view>

namespace skep::conform {

// A CSV file: vibration, temperature, current and the label `state`; 600 rows that a small model
// can learn. Each row has a mark.
[[nodiscard]] std::string MarkedTable();
// An experiment.toml for that table at `path`.
[[nodiscard]] std::string ExperimentFor(const std::string& path);
// Whether a mark is in there: as text, or as a number of 4 or 8 bytes.
[[nodiscard]] bool HoldsMark(std::string_view bytes);

}  // namespace skep::conform
