// FailureLines: what is said of clients whose update did not count, without drowning everything
// else.
//
// At most three lines a round, the rest folded by number; a number that keeps coming is said only
// every tenth time after its tenth round. One thread. Source: docs/reference (failures of a
// client).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "simulator/records.h"

namespace skep::simulator {

class FailureLines {
 public:
  void Start(const RunStart& start);

  // What to print now; empty for a success, and for what will be folded.
  [[nodiscard]] std::string On(const ClientRecord& client);
  // At the end of an attempt: the folded rest, and why it was abandoned.
  [[nodiscard]] std::vector<std::string> On(const RoundRecord& round);

 private:
  [[nodiscard]] bool IsToldNow(int code);
  [[nodiscard]] std::string Describe(const ClientRecord& client) const;
  [[nodiscard]] std::string HintFor(int code) const;

  std::map<std::string, std::string> values_;  // effective keys
  bool has_large_inputs_ = false;
  std::uint32_t told_ = 0;  // lines of this attempt
  std::map<int, std::uint32_t> folded_;
  std::vector<ClientRecord> kept_;  // the one that takes the third line if it stays alone
  std::map<int, std::uint32_t> rounds_with_;
  std::map<int, bool> is_told_;  // decided once an attempt
};

}  // namespace skep::simulator
