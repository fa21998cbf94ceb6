// What a check found, and how people read it.
//
// Plain values. Source: docs/conformance.md.
#pragma once

#include <string>
#include <vector>

namespace skep::conform {

enum class Verdict { kOk, kFail, kSkip };

// Of one check. `allowed` is empty where a sentence says it all.
struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string measured = {};  // for kSkip: the reason
  std::string allowed = {};
};
[[nodiscard]] Finding Passed(std::string measured = {});
[[nodiscard]] Finding Failed(std::string measured, std::string allowed);
[[nodiscard]] Finding Skipped(std::string reason);

struct Line {
  int number = 0;
  std::string name = {};
  Finding finding = {};
};

[[nodiscard]] std::string VerdictName(Verdict verdict);
// "  7  FAIL  download cut at 10 points: 1.6 MB sent again (allowed: at most 0.3 MB)"
[[nodiscard]] std::string TextOf(const Line& line);
// "20 ok, 1 FAIL, 1 skip"
[[nodiscard]] std::string SummaryOf(const std::vector<Line>& lines);
// 1 if one failed, else 0.
[[nodiscard]] int ExitCodeOf(const std::vector<Line>& lines);

}  // namespace skep::conform
