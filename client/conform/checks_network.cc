// Checks of what a program does when the network or the program itself is cut off.
#include <algorithm>
#include <csignal>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "client/conform/checks.h"
#include "shared/base/rng.h"
#include "shared/base/try.h"

namespace skep::conform {
namespace {

namespace json = boost::json;
using faultproxy::Counters;
using faultproxy::Event;

constexpr std::uint64_t kChunk = 16 * 1024;
// Of a reconnection: handshake, certificates, greeting, offer.
constexpr std::uint64_t kGreeting = 8 * 1024;
constexpr std::size_t kCuts = 10;

std::string Kilobytes(std::uint64_t bytes) {
  return std::to_string((bytes + 500) / 1000) + " kB";
}

bool HasWork(const Device& device) {
  const std::vector<std::string> files = device.Files();
  return std::any_of(files.begin(), files.end(),
                     [](const std::string& name) { return name.starts_with("work/"); });
}

Status WaitNoWork(Trial& trial, const Device& device) {
  Status status = trial.WaitUntil(
      "without files in {storage}/work", [&]() -> Result<bool> { return !HasWork(device); },
      Milliseconds(20'000));
  return status;
}

struct Crowd {
  std::vector<std::uint32_t> connections;
  Counters alone;  // what one round of one device moves
};

// Ten devices, one cut for each: waiting for reconnections is the same for all.
Result<Crowd> Gather(Trial& trial) {
  Crowd crowd;
  for (std::size_t i = 0; i < kCuts; ++i) {
    SKEP_TRY(trial.AddHeldDevice());
    crowd.connections.push_back(trial.LastConnection());
    if (i > 0) continue;
    SKEP_ASSIGN(const Counters before, trial.Traffic());
    SKEP_ASSIGN(const std::string run, trial.StartRun({}));
    SKEP_TRY(trial.WaitFinished(run));
    SKEP_TRY(trial.WaitHeld(1));
    SKEP_ASSIGN(const Counters after, trial.Traffic());
    crowd.alone.up_out = after.up_out - before.up_out;
    crowd.alone.down_out = after.down_out - before.down_out;
  }
  return crowd;
}

Result<Finding> CheckCuts(Trial& trial, bool is_up) {
  SKEP_ASSIGN(const Crowd crowd, Gather(trial));
  const std::uint64_t alone = is_up ? crowd.alone.up_out : crowd.alone.down_out;
  for (std::size_t i = 0; i < kCuts; ++i) {
    SKEP_ASSIGN(const Counters now, trial.TrafficOf(crowd.connections[i]));
    const std::uint64_t at = (is_up ? now.up_out : now.down_out) + alone * (i + 1) / (kCuts + 1);
    SKEP_TRY(trial.Order("cut connection=" + std::to_string(crowd.connections[i]) +
                         (is_up ? " direction=up at=" : " direction=down at=") +
                         std::to_string(at)));
  }
  SKEP_ASSIGN(const Counters before, trial.Traffic());
  // Another seed is another model: nobody has it yet.
  SKEP_ASSIGN(const std::string run,
              trial.StartRun({"training.clients_per_round=10", "training.min_reports=10",
                              "data.num_clients=10", "seed=43"}));
  SKEP_TRY(trial.WaitFinished(run, kCuts, Milliseconds(180'000)));
  SKEP_ASSIGN(const Counters after, trial.Traffic());
  const std::size_t cuts = trial.CountEvents(Event::Kind::kFault);
  if (cuts < kCuts) return Skipped("only " + std::to_string(cuts) + " of 10 cuts took place");
  const std::uint64_t moved =
      is_up ? after.up_out - before.up_out : after.down_out - before.down_out;
  const std::uint64_t again = moved - std::min(moved, alone * kCuts);
  const std::uint64_t allowed = kCuts * (kChunk + alone / 100 + kGreeting);
  if (again > allowed)
    return Failed(Kilobytes(again) + " sent again after 10 cuts", Kilobytes(allowed));
  return Passed(Kilobytes(again) + " sent again");
}

}  // namespace

Result<Finding> CheckDownloadCuts(Trial& trial) {
  return CheckCuts(trial, false);
}

Result<Finding> CheckUploadCuts(Trial& trial) {
  return CheckCuts(trial, true);
}

Result<Finding> CheckLostAcknowledgement(Trial& trial) {
  SKEP_ASSIGN(Device* const device, trial.AddHeldDevice());
  const std::uint32_t connection = trial.LastConnection();
  const std::string on = " connection=" + std::to_string(connection);
  SKEP_ASSIGN(const Counters before, trial.TrafficOf(connection));
  // Slow enough that the way back can be closed while the update is under way.
  SKEP_TRY(trial.Order("rate direction=up limit=256KiB/s" + on));
  SKEP_ASSIGN(const std::string run, trial.StartRun({}));
  SKEP_TRY(trial.WaitUntil(
      "uploading",
      [&]() -> Result<bool> {
        SKEP_ASSIGN(const Counters now, trial.TrafficOf(connection));
        return now.up_out > before.up_out + 3 * kChunk;
      },
      Milliseconds(60'000)));
  SKEP_TRY(trial.Order("stall direction=down" + on));
  SKEP_TRY(trial.WaitFinished(run));
  SKEP_TRY(trial.Order("reset after=1ms" + on));
  SKEP_TRY(trial.WaitUntil(
      "back with the same update",
      [&]() -> Result<bool> { return trial.LastConnection() > connection; }, Milliseconds(60'000)));
  SKEP_TRY(trial.WaitHeld(1));
  SKEP_TRY(WaitNoWork(trial, *device));
  SKEP_ASSIGN(const json::value over, trial.WaitFinished(run));
  const json::value* attempt = LastAttempt(over, "train");
  if (attempt == nullptr) return Failed("no published round", "one");
  for (const char* key : {"rejected", "late", "failed"}) {
    const std::int64_t count = NumberAt(attempt->at("counts"), key);
    if (count != 0) return Failed(std::to_string(count) + " updates are counted as " + key, "0");
  }
  return Passed("counted once");
}

Result<Finding> CheckKills(Trial& trial) {
  constexpr int kKills = 20;
  constexpr std::uint64_t kMostMs = 1500;
  const std::uint64_t seed = ReadClock().wall;
  RandomStream draws(seed, {.purpose = Purpose::kNetworkFault});
  const std::string with_seed = " (seed " + std::to_string(seed) + ")";
  SKEP_ASSIGN(Device* const device, trial.AddHeldDevice());
  SKEP_ASSIGN(const std::string run,
              trial.StartRun({"training.rounds=4", "client.local_epochs=2"}));
  for (int i = 0; i < kKills; ++i) {
    const Milliseconds until(50 + static_cast<std::int64_t>(draws.Below(kMostMs)));
    if (const auto early = device->program().WaitFor(until)) {
      return Failed("start " + std::to_string(i + 1) + ": " + TextOf(*early) + with_seed,
                    "it runs on");
    }
    device->Kill();
    SKEP_TRY(device->Start());
  }
  auto over = trial.WaitFinished(run, 1, Milliseconds(180'000));
  if (!over.has_value()) return Failed(over.error().message + with_seed, over.error().hint);
  Status idle = WaitNoWork(trial, *device);
  if (!idle.has_value()) return Failed(idle.error().message + with_seed, "an empty folder");
  return Passed();
}

Result<Finding> CheckAbsence(Trial& trial) {
  constexpr Milliseconds kAway{60'000};
  constexpr std::size_t kMostAttempts = 8;
  constexpr double kMostCpu = 0.01;
  SKEP_ASSIGN(Device* const device, trial.AddHeldDevice());
  const std::size_t before = trial.CountEvents(Event::Kind::kAccepted);
  SKEP_TRY(trial.Order("refuse"));
  SKEP_TRY(trial.Order("reset after=1ms connection=" + std::to_string(trial.LastConnection())));
  const Nanoseconds cpu = device->program().CpuTime();
  if (const auto exit = device->program().WaitFor(kAway))
    return Failed("ended without the aggregator: " + TextOf(*exit), "it waits");
  const double share = Seconds(device->program().CpuTime() - cpu) / Seconds(kAway);
  const std::size_t attempts = trial.CountEvents(Event::Kind::kAccepted) - before;
  if (attempts > kMostAttempts)
    return Failed(std::to_string(attempts) + " connection attempts in 60 s", "8");
  if (share > kMostCpu) return Failed(std::to_string(share * 100) + " % CPU", "1 %");
  SKEP_TRY(trial.Order("clear"));
  SKEP_TRY(trial.WaitUntil(
      "back after the aggregator came back",
      [&]() -> Result<bool> {
        SKEP_ASSIGN(const Host::Population seen, trial.host().Look(trial.population()));
        return seen.held == 1;
      },
      Milliseconds(300'000)));
  return Passed(std::to_string(attempts) + " attempts");
}

}  // namespace skep::conform
