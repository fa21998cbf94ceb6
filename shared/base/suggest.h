// "Did you mean": the known name that is closest to one that is not known.
//
// For names of keys, values and commands that a person typed. Pure functions, any thread.
// Source: docs/reference/configuration.md (form of errors).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace skep {

// The known name within an edit distance of 2 (3 for names over 8 letters; the nearest, then the
// first); else one of which the given name is a whole-word part ("clients" of "clients_per_round":
// one that begins with it first, then the shortest). Empty if there is none.
[[nodiscard]] std::string Suggest(std::string_view given,
                                  const std::vector<std::string_view>& known);

// Insertions, deletions and substitutions of one byte (Levenshtein).
[[nodiscard]] std::size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace skep
