#include "tests/gpu/bench.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "tests/kernels/reference.h"

namespace skep::gpu {
namespace {

constexpr std::uint64_t kBudget = std::uint64_t{1} << 30U;
constexpr double kDoubleTolerance = 1e-13;

}  // namespace

Bench::Bench(kernels::DeviceApi& device, std::uint32_t blocks, std::uint32_t threads)
    : device_(device),
      blocks_(blocks),
      threads_(threads),
      arena_(device, kBudget),
      queue_(device, stream_) {
  Result<kernels::StreamId> made = device.MakeStream();
  if (!made) {
    status_ = made.error();
    return;
  }
  stream_ = *made;
  queue_ = kernels::Queue(device, stream_);
}

Bench::~Bench() {
  if (stream_.id != 0) device_.FreeStream(stream_);
}

Floats Bench::Random(std::uint64_t count, float scale) {
  return kernels::test::RandomFloats(count, ++seed_, scale);
}

std::vector<std::uint32_t> Bench::RandomNumbers(std::uint64_t count, std::uint32_t below) {
  const auto labels = kernels::test::RandomLabels(count, below, ++seed_);
  return {labels.begin(), labels.end()};
}

void Bench::Note(Status status) {
  if (status_ && !status) status_ = std::move(status);
}

std::uint64_t Bench::Allocate(std::size_t bytes, std::size_t least) {
  if (!status_) return 0;
  Result<DevicePtr<std::byte>> at =
      arena_.Make<std::byte>(std::max(bytes, least), "the operation's arrays");
  if (!at) status_ = at.error();
  return at ? at->address : 0;
}

void Bench::CopyIn(std::uint64_t to, const void* from, std::size_t bytes) {
  if (status_ && bytes > 0) Note(device_.CopyIn(stream_, to, from, bytes));
  if (status_) Note(queue_.Synchronise());  // `from` may go
}

void Bench::CopyOut(void* to, std::uint64_t from, std::size_t bytes) {
  if (status_ && bytes > 0) Note(device_.CopyOut(stream_, to, from, bytes));
  if (status_) Note(queue_.Synchronise());
}

void Bench::Multiply(const kernels::Gemm& gemm) {
  kernel_ = "product";
  if (status_) Note(queue_.Multiply(gemm));
}

void Bench::Judge(const char* what, std::uint64_t index, double got, double want,
                  double tolerance) {
  ++compared_;
  if (std::isnan(want) && std::isnan(got)) return;
  double ratio = got == want ? 0 : std::abs(got - want) / tolerance;
  if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
  if (ratio <= worst_) return;
  worst_ = ratio;
  where_ = fmt::format("{}: {}[{}] is {:.9g}, should be {:.9g} within {:.3g}", kernel_, what, index,
                       got, want, tolerance);
}

void Bench::Compare(const char* what, std::uint64_t index, double got, const Bound& want) {
  Judge(what, index, got, want.value, want.Tolerance());
}

void Bench::CompareNumbers(const char* what, std::uint64_t index, std::uint64_t got,
                           std::uint64_t want) {
  // Unequal is infinitely far.
  Judge(what, index, static_cast<double>(got), static_cast<double>(want), got == want ? 1 : 0);
}

void Bench::CompareDoubles(const char* what, std::uint64_t index, double got, double want,
                           double size) {
  Judge(what, index, got, want, kDoubleTolerance * size + kDoubleTolerance);
}

}  // namespace skep::gpu
