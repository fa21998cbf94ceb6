#include "benchmarks/measure.h"

#include <algorithm>
#include <fstream>

#include "shared/base/clock.h"

namespace skep::bench {
namespace {

Side Time(const std::function<void()>& run, std::size_t calls) {
  const SteadyTime wall = ReadClock().steady;
  const Nanoseconds cpu = ThreadCpuTime();
  for (std::size_t i = 0; i < calls; ++i) run();
  const double per_call = 1e6 / static_cast<double>(calls);
  return {Seconds(ThreadCpuTime() - cpu) * per_call, Seconds(ReadClock().steady - wall) * per_call};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Side MedianSide(const std::vector<Side>& sides) {
  std::vector<double> cpu;
  std::vector<double> wall;
  for (const Side& side : sides) {
    cpu.push_back(side.cpu_us);
    wall.push_back(side.wall_us);
  }
  return {Median(cpu), Median(wall)};
}

}  // namespace

Comparison ComparePairs(const std::function<void()>& a, const std::function<void()>& b,
                        std::size_t calls, std::size_t pairs) {
  Time(a, calls);
  Time(b, calls);
  std::vector<Side> of_a;
  std::vector<Side> of_b;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < pairs; ++i) {
    of_a.push_back(Time(a, calls));
    of_b.push_back(Time(b, calls));
    ratios.push_back(of_a.back().cpu_us / of_b.back().cpu_us);
  }
  const auto [smallest, largest] = std::minmax_element(ratios.begin(), ratios.end());
  return {MedianSide(of_a), MedianSide(of_b), Median(ratios), *smallest, *largest};
}

Side Measure(const std::function<void()>& run, std::size_t calls, std::size_t repeats) {
  Time(run, calls);
  std::vector<Side> sides;
  for (std::size_t i = 0; i < repeats; ++i) sides.push_back(Time(run, calls));
  return MedianSide(sides);
}

std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace skep::bench
