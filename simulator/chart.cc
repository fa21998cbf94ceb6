#include "simulator/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "shared/config/utf8.h"
#include "simulator/chart_frame.h"
#include "simulator/figures.h"
#include "simulator/html.h"

namespace skep::simulator {
namespace {

constexpr std::size_t kMostPoints = 1000;
constexpr std::size_t kMostSpots = 300;
constexpr double kLogarithmicFrom = 100;
constexpr double kBarShare = 0.84;

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool empty() const { return low > high; }
};

std::string ColorClass(std::size_t series) {
  return fmt::format("s{}", series % kColors);
}

Extent YExtent(const LineChart& chart) {
  Extent extent;
  for (const Line& line : chart.lines) {
    for (const Point& point : line.points) extent.Add(point.y);
  }
  for (const Band& band : chart.bands) {
    for (const double value : band.low) extent.Add(value);
    for (const double value : band.high) extent.Add(value);
  }
  if (chart.goal) extent.Add(*chart.goal);
  return extent;
}

Extent XExtent(const LineChart& chart) {
  Extent extent;
  for (const Line& line : chart.lines) {
    for (const Point& point : line.points) extent.Add(point.x);
  }
  return extent;
}

Scale YScale(const LineChart& chart) {
  if (chart.y_range)
    return {.low = chart.y_range->first, .high = chart.y_range->second, .is_logarithmic = false};
  Extent extent = YExtent(chart);
  if (extent.empty()) return {.low = 0, .high = 1, .is_logarithmic = false};
  const bool is_logarithmic =
      chart.may_be_logarithmic && extent.low > 0 && extent.high / extent.low > kLogarithmicFrom;
  if (is_logarithmic) return {.low = extent.low, .high = extent.high, .is_logarithmic = true};
  if (chart.starts_at_zero) extent.Add(0);
  if (extent.low == extent.high) extent.Add(extent.low == 0 ? 1 : extent.low * 1.1);
  const std::vector<double> ticks = TicksFor(extent.low, extent.high);
  return {.low = std::min(ticks.front(), extent.low),
          .high = std::max(ticks.back(), extent.high),
          .is_logarithmic = false};
}

Scale XScale(const Extent& extent) {
  if (extent.empty()) return {.low = 0, .high = 1, .is_logarithmic = false};
  if (extent.low == extent.high)
    return {.low = extent.low - 1, .high = extent.high + 1, .is_logarithmic = false};
  return {.low = extent.low, .high = extent.high, .is_logarithmic = false};
}

std::string DrawBand(const Frame& frame, const Band& band, std::size_t series) {
  std::string points;
  for (std::size_t i = 0; i < band.x.size(); ++i)
    points +=
        fmt::format("{},{} ", Coordinate(frame.X(band.x[i])), Coordinate(frame.Y(band.high[i])));
  for (std::size_t i = band.x.size(); i-- > 0;)
    points +=
        fmt::format("{},{} ", Coordinate(frame.X(band.x[i])), Coordinate(frame.Y(band.low[i])));
  if (!points.empty()) points.pop_back();
  return fmt::format("<polygon class=\"band {}\" points=\"{}\"/>\n", ColorClass(series), points);
}

std::string DrawLine(const Frame& frame, const Line& line, std::size_t series) {
  std::string points;
  for (const Point& point : Thinned(line.points)) {
    if (!std::isfinite(point.y)) continue;
    points += fmt::format("{},{} ", Coordinate(frame.X(point.x)), Coordinate(frame.Y(point.y)));
  }
  if (!points.empty()) points.pop_back();
  const bool is_dashed = line.is_dashed || series >= kColors;
  return fmt::format("<polyline class=\"stroke {}{}\" points=\"{}\"/>\n", ColorClass(series),
                     is_dashed ? " dash" : "", points);
}

// Invisible until pointed at: they carry the values.
std::string DrawSpots(const Frame& frame, const LineChart& chart, std::size_t series) {
  const Line& line = chart.lines[series];
  const std::size_t step = (line.points.size() + kMostSpots - 1) / kMostSpots;
  std::string svg;
  for (std::size_t i = 0; i < line.points.size(); i += std::max<std::size_t>(step, 1)) {
    const Point& point = line.points[i];
    if (!std::isfinite(point.y)) continue;
    svg += fmt::format(
        "<circle class=\"spot {}\" cx=\"{}\" cy=\"{}\" r=\"4\"><title>{}</title></circle>\n",
        ColorClass(series), Coordinate(frame.X(point.x)), Coordinate(frame.Y(point.y)),
        Escape(fmt::format("{} {}: {} {}", chart.text.x_title, Significant(point.x, 7), line.name,
                           Significant(point.y))));
  }
  return svg;
}

std::string DrawGoal(const Frame& frame, const LineChart& chart) {
  if (!chart.goal) return "";
  const std::string y = Coordinate(frame.Y(*chart.goal));
  return fmt::format(
      "<line class=\"goal\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"><title>{}</title></line>\n",
      Coordinate(frame.left), Coordinate(frame.left + frame.width), y, y,
      Escape(fmt::format("{} {}", chart.goal_name, Significant(*chart.goal))));
}

std::vector<LegendItem> LegendOf(const LineChart& chart) {
  std::vector<LegendItem> items;
  if (chart.lines.size() > 1 || chart.goal) {
    for (std::size_t i = 0; i < chart.lines.size(); ++i)
      items.push_back({.name = chart.lines[i].name,
                       .css = ColorClass(i),
                       .shape = chart.lines[i].is_dashed || i >= kColors ? LegendShape::kDashed
                                                                         : LegendShape::kLine});
  }
  for (std::size_t i = 0; i < chart.bands.size(); ++i) {
    if (!chart.bands[i].name.empty())
      items.push_back(
          {.name = chart.bands[i].name, .css = ColorClass(i), .shape = LegendShape::kBand});
  }
  if (chart.goal)
    items.push_back({.name = fmt::format("{} {}", chart.goal_name, Significant(*chart.goal, 2)),
                     .css = "goal",
                     .shape = LegendShape::kGoal});
  return items;
}

}  // namespace

