#include <array>

#include "kernels/backend.h"
#include "kernels/conv_loops.h"
#include "kernels/point_loops.h"
#include "kernels/sequence_loops.h"
#include "kernels/sum_loops.h"
#include "kernels/training_loops.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

constexpr std::array<Isa, 3> kAllIsas{Isa::kPortable, Isa::kAvx2, Isa::kAvx512};

bool IsAvailable(Isa isa) {
#ifdef SKEP_X86_KERNELS
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (isa == Isa::kAvx2) return has_avx2;
  if (isa == Isa::kAvx512) {
    return has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
  }
#endif
  return isa == Isa::kPortable;
}

}  // namespace

Isa DetectIsa() {
  return AvailableIsas().back();
}

std::vector<Isa> AvailableIsas() {
  std::vector<Isa> available;
  for (const Isa isa : kAllIsas) {
    if (IsAvailable(isa)) available.push_back(isa);
  }
  return available;
}

std::string IsaName(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kPortable:
      break;
  }
  return "portable";
}

Result<Isa> ParseIsa(const std::string& name) {
  if (name == "auto") return DetectIsa();
  for (const Isa isa : kAllIsas) {
    if (name != IsaName(isa)) continue;
    if (IsAvailable(isa)) return isa;
    return Error{1102, "isa \"" + name + "\" cannot run on this processor",
                 "use \"auto\" or \"" + IsaName(DetectIsa()) + "\""};
  }
  return Error{1102, "isa \"" + name + "\" is none of auto, portable, avx2, avx512", ""};
}

const ConvLoops& ConvLoopsFor(Isa isa) {
  SKEP_CHECK(IsAvailable(isa));
#ifdef SKEP_X86_KERNELS
  if (isa == Isa::kAvx2) return kConvLoopsAvx2;
  if (isa == Isa::kAvx512) return kConvLoopsAvx512;
#endif
  return kConvLoopsPortable;
}

const PointLoops& PointLoopsFor(Isa isa) {
  SKEP_CHECK(IsAvailable(isa));
#ifdef SKEP_X86_KERNELS
  if (isa == Isa::kAvx2) return kPointLoopsAvx2;
  if (isa == Isa::kAvx512) return kPointLoopsAvx512;
#endif
  return kPointLoopsPortable;
}

const SumLoops& SumLoopsFor(Isa isa) {
  SKEP_CHECK(IsAvailable(isa));
#ifdef SKEP_X86_KERNELS
  if (isa == Isa::kAvx2) return kSumLoopsAvx2;
  if (isa == Isa::kAvx512) return kSumLoopsAvx512;
#endif
  return kSumLoopsPortable;
}

const TrainingLoops& TrainingLoopsFor(Isa isa) {
  SKEP_CHECK(IsAvailable(isa));
#ifdef SKEP_X86_KERNELS
  if (isa == Isa::kAvx2) return kTrainingLoopsAvx2;
  if (isa == Isa::kAvx512) return kTrainingLoopsAvx512;
#endif
  return kTrainingLoopsPortable;
}

const SequenceLoops& SequenceLoopsFor(Isa isa) {
  SKEP_CHECK(IsAvailable(isa));
#ifdef SKEP_X86_KERNELS
  if (isa == Isa::kAvx2) return kSequenceLoopsAvx2;
  if (isa == Isa::kAvx512) return kSequenceLoopsAvx512;
#endif
  return kSequenceLoopsPortable;
}

}  // namespace skep::kernels
