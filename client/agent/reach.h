// Reach: what is said while the aggregator cannot be reached: cause, tries, and the next try.
//
// The same cause is repeated at most once a minute. Failures of trust are not this: they are said
// every time and name the certificates. A value; one thread. Source: Skep interfaces, section 5
// (unreachable is not untrusted).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shared/base/clock.h"
#include "shared/base/result.h"

namespace skep::agent {

// 3101 to 3115: a failure of trust, whatever the network does.
[[nodiscard]] bool IsTrustFailure(int code);

class Reach {
 public:
  // A try that failed; the next one comes after `next`. The line to print, unless the same was
  // printed less than a minute ago.
  [[nodiscard]] std::optional<std::string> Failed(SteadyTime now, const Error& why,
                                                  Nanoseconds next);
  void Succeeded() { *this = Reach(); }
  [[nodiscard]] std::uint32_t tries() const { return tries_; }

 private:
  std::uint32_t tries_ = 0;
  SteadyTime since_{};
  std::optional<SteadyTime> told_;
  std::string cause_;
};

}  // namespace skep::agent
