// Plays: a text of speeches, read as examples of which character comes next; one owner a role.
//
// A line that ends with ":" after an empty line, or first in the file, names a role; the lines up
// to the next role line that are not empty are its lines. Of each role with at least two lines the
// last fifth (rounded up) is test. An example is a line: inputs are a newline and the line's
// characters, labels the characters and a newline, in pieces of one length. Called by the reader;
// one thread. Source: docs/formats.md (plays); McMahan et al. 2017, section 3 (the split).
#pragma once

#include "shared/base/result.h"
#include "shared/data/raw.h"
#include "shared/data/reader.h"

namespace skep::data {

// Reads `options.path`. Classes are the symbols of the training part in order of their code points,
// unless they are given; inputs are class numbers. A symbol that is no class is refused in the
// training part; in the test part it does not count as a label, stands as a newline among the
// inputs, and is in the notes. SKEP-1201, 1202, 7414 as `Load`; 1102 a length of text that is none;
// 1103 keys that mean nothing to text (owners' columns, scaling).
[[nodiscard]] Result<RawData> ReadPlays(const DataOptions& options);

}  // namespace skep::data
