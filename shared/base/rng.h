// Counter-based random numbers: the same draw whatever the thread, order or machine.
//
// Every draw of the project that must repeat comes from here, keyed by seed, purpose, round and
// client. Secrets (keys, privacy noise, tokens) never do: they come from crypto/csprng.h. A stream
// is a value; one thread at a time. Source: Salmon et al. 2011 (Philox4x32-10); the purposes and
// keys are listed in docs/randomness.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/ids.h"

namespace skep {

// What a draw is for; the last word of the counter. Numbers are never reused.
enum class Purpose : std::uint32_t {
  kInitialWeights = 1,
  kPartition = 2,
  kCohort = 3,
  kBatchOrder = 4,
  kDropout = 5,
  kDeviceProfile = 6,
  kAvailability = 7,
  kDropOut = 8,
  kStochasticRounding = 9,
  kSyntheticData = 10,
  kAugmentation = 11,
  kSimulatedEntropy = 13,
  kSplit = 14,
  kEvaluationSample = 15,
  kPacing = 16,
  kClientOrder = 17,
  kNetworkFault = 19,
};

// Stands for "no client" or "no round" in a counter word.
inline constexpr std::uint32_t kNone = 0xFFFFFFFFU;

using PhiloxBlock = std::array<std::uint32_t, 4>;

// One block of Philox4x32-10. `key` is 64 bits, low word first.
[[nodiscard]] PhiloxBlock Philox(std::uint64_t key, const PhiloxBlock& counter);

// A sequence of draws: counter [block, client, round, purpose], the words of each block in order.
class RandomStream {
 public:
  struct Counter {
    Purpose purpose;
    std::uint32_t client = kNone;
    std::uint32_t round = 0;
    std::uint32_t first_block = 0;
  };
  RandomStream(std::uint64_t key, const Counter& counter);

  [[nodiscard]] std::uint32_t Word();
  // [0, 1): the top 53 bits of (word1 2^32 + word0), divided by 2^53.
  [[nodiscard]] double Uniform();
  // [0, n), without bias (Lemire's method with rejection); n >= 1. One word a try if n < 2^32, else
  // two.
  [[nodiscard]] std::uint64_t Below(std::uint64_t n);
  // Standard normal (Box-Muller): cosine first, then the sine of the same pair.
  [[nodiscard]] double Normal();
  // Gamma(shape, 1) for shape >= 1 (Marsaglia and Tsang 2000). Each try takes a fresh pair of
  // uniforms for its normal.
  [[nodiscard]] double Gamma(double shape);

  // Fisher-Yates from the front: items[i] <-> items[i + Below(size - i)].
  template <class T>
  void Shuffle(std::span<T> items) {
    ShuffleFront(items, items.size());
  }
  // Only the first `count` places of that same shuffle: enough to draw `count` items.
  template <class T>
  void ShuffleFront(std::span<T> items, std::size_t count) {
    for (std::size_t i = 0; i < count && i + 1 < items.size(); ++i) {
      std::swap(items[i], items[i + static_cast<std::size_t>(Below(items.size() - i))]);
    }
  }

 private:
  std::uint64_t key_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  unsigned used_ = 4;
  bool has_sine_ = false;
  double sine_ = 0;
};

// round_seed of the protocol: HKDF-SHA-256 of the run seed, the same for every attempt. Key of what
// clients draw.
[[nodiscard]] Seed32 RoundSeed(std::uint64_t run_seed, std::uint32_t round);
// The first 8 bytes of a round seed, as a Philox key.
[[nodiscard]] std::uint64_t RoundKey(const Seed32& round_seed);

// Seed of epoch `epoch` (from 0) of a task: words 0 and 1 of block `epoch`, purpose 4, under the
// round key.
[[nodiscard]] std::uint64_t EpochSeed(const Seed32& round_seed, ClientNumber client,
                                      std::uint32_t round, std::uint32_t epoch);
// Key of what local step `step` (from 0, over all epochs) of a task draws in dropout layers: words
// 0 and 1 of block `step`, purpose 5, under the round key.
[[nodiscard]] std::uint64_t StepKey(const Seed32& round_seed, ClientNumber client,
                                    std::uint32_t round, std::uint32_t step);
// Shuffles `order` as an epoch with that seed does: counter [block, 0, 0, 4].
void ShuffleEpoch(std::uint64_t epoch_seed, std::span<std::uint32_t> order);

// The first min(count, eligible) of the purpose-3 shuffle. `eligible` in ascending order; returned
// in drawing order.
[[nodiscard]] std::vector<ClientNumber> DrawCohort(std::uint64_t run_seed, std::uint32_t round,
                                                   std::uint32_t attempt,
                                                   std::vector<ClientNumber> eligible,
                                                   std::size_t count);

}  // namespace skep
