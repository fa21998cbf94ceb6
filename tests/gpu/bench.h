// Bench: a device with named arrays on which one operation is tried and compared.
//
// The first error of the device stays; what follows does nothing. One thread. For operations.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/arena.h"
#include "kernels/cuda/queue.h"
#include "shared/base/result.h"
#include "tests/gpu/bound.h"

namespace skep::gpu {

using kernels::DevicePtr;
using Floats = std::vector<float>;

inline constexpr std::uint32_t kLanes = 3;

class Bench {
 public:
  // Kernels that loop run on `blocks` x `threads`; those that work by blocks have `threads`.
  Bench(kernels::DeviceApi& device, std::uint32_t blocks, std::uint32_t threads);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  [[nodiscard]] std::uint64_t grid_threads() const { return std::uint64_t{blocks_} * threads_; }
  [[nodiscard]] kernels::Grid Loop(std::uint32_t y = 1) const {
    return {.x = blocks_, .y = y, .block_threads = threads_};
  }
  // One block for each of `count`, a double of shared memory for each thread.
  [[nodiscard]] kernels::Grid Blocks(std::uint32_t count, std::uint32_t y = 1) const {
    return {.x = count,
            .y = y,
            .block_threads = threads_,
            .shared_bytes = threads_ * static_cast<std::uint32_t>(sizeof(double))};
  }

  // Values in [-scale, scale), different for each call.
  [[nodiscard]] Floats Random(std::uint64_t count, float scale = 2);
  // Whole numbers in [0, below).
  [[nodiscard]] std::vector<std::uint32_t> RandomNumbers(std::uint64_t count, std::uint32_t below);

  // On the device, at least one value long: an address is opened even where nothing is done.
  template <class T>
  [[nodiscard]] DevicePtr<T> Put(const std::vector<T>& values) {
    const DevicePtr<T> at{Allocate(values.size() * sizeof(T), sizeof(T))};
    CopyIn(at.address, values.data(), values.size() * sizeof(T));
    return at;
  }
  template <class T>
  [[nodiscard]] std::vector<T> Take(DevicePtr<T> at, std::uint64_t count) {
    std::vector<T> values(count);
    CopyOut(values.data(), at.address, count * sizeof(T));
    return values;
  }
  template <class Kernel>
  void Launch(const kernels::Grid& grid, const typename Kernel::Args& args) {
    kernel_ = Kernel::kName;
    Note(queue_.Launch<Kernel>(grid, args));
  }
  void Multiply(const kernels::Gemm& gemm);

  // What `what`[index] is and should be. Each names the kernel launched last.
  void Compare(const char* what, std::uint64_t index, double got, const Bound& want);
  void CompareNumbers(const char* what, std::uint64_t index, std::uint64_t got, std::uint64_t want);
  // Within so much of the size of its terms: for sums of double.
  void CompareDoubles(const char* what, std::uint64_t index, double got, double want, double size);

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] double worst() const { return worst_; }  // error over tolerance: sound up to 1
  [[nodiscard]] const std::string& where() const { return where_; }  // of the worst
  [[nodiscard]] std::uint64_t compared() const { return compared_; }

 private:
  [[nodiscard]] std::uint64_t Allocate(std::size_t bytes, std::size_t least);
  void CopyIn(std::uint64_t to, const void* from, std::size_t bytes);
  void CopyOut(void* to, std::uint64_t from, std::size_t bytes);
  void Note(Status status);
  void Judge(const char* what, std::uint64_t index, double got, double want, double tolerance);

  kernels::DeviceApi& device_;
  std::uint32_t blocks_;
  std::uint32_t threads_;
  Status status_ = Ok();
  kernels::StreamId stream_;
  kernels::Arena arena_;
  kernels::Queue queue_;
  std::string kernel_;
  std::uint64_t seed_ = 0;
  std::uint64_t compared_ = 0;
  double worst_ = 0;
  std::string where_;
};

}  // namespace skep::gpu
