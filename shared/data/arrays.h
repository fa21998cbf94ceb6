// Arrays: a folder of idx files read into inputs and classes.
//
// The format is idx.h's. Inputs have no names: one feature "x" stands for every value. Called by
// the reader; one thread. Source: docs/formats.md (idx).
#pragma once

#include <string>

#include "shared/base/result.h"
#include "shared/data/raw.h"
#include "shared/data/reader.h"

namespace skep::data {

// The training files of `folder`, its test files where it has them, else those of
// `options.test_path`. Classes are the labels in numerical order; given ones are matched by name if
// they are integers, else a label is an index into them. SKEP-1201, 1202, 7414 as `Load`.
[[nodiscard]] Result<RawData> ReadArrays(const std::string& folder, const DataOptions& options);

}  // namespace skep::data
