// Checks of what a program uses: memory, CPU, bytes, disk, battery.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "client/conform/checks.h"
#include "shared/base/try.h"

namespace skep::conform {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using faultproxy::Counters;

constexpr const char* kLongTraining = "client.local_epochs=1000";

std::string Mebibytes(std::uint64_t bytes) {
  return std::to_string((bytes + (1 << 19)) >> 20) + " MiB";
}
std::string Percent(double share) {
  return std::to_string(static_cast<int>(share * 100 + 0.5)) + " %";
}

Status WaitTraining(Trial& trial, Device& device, const std::string& run) {
  SKEP_TRY(trial.WaitRun(run, "started to train", [](const json::value& seen) {
    return NumberAt(seen.at("counts"), "started") == 1;
  }));
  // The download is over when it computes.
  const Nanoseconds before = device.program().CpuTime();
  return trial.WaitUntil(
      "computing",
      [&]() -> Result<bool> { return device.program().CpuTime() - before > Milliseconds(300); },
      Milliseconds(30'000));
}

// A power supply as the kernel shows it.
Status WriteSupply(const std::string& folder, const std::string& name,
                   const std::vector<std::pair<std::string, std::string>>& values) {
  std::error_code ignored;
  fs::create_directories(folder + "/" + name, ignored);
  for (const auto& [key, value] : values) {
    std::ofstream file(folder + "/" + name + "/" + key, std::ios::binary);
    file << value << "\n";
    if (!file.flush())
      return Error{4001, folder + "/" + name + "/" + key + " cannot be written", ""};
  }
  return Ok();
}

Status Plug(const std::string& folder, bool is_in) {
  SKEP_TRY(WriteSupply(folder, "AC", {{"type", "Mains"}, {"online", is_in ? "1" : "0"}}));
  return WriteSupply(
      folder, "BAT0",
      {{"type", "Battery"}, {"status", is_in ? "Charging" : "Discharging"}, {"capacity", "80"}});
}

}  // namespace

Result<Finding> CheckMemory(Trial& trial) {
  const std::uint64_t cap = trial.world().request.caps.memory;
  SKEP_ASSIGN(Device* const device, trial.AddHeldDevice());
  const std::uint64_t before = device->program().ResidentBytes();
  SKEP_ASSIGN(const std::string run, trial.StartRun({"client.local_epochs=2"}));
  SKEP_TRY(trial.WaitFinished(run));
  const std::uint64_t peak = device->program().PeakBytes();
  const std::uint64_t growth = peak - std::min(peak, before);
  if (growth > cap) return Failed("grew by " + Mebibytes(growth), Mebibytes(cap));
  return Passed("grew by " + Mebibytes(growth) + " of " + Mebibytes(cap));
}

Result<Finding> CheckCpu(Trial& trial) {
  constexpr Milliseconds kWatched{10'000};
  const Caps& caps = trial.world().request.caps;
  SKEP_ASSIGN(Device* const device, trial.AddHeldDevice());
  SKEP_ASSIGN(const std::string run, trial.StartRun({kLongTraining}));
  SKEP_TRY(WaitTraining(trial, *device, run));
  const Nanoseconds cpu = device->program().CpuTime();
  const SteadyTime begin = ReadClock().steady;
  if (const auto exit = device->program().WaitFor(kWatched))
    return Failed("ended while it trained: " + TextOf(*exit), "it trains");
  const double share = Seconds(device->program().CpuTime() - cpu) /
                       (Seconds(ReadClock().steady - begin) * caps.threads);
  const std::string allowed =
      Percent(caps.cpu) + " and a tenth, of " + std::to_string(caps.threads) + " thread(s)";
  if (share > caps.cpu + 0.1) return Failed(Percent(share) + " CPU in 10 s of training", allowed);
  return Passed(Percent(share) + " CPU");
}

Result<Finding> CheckBytes(Trial& trial) {
  constexpr int kMostRounds = 60;
  constexpr std::uint64_t kMostDriven = 32ULL << 20;
  const std::uint64_t cap = trial.world().request.caps.bytes_per_day;
  if (cap == 0) return Skipped("say --max-bytes-per-day with the cap that the program sets");
  if (cap > kMostDriven)
    return Skipped("a cap above 32 MiB would take too long: set a smaller one for this check");
  SKEP_TRY(trial.AddHeldDevice());
  SKEP_ASSIGN(const std::string run,
              trial.StartRun({"training.rounds=" + std::to_string(kMostRounds),
                              "training.report_deadline=10s"}));
  // Until it moves no further.
  std::uint64_t last = 0;
  SteadyTime still_since = ReadClock().steady;
  SKEP_TRY(trial.WaitUntil(
      "at rest",
      [&]() -> Result<bool> {
        SKEP_ASSIGN(const Counters now, trial.Traffic());
        const std::uint64_t moved = now.up_in + now.down_out;
        if (moved > last + 4096) still_since = ReadClock().steady;
        last = std::max(last, moved);
        return last > cap + cap / 10 || ReadClock().steady - still_since > Milliseconds(8000);
      },
      Milliseconds(180'000)));
  // What the proxy took but the program has not yet counted: a chunk and a greeting.
  const std::uint64_t allowed = cap + 64 * 1024;
  if (last > allowed) return Failed(std::to_string(last) + " bytes moved", std::to_string(cap));
  if (last < cap / 2)
    return Failed("at rest after " + std::to_string(last) + " bytes",
                  "work up to " + std::to_string(cap));
  return Passed(std::to_string(last) + " bytes of " + std::to_string(cap));
}

Result<Finding> CheckDisk(Trial& trial) {
  constexpr std::uint64_t kDisk = 8ULL << 20;
  SKEP_ASSIGN(Device* const device, trial.AddDevice({.power = {}, .disk_bytes = kDisk}));
  if (device->den().is_open()) return Skipped(device->den().WhyOpen());
  SKEP_TRY(device->Start());
  SKEP_TRY(trial.WaitHeld(1));
  const std::string filler = device->den().Inside(device->disk() + "/filler");
  {
    std::ofstream file(filler, std::ios::binary);
    const std::string block(4096, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) continue;
  }
  SKEP_ASSIGN(const std::string run, trial.StartRun({"training.max_attempts=20"}));
  const auto names_it = [&] {
    for (const char* word : {"SKEP_E_STORAGE", "SKEP-7405", "SKEP-40", "No space left"}) {
      if (device->Said(word)) return true;
    }
    return false;
  };
  const Status told = trial.WaitUntil(
      "saying that the disk is full", [&]() -> Result<bool> { return names_it(); },
      Milliseconds(30'000));
  const auto exit = device->program().WaitFor(Milliseconds(1000));
  if (exit && exit->signal != 0) return Failed(TextOf(*exit) + " on a full disk", "an error");
  if (!told.has_value()) return Failed(told.error().message, "SKEP_E_STORAGE");
  std::error_code ignored;
  fs::remove(filler, ignored);
  // A service that ends in order is started again by whoever supervises it.
  if (exit) SKEP_TRY(device->Start());
  SKEP_TRY(trial.WaitFinished(run, 1, Milliseconds(120'000)));
  return Passed(exit ? "ended in order (" + TextOf(*exit) + "), contributed when started again"
                     : "went on by itself");
}

Result<Finding> CheckPower(Trial& trial) {
  constexpr Milliseconds kPatience{3000};  // a batch, and probes that are kept for a second
  constexpr Milliseconds kWatched{2000};
  const std::string power = trial.world().folder + "/power";
  std::error_code ignored;
  fs::create_directories(power, ignored);
  SKEP_TRY(Plug(power, true));
  SKEP_ASSIGN(Device* const device, trial.AddDevice({.power = power, .disk_bytes = 0}));
  if (device->den().is_open()) return Skipped(device->den().WhyOpen());
  SKEP_TRY(device->Start());
  SKEP_TRY(trial.WaitHeld(1));
  std::string half;
  if (trial.world().request.trains_on_battery) {
    half = "without a charger not checked: --on-battery";
  } else {
    SKEP_ASSIGN(const std::string run, trial.StartRun({kLongTraining}));
    SKEP_TRY(WaitTraining(trial, *device, run));
    SKEP_TRY(Plug(power, false));
    (void)device->program().WaitFor(kPatience);
    const Nanoseconds cpu = device->program().CpuTime();
    if (const auto exit = device->program().WaitFor(kWatched))
      return Failed("ended without a charger: " + TextOf(*exit), "it waits");
    const double share = Seconds(device->program().CpuTime() - cpu) / Seconds(kWatched);
    if (share > 0.1)
      return Failed(Percent(share) + " CPU 3 s after the charger was unplugged",
                    "10 %; or say --on-battery");
    SKEP_TRY(Plug(power, true));
    // The aggregator has given the declined task up by then: what counts is that the device works.
    SKEP_TRY(trial.host().Ask({"run", "stop", "--now", run}));
    SKEP_ASSIGN(const std::string next, trial.StartRun({"seed=43"}));
    const auto over = trial.WaitFinished(next, 1, Milliseconds(180'000));
    if (!over.has_value())
      return Failed("plugged in again: " + over.error().message, over.error().hint);
  }
  // No battery at all: conditions on charging and battery pass.
  for (const char* name : {"AC", "BAT0"}) fs::remove_all(power + "/" + name, ignored);
  device->Kill();
  SKEP_TRY(device->Start());
  SKEP_TRY(trial.WaitHeld(1));
  SKEP_ASSIGN(const std::string run, trial.StartRun({}));
  SKEP_TRY(trial.WaitFinished(run, 1, Milliseconds(120'000)));
  return Passed(half);
}

}  // namespace skep::conform
