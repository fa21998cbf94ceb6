// The catalogue of error numbers (SKEP-nnnn): what each means, and what to do.
//
// One entry for every number that a user or a peer can meet; numbers are never used again for
// something else. The text of an entry is fixed: what happened in a particular case is in the
// Error's message.
//
// Called by `explain`, by the manual's generator, and by the two sides of the protocol for the
// retry class of a code. Constant data, any thread. Source: docs/reference/errors.md; Skep
// protocol 1.0, section 12.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skep {

// What a device may do after a code of the protocol; one that does not know the code obeys this.
enum class RetryClass : std::uint8_t {
  kNone = 0,       // not a code of the protocol, or the outcome of a task
  kNever = 1,      // do not repeat this request
  kSession = 2,    // repeat on the same session after the given time
  kReconnect = 3,  // close, and come back when told or by back-off
  kRejoin = 4,     // needs a new join string, or the operator
  kUpgrade = 5,    // needs other software
};

struct ErrorEntry {
  int number;
  std::string_view title;
  std::string_view happened;
  std::string_view causes;
  std::string_view remedy;
  RetryClass retry = RetryClass::kNone;
  bool closes_session = false;
  std::string_view since = "0.1.0";
};

// The entry of `number`, or null.
[[nodiscard]] const ErrorEntry* FindError(int number);
// What `explain SKEP-nnnn` prints; empty if there is no such number.
[[nodiscard]] std::string Explain(int number);
// "SKEP-1012", "skep-1012" or "1012".
[[nodiscard]] std::optional<int> ParseErrorNumber(std::string_view text);
// Every entry, by number.
[[nodiscard]] std::vector<const ErrorEntry*> AllErrors();
// The catalogue as a page of the manual, in Markdown.
[[nodiscard]] std::string ErrorReference();

// The tables behind the catalogue.
[[nodiscard]] std::span<const ErrorEntry> InputErrors();  // 10xx to 14xx, 22xx
// What travels, and what an application meets: 21xx, 22xx, 3xxx, 6001, 70xx to 74xx, 9001.
[[nodiscard]] std::span<const ErrorEntry> ProtocolErrors();
[[nodiscard]] std::span<const ErrorEntry> ServiceErrors();  // 40xx, 51xx to 54xx

}  // namespace skep
