// Checks against an aggregator that plays by a script: when it tells devices to come back.
#include <algorithm>
#include <filesystem>
#include <mutex>

#include "client/conform/checks.h"
#include "client/conform/scripted.h"
#include "shared/base/try.h"

namespace skep::conform {
namespace {

namespace fs = std::filesystem;

// The script's aggregator and the real one that its devices enrol with.
struct Stage {
  std::unique_ptr<Scripted> scripted;
  std::unique_ptr<Host> host;
};

Result<Stage> SetStage(Trial& trial) {
  Stage stage;
  SKEP_ASSIGN(stage.scripted, Scripted::Listen());
  const std::string folder = trial.world().folder + "/" + trial.population() + "-host";
  std::error_code ignored;
  fs::create_directory(folder, ignored);
  SKEP_ASSIGN(stage.host,
              Host::Start({.program = trial.world().aggregator,
                           .folder = folder,
                           .allows_root = trial.world().request.allows_root,
                           .advertise = "127.0.0.1:" + std::to_string(stage.scripted->port())}));
  SKEP_ASSIGN(const auto status, stage.host->Ask({"status"}));
  const auto federation = FederationId::FromHexText(TextAt(status, "federation"));
  if (!federation) return Error{5401, "skep-aggregator status names no federation", ""};
  SKEP_TRY(stage.scripted->Serve(stage.host->PkiFolder(), *federation));
  return stage;
}

}  // namespace

Result<Finding> CheckPace(Trial& trial) {
  constexpr std::uint32_t kEarliest = 3000;
  constexpr std::uint32_t kLatest = 5000;
  constexpr std::size_t kContacts = 4;
  SKEP_ASSIGN(const Stage stage, SetStage(trial));
  std::vector<SteadyTime> polls;
  std::mutex mutex;
  // On a connection that it kept, or on a new one: what counts is when it asks again.
  stage.scripted->SetHandler([&](ScriptedPeer& peer, const wire::Message& message) {
    if (!std::holds_alternative<wire::Poll>(message)) return;
    {
      const std::lock_guard lock(mutex);
      polls.push_back(ReadClock().steady);
    }
    peer.Send(wire::ComeBack{kEarliest, kLatest, wire::ComeBackReason::kPacing});
  });
  SKEP_ASSIGN(Device* const device,
              trial.AddDevice({.power = {}, .disk_bytes = 0, .host = stage.host.get()}));
  SKEP_TRY(device->Start());
  SKEP_TRY(trial.WaitUntil(
      "asking a fourth time",
      [&]() -> Result<bool> {
        const std::lock_guard lock(mutex);
        return polls.size() >= kContacts;
      },
      Milliseconds(60'000)));
  device->Kill();
  stage.scripted->SetHandler(nullptr);
  Milliseconds longest{0};
  for (std::size_t i = 0; i + 1 < kContacts; ++i) {
    const auto stayed = std::chrono::duration_cast<Milliseconds>(polls[i + 1] - polls[i]);
    longest = std::max(longest, stayed);
    const std::string measured = "asks again after " + std::to_string(stayed.count()) + " ms";
    if (stayed < Milliseconds(kEarliest)) return Failed(measured, "3000 ms at least");
    if (stayed > Milliseconds(kLatest + 5000)) return Failed(measured, "5000 ms and 5 s at most");
  }
  const std::size_t visits = stage.scripted->Arrivals().size();
  if (visits > kContacts)
    return Failed(std::to_string(visits) + " connections for 4 questions", "4");
  return Passed("back after " + std::to_string(longest.count()) + " ms at most, told 3000 to 5000");
}

}  // namespace skep::conform
