#include "simulator/chart_frame.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "shared/config/utf8.h"
#include "simulator/figures.h"
#include "simulator/html.h"

namespace skep::simulator {
namespace {

constexpr double kWidth = 400;  // of every picture
// Widths of characters at the page's 12.5 px, in a wide font: what is too long would overlap.
constexpr double kUsualWidth = 7.9;
constexpr double kNarrowWidth = 4.9;
constexpr double kBroadWidth = 12.3;
constexpr double kRow = 18;
constexpr double kRight = 14;
constexpr double kBottom = 40;
constexpr double kSwatch = 19;
constexpr std::size_t kLongestName = 26;
constexpr std::size_t kMost = 7;

double TextWidth(const std::string& text) {
  constexpr std::string_view kNarrowOnes = "ijlftrI.,:;'|!()[] ";
  constexpr std::string_view kBroadOnes = "mwMWQ%@";
  double width = 0;
  for (const std::string& point : config::CodePoints(text)) {
    const bool is_narrow = kNarrowOnes.find(point) != std::string_view::npos;
    const bool is_broad = kBroadOnes.find(point) != std::string_view::npos;
    width += is_narrow ? kNarrowWidth : is_broad ? kBroadWidth : kUsualWidth;
  }
  return width;
}

std::string Shortened(const std::string& text) {
  const std::vector<std::string> points = config::CodePoints(text);
  if (points.size() <= kLongestName) return text;
  std::string shortened;
  for (std::size_t i = 0; i + 1 < kLongestName; ++i) shortened += points[i];
  return shortened + "\xE2\x80\xA6";
}

std::string TextAt(double x, double y, const std::string& anchor, const std::string& text,
                   bool is_soft) {
  return fmt::format("<text{} x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
                     is_soft ? " class=\"soft\"" : "", Coordinate(x), Coordinate(y), anchor,
                     Escape(text));
}

std::vector<Tick> YTicks(const Scale& scale) {
  std::vector<Tick> ticks;
  const std::vector<double> places = scale.is_logarithmic
                                         ? LogarithmicTicksFor(scale.low, scale.high)
                                         : TicksFor(scale.low, scale.high);
  const double step = places.size() > 1 ? places[1] - places[0] : 1;
  for (const double place : places) {
    if (place < scale.low - 1e-9 * step || place > scale.high + 1e-9 * step) continue;
    ticks.push_back({.place = place, .text = TickText(place, scale.is_logarithmic ? place : step)});
  }
  return ticks;
}

std::string Swatch(const LegendItem& item, double x, double y) {
  const std::string from = Coordinate(x);
  const std::string to = Coordinate(x + kSwatch - 5);
  const std::string middle = Coordinate(y - 4);
  switch (item.shape) {
    case LegendShape::kLine:
    case LegendShape::kDashed:
    case LegendShape::kGoal: {
      const std::string css = item.shape == LegendShape::kGoal     ? item.css
                              : item.shape == LegendShape::kDashed ? "stroke dash " + item.css
                                                                   : "stroke " + item.css;
      return fmt::format("<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n", css,
                         from, to, middle, middle);
    }
    case LegendShape::kBand:
    case LegendShape::kBox:
      return fmt::format("<rect class=\"{} {}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"10.0\"/>\n",
                         item.shape == LegendShape::kBand ? "band" : "bar", item.css, from,
                         Coordinate(y - 9), Coordinate(kSwatch - 5));
  }
  return "";
}

// Labels that would touch their neighbours: every second one goes until none does.
std::vector<Tick> Fitting(std::vector<Tick> ticks, const Frame& frame) {
  const auto collide = [&](const std::vector<Tick>& these) {
    for (std::size_t i = 1; i < these.size(); ++i) {
      const double room = frame.X(these[i].place) - frame.X(these[i - 1].place);
      if ((TextWidth(these[i].text) + TextWidth(these[i - 1].text)) / 2 + 6 > room) return true;
    }
    return false;
  };
  while (ticks.size() > 2 && collide(ticks)) {
    std::vector<Tick> kept;
    for (std::size_t i = 0; i < ticks.size(); i += 2) kept.push_back(ticks[i]);
    ticks = std::move(kept);
  }
  return ticks;
}

}  // namespace

std::string Coordinate(double value) {
  const double rounded = std::round(value * 10) / 10;
  return fmt::format("{:.1f}", rounded == 0 ? 0.0 : rounded);
}

double Scale::Share(double value) const {
  double share = 0;
  if (is_logarithmic) {
    share = (std::log(std::max(value, low)) - std::log(low)) / (std::log(high) - std::log(low));
  } else {
    share = (value - low) / (high - low);
  }
  return std::clamp(share, 0.0, 1.0);
}

std::vector<double> TicksFor(double low, double high) {
  if (!(high > low)) high = low + 1;
  const auto ticks_at = [&](double step) {
    std::vector<double> ticks;
    const auto first = static_cast<long>(std::floor(low / step + 1e-9));
    const auto last = static_cast<long>(std::ceil(high / step - 1e-9));
    for (long i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
    return ticks;
  };
  // From fine to coarse, at most 2.5 times at once: the first step with at most 7 ticks has 4 or
  // more.
  const int power = static_cast<int>(std::floor(std::log10(high - low))) - 2;
  for (int exponent = power;; ++exponent) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      // Division gives the nearest double of 0.1, 0.2, ...; a product of 10^-1 would not.
      const double step =
          exponent < 0 ? factor / std::pow(10.0, -exponent) : factor * std::pow(10.0, exponent);
      std::vector<double> ticks = ticks_at(step);
      if (ticks.size() <= kMost) return ticks;
    }
  }
}

