// The character sets of the protocol's strings.
//
// Used by the walker on what peers send, and by whoever makes names (configuration, data readers),
// so that both sides of a connection agree on what a name is. Bytes in, yes or no out; no lengths
// but those of the sets themselves. Source: Skep protocol 1.0, section 1.
#pragma once

#include <string_view>

namespace skep::wire {

// Populations, runs, hints, metric names: [A-Za-z0-9_-]{1,64}.
[[nodiscard]] bool IsName(std::string_view text);
// Tensors and parameters: [A-Za-z0-9_./:-]{1,64}.
[[nodiscard]] bool IsKey(std::string_view text);
// Printable ASCII, 0x20..0x7E; may be empty.
[[nodiscard]] bool IsText(std::string_view text);
// What people call their columns and classes: 1..64 bytes of valid UTF-8 without control and
// direction characters and line separators, and without white space at either end.
[[nodiscard]] bool IsLabelText(std::string_view text);

}  // namespace skep::wire
