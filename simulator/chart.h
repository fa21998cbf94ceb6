// Charts as SVG: lines, bands, stacked bars and histograms with axes, legend, title and
// description.
//
// All share one view box width, so that text keeps one size on the page. Colours are classes of the
// page's style. Deterministic: coordinates have one decimal. Pure functions; any thread.
// Source: docs/formats.md (report).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace skep::simulator {

struct Point {
  double x = 0;
  double y = 0;
};

struct Line {
  std::string name;
  std::vector<Point> points;  // in order of x
  bool is_dashed = false;
};

// The area between two lines of the same x.
struct Band {
  std::string name;  // in the legend; empty: not there
  std::vector<double> x;
  std::vector<double> low;
  std::vector<double> high;
};

struct ChartText {
  std::string title;    // what is shown
  std::string finding;  // in one sentence
  std::string x_title;
  std::string y_title;  // with its unit
};

struct LineChart {
  ChartText text;
  std::vector<Line> lines;                           // colours in this order
  std::vector<Band> bands;                           // in the colours of the lines
  std::optional<std::pair<double, double>> y_range;  // fixed; else from the data
  std::optional<double> goal;                        // a dashed line
  std::string goal_name;
  bool may_be_logarithmic = false;  // if largest / smallest > 100
  bool starts_at_zero = false;
};
[[nodiscard]] std::string Draw(const LineChart& chart);

struct BarChart {
  ChartText text;
  std::vector<std::string> parts;           // names of what is stacked
  std::vector<std::string> bars;            // names, for the titles
  std::vector<std::vector<double>> values;  // per bar, per part
  std::string unit;                         // after a value in titles
  bool counts_whole = false;                // clients, examples: ticks at whole numbers
  // Tick labels of the x axis: place (0 to number of bars) and text. Empty: no ticks.
  std::vector<std::pair<double, std::string>> ticks;
};
[[nodiscard]] std::string Draw(const BarChart& chart);

// 4 to 7 ticks at 1, 2, 5 x 10^n that cover [low, high].
[[nodiscard]] std::vector<double> TicksFor(double low, double high);
// Powers of ten (with 2 and 5 between where they are few).
[[nodiscard]] std::vector<double> LogarithmicTicksFor(double low, double high);
[[nodiscard]] std::string TickText(double value, double step);

// At most 1,000 points: of each bin its smallest, its largest and its last.
[[nodiscard]] std::vector<Point> Thinned(const std::vector<Point>& points);

// Counts of `values` in equal bins of [low, high].
[[nodiscard]] std::vector<double> Histogram(const std::vector<double>& values, double low,
                                            double high, std::size_t bins);

}  // namespace skep::simulator
