// Terminal: what the program may print where, and text that fits.
//
// Reads the environment and the terminal's state; sets neither. Any thread.
// Source: docs/reference (output of a run).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace skep::simulator {

struct TextStyle {
  bool is_utf8 = true;  // else "#" bars, "-" for the middle dot, no sparklines
  bool has_color = false;
};

enum class ColorChoice { kAuto, kAlways, kNever };

// Whether `file` (1 or 2) is a terminal on which lines can be redrawn: TERM is set and not "dumb".
[[nodiscard]] bool IsTerminal(int file);
[[nodiscard]] std::size_t TerminalWidth(int file);  // columns; 80 if nothing says
// By LC_ALL, LC_CTYPE, LANG; by --color, then NO_COLOR, then whether `file` is a terminal.
[[nodiscard]] TextStyle StyleFor(int file, ColorChoice color);

// `text` in plain ASCII: "-" for the middle dot, "alpha", "...".
[[nodiscard]] std::string AsciiText(std::string_view text);
// `text` as the style can show it.
[[nodiscard]] std::string Shown(std::string_view text, const TextStyle& style);
// Code points that take a column; escape sequences take none.
[[nodiscard]] std::size_t Columns(std::string_view text);
// The first `width` columns of `text`, with the colour switched off if it was cut.
[[nodiscard]] std::string FitColumns(std::string_view text, std::size_t width);

// `text` in lines of at most `width` columns, broken where it says so: before the middle dot
// between two parts, or at a gap of two spaces or more; what follows is indented by `indent`. A
// part that is wider than that stays whole. `width` 0: one line.
[[nodiscard]] std::string WrapColumns(std::string_view text, std::size_t width, std::size_t indent);

enum class Paint { kBold, kDim, kRed, kYellow, kGreen };
[[nodiscard]] std::string Painted(std::string_view text, Paint paint, const TextStyle& style);

}  // namespace skep::simulator
