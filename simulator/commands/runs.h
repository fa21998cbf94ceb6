// Commands about runs that are there: `runs` lists them, `report` draws them.
#pragma once

#include <string>
#include <vector>

#include "simulator/console.h"

namespace skep::simulator {

// The runs below `folder`.
[[nodiscard]] int RunsCommand(const std::string& folder, const Console& console);

struct ReportOptions {
  std::vector<std::string> folders;
  std::string output;    // empty: report.html in the one folder, comparison.html for several
  std::string baseline;  // one of the folders, or empty: the first
};
[[nodiscard]] int ReportCommand(const ReportOptions& options, const Console& console);

}  // namespace skep::simulator
