// Interleaved measurement: A B A B ..., CPU time of the thread, medians over pairs.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace skep::bench {

struct Side {
  double cpu_us = 0;   // median over pairs, per call
  double wall_us = 0;  // likewise
};

// Ratio = a / b of CPU time, per pair.
struct Comparison {
  Side a;
  Side b;
  double median_ratio = 0;
  double smallest_ratio = 0;
  double largest_ratio = 0;
};

// Runs each side once to warm up, then `pairs` pairs of `calls` calls each.
[[nodiscard]] Comparison ComparePairs(const std::function<void()>& a,
                                      const std::function<void()>& b, std::size_t calls,
                                      std::size_t pairs);
[[nodiscard]] Side Measure(const std::function<void()>& run, std::size_t calls,
                           std::size_t repeats);

// The processor's name as the system gives it, or "unknown".
[[nodiscard]] std::string ProcessorName();

}  // namespace skep::bench