std::vector<double> LogarithmicTicksFor(double low, double high) {
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  const bool has_between = last - first <= 2;
  const int stride = std::max(1, (last - first + 6) / 7);
  std::vector<double> ticks;
  for (int exponent = first; exponent <= last; exponent += stride) {
    const double power = std::pow(10.0, exponent);
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor != 1.0 && !has_between) continue;
      if (factor * power >= low && factor * power <= high) ticks.push_back(factor * power);
    }
  }
  return ticks;
}

std::string TickText(double value, double step) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size >= 1e6 || size < 1e-4) return fmt::format("{:.0e}", value);
  if (step >= 1000) return fmt::format("{}k", TickText(value / 1000, step / 1000));
  const int decimals = step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
  return fmt::format("{:.{}f}", value, std::max(decimals, 0));
}

std::string Legend(const std::vector<LegendItem>& items, Frame& frame) {
  double widest = 0;
  for (const Tick& tick : YTicks(frame.y)) widest = std::max(widest, TextWidth(tick.text));
  frame.left = widest + 12;
  frame.width = kWidth - kRight - frame.left;
  double x = frame.left;
  double y = 14 + kRow;
  std::string svg;
  for (const LegendItem& item : items) {
    const std::string name = Shortened(item.name);
    const double width = kSwatch + TextWidth(name) + 7;
    if (x > frame.left && x + width > kWidth) {
      x = frame.left;
      y += kRow;
    }
    svg += Swatch(item, x, y) + TextAt(x + kSwatch, y, "start", name, false);
    x += width;
  }
  frame.top = (items.empty() ? 14 : y) + 12;
  return svg;
}

std::string Axes(const Frame& frame, const ChartText& text, const std::vector<Tick>& x_ticks) {
  std::string svg = TextAt(frame.left, 14, "start", text.y_title, true);
  const std::string right = Coordinate(frame.left + frame.width);
  for (const Tick& tick : YTicks(frame.y)) {
    const std::string y = Coordinate(frame.Y(tick.place));
    svg += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n",
                       Coordinate(frame.left), right, y, y);
    svg += TextAt(frame.left - 6, frame.Y(tick.place) + 4, "end", tick.text, true);
  }
  const double bottom = frame.top + frame.height;
  svg += fmt::format("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n",
                     Coordinate(frame.left), right, Coordinate(bottom), Coordinate(bottom));
  std::vector<Tick> shown = x_ticks;
  std::erase_if(shown, [&](const Tick& tick) {
    return tick.place < frame.x.low || tick.place > frame.x.high;
  });
  for (const Tick& tick : Fitting(std::move(shown), frame)) {
    const double x = frame.X(tick.place);
    svg += fmt::format("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n",
                       Coordinate(x), Coordinate(x), Coordinate(bottom), Coordinate(bottom + 4));
    svg += TextAt(std::min(x, kWidth - 2 - TextWidth(tick.text) / 2), bottom + 17, "middle",
                  tick.text, true);
  }
  return svg + TextAt(frame.left + frame.width / 2, bottom + 34, "middle", text.x_title, true);
}

std::string Picture(const Frame& frame, const ChartText& text, const std::string& body) {
  return fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"100%\" "
      "role=\"img\"><title>{}</title><desc>{}</desc>\n"
      "{}</svg>\n",
      kWidth, std::ceil(frame.top + frame.height + kBottom), Escape(text.title),
      Escape(text.finding), body);
}

}  // namespace skep::simulator
