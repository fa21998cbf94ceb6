// Instruction sets: those that this build holds, those that this processor runs, their names, and
// the loops of each.
//
// The widest set is chosen at run time. Integer loops (sums, norms, differences) give the same bits
// on every set and always use the widest one; the loops of training may differ in last bits, so a
// run records its set and can pin one. Called by kernels/ alone, except for the names, which
// configuration and run records use. Thread-safe: constants.
#pragma once

#include <string>
#include <vector>

#include "shared/base/result.h"

namespace skep::kernels {

struct ConvLoops;
struct PointLoops;
struct SumLoops;
struct TrainingLoops;
struct SequenceLoops;

enum class Isa { kPortable, kAvx2, kAvx512 };

// The widest set of this build that this processor runs.
[[nodiscard]] Isa DetectIsa();
// All sets of this build that this processor runs, narrowest first; kPortable is always there.
[[nodiscard]] std::vector<Isa> AvailableIsas();

// "portable", "avx2", "avx512".
[[nodiscard]] std::string IsaName(Isa isa);
// One of these names, or "auto" for DetectIsa(). SKEP-1102: another name, or a set that cannot run
// here.
[[nodiscard]] Result<Isa> ParseIsa(const std::string& name);

// The tables of an available set.
[[nodiscard]] const ConvLoops& ConvLoopsFor(Isa isa);
[[nodiscard]] const PointLoops& PointLoopsFor(Isa isa);
[[nodiscard]] const SumLoops& SumLoopsFor(Isa isa);
[[nodiscard]] const TrainingLoops& TrainingLoopsFor(Isa isa);
[[nodiscard]] const SequenceLoops& SequenceLoopsFor(Isa isa);

}  // namespace skep::kernels
