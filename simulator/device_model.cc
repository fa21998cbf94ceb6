#include "simulator/device_model.h"

#include <cmath>

#include "shared/base/rng.h"

namespace skep::simulator {
namespace {

constexpr std::uint32_t kSpeedBlock = 0;
constexpr std::uint32_t kDownBlock = 1;
constexpr std::uint32_t kUpBlock = 2;
constexpr int kAttemptShift = 24;  // as in the draw of a cohort

// exp(sigma N(0, 1)): a factor with median 1.
double LogNormalFactor(double sigma, std::uint64_t seed, const RandomStream::Counter& counter) {
  if (sigma == 0) return 1.0;
  return std::exp(sigma * RandomStream(seed, counter).Normal());
}

Nanoseconds FromSeconds(double seconds) {
  return Nanoseconds(static_cast<Nanoseconds::rep>(std::llround(seconds * 1e9)));
}

}  // namespace

Nanoseconds DeviceModel::TrainTime(ClientNumber client, std::uint32_t round,
                                   std::uint64_t example_passes) const {
  if (rules_.examples_per_second <= 0) return {};
  const double speed = LogNormalFactor(
      rules_.speed_sigma, seed_,
      {.purpose = Purpose::kDeviceProfile, .client = client, .first_block = kSpeedBlock});
  const double jitter =
      LogNormalFactor(rules_.speed_jitter, seed_,
                      {.purpose = Purpose::kAvailability, .client = client, .round = round});
  return FromSeconds(static_cast<double>(example_passes) /
                     (rules_.examples_per_second * speed * jitter));
}

Nanoseconds DeviceModel::TransferTime(ClientNumber client, std::uint64_t bytes, double mbps,
                                      std::uint32_t block) const {
  if (mbps <= 0) return rules_.latency;
  const double factor =
      LogNormalFactor(rules_.network_sigma, seed_,
                      {.purpose = Purpose::kDeviceProfile, .client = client, .first_block = block});
  return rules_.latency + FromSeconds(8.0 * static_cast<double>(bytes) / (mbps * 1e6 * factor));
}

Nanoseconds DeviceModel::DownloadTime(ClientNumber client, std::uint64_t bytes) const {
  return TransferTime(client, bytes, rules_.down_mbps, kDownBlock);
}

Nanoseconds DeviceModel::UploadTime(ClientNumber client, std::uint64_t bytes) const {
  return TransferTime(client, bytes, rules_.up_mbps, kUpBlock);
}

std::optional<DropOut> DeviceModel::DrawDropOut(ClientNumber client, std::uint32_t round,
                                                std::uint32_t attempt) const {
  if (rules_.dropout <= 0) return std::nullopt;
  RandomStream stream(seed_, {.purpose = Purpose::kDropOut,
                              .client = client,
                              .round = round,
                              .first_block = (attempt - 1) << kAttemptShift});
  if (stream.Uniform() >= rules_.dropout) return std::nullopt;
  DropOutPhase phase = rules_.dropout_phase;
  const double share = stream.Uniform();
  if (phase == DropOutPhase::kAny) phase = static_cast<DropOutPhase>(stream.Below(3));
  return DropOut{.phase = phase, .share = phase == DropOutPhase::kBefore ? 0.0 : share};
}

}  // namespace skep::simulator