std::string Draw(const LineChart& chart) {
  Frame frame;
  frame.y = YScale(chart);
  frame.x = XScale(XExtent(chart));
  ChartText text = chart.text;
  if (frame.y.is_logarithmic) text.y_title += ", logarithmic axis";
  std::string body = Legend(LegendOf(chart), frame);
  std::vector<Tick> x_ticks;
  const std::vector<double> places = TicksFor(frame.x.low, frame.x.high);
  for (const double place : places) {
    if (std::floor(place) == place) x_ticks.push_back({.place = place, .text = TickText(place, 1)});
  }
  body += Axes(frame, text, x_ticks);
  for (std::size_t i = 0; i < chart.bands.size(); ++i) body += DrawBand(frame, chart.bands[i], i);
  body += DrawGoal(frame, chart);
  for (std::size_t i = 0; i < chart.lines.size(); ++i) body += DrawLine(frame, chart.lines[i], i);
  for (std::size_t i = 0; i < chart.lines.size(); ++i) body += DrawSpots(frame, chart, i);
  return Picture(frame, text, body);
}

std::string Draw(const BarChart& chart) {
  Frame frame;
  Extent extent;
  extent.Add(0);
  for (const auto& bar : chart.values) {
    double sum = 0;
    for (const double value : bar) sum += value;
    extent.Add(sum);
  }
  // Few whole things are not counted in halves.
  constexpr double kLeastForWholeTicks = 4;
  if (chart.counts_whole || extent.high == 0) extent.Add(kLeastForWholeTicks);
  frame.y = {.low = 0, .high = TicksFor(0, extent.high).back(), .is_logarithmic = false};
  frame.x = {.low = 0,
             .high = static_cast<double>(std::max<std::size_t>(chart.values.size(), 1)),
             .is_logarithmic = false};
  std::vector<LegendItem> items;
  for (std::size_t i = 0; i < chart.parts.size() && chart.parts.size() > 1; ++i)
    items.push_back({.name = chart.parts[i],
                     .css = ColorClass(i) + (i >= kColors ? " faint" : ""),
                     .shape = LegendShape::kBox});
  std::string body = Legend(items, frame);
  std::vector<Tick> ticks;
  for (const auto& [place, name] : chart.ticks) ticks.push_back({.place = place, .text = name});
  body += Axes(frame, chart.text, ticks);
  const double slot = frame.width / frame.x.high;
  for (std::size_t k = 0; k < chart.values.size(); ++k) {
    double below = 0;
    for (std::size_t part = 0; part < chart.values[k].size(); ++part) {
      const double value = chart.values[k][part];
      if (value <= 0) continue;
      const double top = frame.Y(below + value);
      const double height = frame.Y(below) - top;
      below += value;
      std::string name = chart.bars[k];
      if (chart.parts.size() > 1) name += ", " + chart.parts[part];
      body += fmt::format(
          "<rect class=\"bar {}{}\" x=\"{}\" y=\"{}\" width=\"{}\" "
          "height=\"{}\"><title>{}</title></rect>\n",
          ColorClass(part), part >= kColors ? " faint" : "",
          Coordinate(frame.left + slot * (static_cast<double>(k) + (1 - kBarShare) / 2)),
          Coordinate(top), Coordinate(slot * kBarShare), Coordinate(std::max(height, 0.1)),
          Escape(fmt::format("{}: {} {}", name, Significant(value, 4), chart.unit)));
    }
  }
  return Picture(frame, chart.text, body);
}

std::vector<Point> Thinned(const std::vector<Point>& points) {
  if (points.size() <= kMostPoints) return points;
  const std::size_t bins = kMostPoints / 3;
  std::vector<Point> kept;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    const auto from = points.begin() + static_cast<std::ptrdiff_t>(bin * points.size() / bins);
    const auto to = points.begin() + static_cast<std::ptrdiff_t>((bin + 1) * points.size() / bins);
    const auto below = [](const Point& a, const Point& b) { return a.y < b.y; };
    std::vector<Point> chosen{*std::min_element(from, to, below),
                              *std::max_element(from, to, below), *(to - 1)};
    std::sort(chosen.begin(), chosen.end(),
              [](const Point& a, const Point& b) { return a.x < b.x; });
    for (const Point& point : chosen) {
      if (kept.empty() || kept.back().x != point.x) kept.push_back(point);
    }
  }
  return kept;
}

std::vector<double> Histogram(const std::vector<double>& values, double low, double high,
                              std::size_t bins) {
  std::vector<double> counts(bins);
  for (const double value : values) {
    const double share = (value - low) / (high - low);
    const auto bin = static_cast<std::ptrdiff_t>(std::floor(share * static_cast<double>(bins)));
    const auto last = static_cast<std::ptrdiff_t>(bins) - 1;
    counts[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(bin, 0, last))] += 1;
  }
  return counts;
}

}  // namespace skep::simulator
