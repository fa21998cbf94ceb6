#include "client/conform/report.h"

#include <algorithm>
#include <utility>

namespace skep::conform {

Finding Passed(std::string measured) {
  return {Verdict::kOk, std::move(measured), {}};
}
Finding Failed(std::string measured, std::string allowed) {
  return {Verdict::kFail, std::move(measured), std::move(allowed)};
}
Finding Skipped(std::string reason) {
  return {Verdict::kSkip, std::move(reason), {}};
}

std::string VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kFail:
      return "FAIL";
    case Verdict::kSkip:
      break;
  }
  return "skip";
}

std::string TextOf(const Line& line) {
  std::string number = std::to_string(line.number);
  number.insert(0, number.size() < 2 ? 2 - number.size() : 0, ' ');
  std::string verdict = VerdictName(line.finding.verdict);
  verdict.resize(4, ' ');
  std::string text = number + "  " + verdict + "  " + line.name;
  if (!line.finding.measured.empty()) text += ": " + line.finding.measured;
  if (!line.finding.allowed.empty()) text += " (allowed: " + line.finding.allowed + ")";
  return text;
}

std::string SummaryOf(const std::vector<Line>& lines) {
  const auto count = [&](Verdict verdict) {
    return std::to_string(std::count_if(lines.begin(), lines.end(), [&](const Line& line) {
      return line.finding.verdict == verdict;
    }));
  };
  return count(Verdict::kOk) + " ok, " + count(Verdict::kFail) + " FAIL, " + count(Verdict::kSkip) +
         " skip";
}

int ExitCodeOf(const std::vector<Line>& lines) {
  return std::any_of(lines.begin(), lines.end(),
                     [](const Line& line) { return line.finding.verdict == Verdict::kFail; })
             ? 1
             : 0;
}

}  // namespace skep::conform
