// Normalise: from what was read to a Dataset, by one offset and scale for each number column (or
// all values of an array).
//
// The numbers used become part of the specification, so that whoever gets it scales alike. Called
// by the reader; one thread. Source: docs/reference/experiment.md (data.normalize).
#pragma once

#include "shared/base/result.h"
#include "shared/data/raw.h"
#include "shared/data/reader.h"

namespace skep::data {

// Fills in missing numbers by the training part's means, finds what scaling `options` leaves open,
// and scales both parts. `hash` is the caller's. SKEP-1202: a column without any number to fill in;
// errors of Split with normalize = "standard".
[[nodiscard]] Result<LoadedData> Normalise(RawData&& raw, const DataOptions& options);

}  // namespace skep::data
