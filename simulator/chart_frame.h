// The frame of a chart: scales, axes, legend and the SVG element around them. Only chart.cc uses
// this.
#pragma once

#include <string>
#include <vector>

#include "simulator/chart.h"

namespace skep::simulator {

inline constexpr std::size_t kColors = 8;  // classes s0 to s7 of the page's style

struct Scale {
  double low = 0;
  double high = 1;
  bool is_logarithmic = false;

  // 0 at `low`, 1 at `high`; outside, the nearer end.
  [[nodiscard]] double Share(double value) const;
};

// Where the data are drawn, in units of the view box.
struct Frame {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 170;
  Scale x;
  Scale y;

  [[nodiscard]] double X(double value) const { return left + width * x.Share(value); }
  [[nodiscard]] double Y(double value) const { return top + height * (1 - y.Share(value)); }
};

struct Tick {
  double place = 0;
  std::string text;
};

enum class LegendShape { kLine, kDashed, kBand, kGoal, kBox };
struct LegendItem {
  std::string name;
  std::string css;
  LegendShape shape = LegendShape::kLine;
};

[[nodiscard]] std::string Coordinate(double value);  // one decimal
// Draws the legend and sets the frame's margins by it and by the y axis. Before everything else.
[[nodiscard]] std::string Legend(const std::vector<LegendItem>& items, Frame& frame);
[[nodiscard]] std::string Axes(const Frame& frame, const ChartText& text,
                               const std::vector<Tick>& x_ticks);
[[nodiscard]] std::string Picture(const Frame& frame, const ChartText& text,
                                  const std::string& body);

}  // namespace skep::simulator
