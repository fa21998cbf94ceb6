// UTF-8 text as code points, and as a JSON string. What the messages of this folder need of
// Unicode.
//
// Not a validator of files: the TOML parser refuses what is not UTF-8. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace skep::config {

// The text cut into code points; a byte that is not part of one stands alone, as "?".
[[nodiscard]] std::vector<std::string> CodePoints(std::string_view text);
// The code point that `text` begins with; one byte where it begins with none. Not empty.
[[nodiscard]] std::string_view FirstPoint(std::string_view text);

// Whether a code point is not seen, or changes how others are: control characters, marks of
// direction, what has no width. The one list of these: whatever shows a user's text goes by it.
[[nodiscard]] bool IsHidden(std::string_view point);
// The same text with "?" for hidden characters and for what is not UTF-8: safe on a terminal, and
// as wide as before.
[[nodiscard]] std::string Printable(std::string_view text);
// "\u202E" in a TOML string.
[[nodiscard]] std::string TomlEscape(std::string_view point);
// A JSON string with its quotes, hidden characters escaped; what is not UTF-8 becomes "?".
[[nodiscard]] std::string JsonText(std::string_view text);

}  // namespace skep::config
