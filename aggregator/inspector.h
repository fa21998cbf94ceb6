// UpdateInspector: the checks of an update's whole body, before any sum sees it.
//
// Called by the server when the last chunk is in and by the simulator on the worker that trained.
// Pure; any thread. Source: Skep protocol 1.0, section 9.2, steps B2 to B4.
#pragma once

#include <string>

#include "aggregator/engine/run_spec.h"
#include "shared/base/bytes.h"
#include "shared/model/layout.h"
#include "shared/wire/messages.h"

namespace skep::aggregator {

struct Inspection {
  int code = 0;        // 0, or SKEP-2101, 2104, 2105
  double norm = 0;     // of the averaged tensors
  std::string detail;  // for the operator's log: tensor, count, first index, or the norm; never a
                       // value of the update
};

// Precondition: `encoding` was admitted (it is plain float: encoding 1).
[[nodiscard]] Inspection Inspect(BytesView body, const model::Layout& layout,
                                 const AdmissionLimits& limits);

}  // namespace skep::aggregator
