// Reports: one run as report.html, or several compared, made from their run.db alone.
//
// One file without script or network; the same run directory and version give the same bytes. One
// thread. Source: docs/reference (report.html); docs/formats.md (report).
#pragma once

#include <string>
#include <vector>

#include "shared/base/result.h"
#include "simulator/run_history.h"

namespace skep::simulator {

[[nodiscard]] std::string RenderReport(const RunHistory& run);

struct ComparedRun {
  std::string folder;  // as the user gave it
  RunHistory run;
};
// `baseline`: index of the run that differences refer to. Precondition: at least one run.
[[nodiscard]] std::string RenderComparison(const std::vector<ComparedRun>& runs,
                                           std::size_t baseline);

// Reads the runs of `folders` and writes their report, or the comparison of several. SKEP-4001.
[[nodiscard]] Status WriteReport(const std::vector<std::string>& folders, const std::string& output,
                                 const std::string& baseline = "");

}  // namespace skep::simulator
