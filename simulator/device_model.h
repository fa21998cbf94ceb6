// DeviceModel: how long a simulated device takes, and whether it vanishes. All models are off by
// default, and then a round takes no virtual time.
//
// Pure: every answer is a counter-based draw under the run's seed. Any thread.
// Source: docs/experiments.md (heterogeneity of devices).
#pragma once

#include <cstdint>
#include <optional>

#include "shared/base/clock.h"
#include "shared/base/ids.h"

namespace skep::simulator {

enum class DropOutPhase { kBefore, kTraining, kUpload, kAny };

struct DeviceRules {
  double examples_per_second = 0;  // 0 = training takes no time
  double speed_sigma = 0;
  double speed_jitter = 0;
  double down_mbps = 0;  // 0 = no time
  double up_mbps = 0;
  double network_sigma = 0;
  Nanoseconds latency{};
  double dropout = 0;  // probability that a started client vanishes
  DropOutPhase dropout_phase = DropOutPhase::kAny;

  [[nodiscard]] bool TakesTime() const {
    return examples_per_second > 0 || down_mbps > 0 || up_mbps > 0 || latency.count() > 0;
  }
};

// Where a client vanishes: in which phase, and after which share of it.
struct DropOut {
  DropOutPhase phase = DropOutPhase::kBefore;
  double share = 0;
};

class DeviceModel {
 public:
  DeviceModel(const DeviceRules& rules, std::uint64_t run_seed) : rules_(rules), seed_(run_seed) {}

  [[nodiscard]] bool takes_time() const { return rules_.TakesTime(); }
  // `example_passes`: examples seen, epochs included.
  [[nodiscard]] Nanoseconds TrainTime(ClientNumber client, std::uint32_t round,
                                      std::uint64_t example_passes) const;
  [[nodiscard]] Nanoseconds DownloadTime(ClientNumber client, std::uint64_t bytes) const;
  [[nodiscard]] Nanoseconds UploadTime(ClientNumber client, std::uint64_t bytes) const;
  [[nodiscard]] std::optional<DropOut> DrawDropOut(ClientNumber client, std::uint32_t round,
                                                   std::uint32_t attempt) const;

 private:
  [[nodiscard]] Nanoseconds TransferTime(ClientNumber client, std::uint64_t bytes, double mbps,
                                         std::uint32_t block) const;

  DeviceRules rules_;
  std::uint64_t seed_;
};

}  // namespace skep::simulator
