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
// The same text with "?" for control characters and for what is not UTF-8: safe on a terminal.
[[nodiscard]] std::string Printable(std::string_view text);
// A JSON string with its quotes; what is not UTF-8 becomes "?".
[[nodiscard]] std::string JsonText(std::string_view text);

}  // namespace skep::config
