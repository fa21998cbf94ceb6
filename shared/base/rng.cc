#include "shared/base/rng.h"

#include <cmath>
#include <numbers>

#include "shared/base/check.h"
#include "shared/base/sha256.h"

namespace skep {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr int kAttemptShift = 24;  // attempt numbers lie above the block numbers of a cohort draw

// Words 0 and 1 of a block, as the key of further draws.
std::uint64_t KeyOf(std::uint64_t key, const PhiloxBlock& counter) {
  const PhiloxBlock block = Philox(key, counter);
  return (std::uint64_t{block[1]} << 32) | block[0];
}

}  // namespace

PhiloxBlock Philox(std::uint64_t key, const PhiloxBlock& counter) {
  PhiloxBlock c = counter;
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * c[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * c[2];
    c = {static_cast<std::uint32_t>(product1 >> 32) ^ c[1] ^ key0,
         static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ c[3] ^ key1,
         static_cast<std::uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

RandomStream::RandomStream(std::uint64_t key, const Counter& counter)
    : key_(key),
      counter_{counter.first_block, counter.client, counter.round,
               static_cast<std::uint32_t>(counter.purpose)} {}

std::uint32_t RandomStream::Word() {
  if (used_ == 4) {
    block_ = Philox(key_, counter_);
    SKEP_CHECK(counter_[0] != kNone);  // running out of blocks would repeat draws
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

double RandomStream::Uniform() {
  const std::uint64_t low = Word();
  const std::uint64_t high = Word();
  return static_cast<double>(((high << 32) | low) >> 11) * 0x1p-53;
}

std::uint64_t RandomStream::Below(std::uint64_t n) {
  SKEP_CHECK(n >= 1);
  if (n <= 0xFFFFFFFFU) {
    const auto bound = static_cast<std::uint32_t>(n);
    const std::uint32_t rejected = (0U - bound) % bound;
    std::uint64_t product = 0;
    do {
      product = std::uint64_t{Word()} * bound;
    } while (static_cast<std::uint32_t>(product) < rejected);
    return product >> 32;
  }
  __extension__ using Wide = unsigned __int128;
  const std::uint64_t rejected = (0U - n) % n;
  Wide product = 0;
  do {
    const std::uint64_t low = Word();
    const std::uint64_t high = Word();
    product = static_cast<Wide>((high << 32) | low) * n;
  } while (static_cast<std::uint64_t>(product) < rejected);
  return static_cast<std::uint64_t>(product >> 64);
}

double RandomStream::Normal() {
  if (has_sine_) {
    has_sine_ = false;
    return sine_;
  }
  const double u1 = 1.0 - Uniform();  // in (0, 1], so that the logarithm is finite
  const double u2 = Uniform();
  const double radius = std::sqrt(-2.0 * std::log(u1));
  const double angle = 2.0 * std::numbers::pi * u2;
  sine_ = radius * std::sin(angle);
  has_sine_ = true;
  return radius * std::cos(angle);
}

double RandomStream::Gamma(double shape) {
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    has_sine_ = false;
    const double x = Normal();
    has_sine_ = false;
    const double root = 1.0 + c * x;
    const double v = root * root * root;
    const double u = 1.0 - Uniform();
    if (v > 0 && std::log(u) < x * x / 2.0 + d - d * v + d * std::log(v)) return d * v;
  }
}

Seed32 RoundSeed(std::uint64_t run_seed, std::uint32_t round) {
  Bytes input;
  AppendLittle(input, run_seed);
  Bytes info;
  Append(info, AsBytes("skep/1 round"));
  AppendLittle(info, round);
  return DeriveSeed(input, info);
}

std::uint64_t RoundKey(const Seed32& round_seed) {
  return LoadLittle<std::uint64_t>(round_seed.bytes.data());
}

std::uint64_t EpochSeed(const Seed32& round_seed, ClientNumber client, std::uint32_t round,
                        std::uint32_t epoch) {
  return KeyOf(RoundKey(round_seed),
               {epoch, client, round, static_cast<std::uint32_t>(Purpose::kBatchOrder)});
}

std::uint64_t StepKey(const Seed32& round_seed, ClientNumber client, std::uint32_t round,
                      std::uint32_t step) {
  return KeyOf(RoundKey(round_seed),
               {step, client, round, static_cast<std::uint32_t>(Purpose::kDropout)});
}

void ShuffleEpoch(std::uint64_t epoch_seed, std::span<std::uint32_t> order) {
  RandomStream stream(epoch_seed, {.purpose = Purpose::kBatchOrder, .client = 0, .round = 0});
  stream.Shuffle(order);
}

std::vector<ClientNumber> DrawCohort(std::uint64_t run_seed, std::uint32_t round,
                                     std::uint32_t attempt, std::vector<ClientNumber> eligible,
                                     std::size_t count) {
  RandomStream stream(run_seed, {.purpose = Purpose::kCohort,
                                 .client = kNone,
                                 .round = round,
                                 .first_block = (attempt - 1) << kAttemptShift});
  const std::size_t taken = std::min(count, eligible.size());
  stream.ShuffleFront(std::span(eligible), taken);
  eligible.resize(taken);
  return eligible;
}

}  // namespace skep
