// Clients that keep their norm layers: the same model in the simulator and on real devices, also
// when devices are killed.
#include <sys/stat.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <filesystem>

#include "tests/parity/federation.h"
#include "tests/support/catch.h"

namespace skep::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> FedBn(const std::vector<std::string>& more) {
  std::vector<std::string> sets{"personalization.method=fedbn", "model.normalization=batch",
                                "client.batch_tail=merge", "training.weighting=examples"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::vector<fs::path> PrivateFiles(const Federation& federation, std::size_t device) {
  std::vector<fs::path> files;
  const fs::path folder = fs::path(federation.DeviceFolder(device)) / "private";
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    files.push_back(at->path());
  }
  return files;
}

TEST_CASE("fedbn gives the same model in the simulator and on eight devices", "[parity]") {
  Federation federation({});
  // In part of the rounds, so that devices go on from different ones.
  const auto some = FedBn({"training.rounds=6", "training.clients_per_round=4"});
  const auto all = FedBn({"training.rounds=3"});
  for (const auto& sets : {some, all}) {
    INFO(sets.back());
    CHECK(federation.Deployed(sets) == federation.Simulated(sets));
    federation.WaitHeld(8);
  }
  std::size_t files = 0;
  for (std::size_t device = 0; device < 8; ++device) {
    // Of two runs, at most two each.
    CHECK(PrivateFiles(federation, device).size() <= 4);
    for (const fs::path& file : PrivateFiles(federation, device)) {
      ++files;
      CHECK(file.filename().string().size() == 32);
      struct stat facts {};
      REQUIRE(::stat(file.c_str(), &facts) == 0);
      CHECK((static_cast<unsigned>(facts.st_mode) & 07777U) == 0600);
    }
  }
  CHECK(files >= 8);
}

TEST_CASE("devices evaluate with their own norm layers between rounds of fedbn", "[parity]") {
  Federation federation({.data_lines = "client_test_fraction = 0.2\n"});
  const auto sets =
      FedBn({"training.rounds=4", "training.clients_per_round=4", "training.client_eval_every=1"});
  const std::string run = federation.StartRun(sets);
  const auto over = federation.WaitOver(run);
  INFO(federation.Logs());
  CHECK(TextOf(over, "model_sha256") == federation.Simulated(sets));
  // Four rounds, and an evaluation after each.
  CHECK(over.at("attempts").as_array().size() == 8);
}

// Kills a device in the second round, before its update of that round, and lets it come back.
std::string WithKilled(Federation& federation, const std::vector<std::string>& sets, bool forgets) {
  const std::string run = federation.StartRun(sets);
  (void)federation.WaitUntil(run, "the second round", [](const auto& found) {
    return NumberOf(found, "round") == 2 &&
           NumberOf(found.at("counts").as_object(), "started") == 8;
  });
  federation.KillDevice(2);
  CHECK_FALSE(PrivateFiles(federation, 2).empty());
  if (forgets) fs::remove_all(fs::path(federation.DeviceFolder(2)) / "private");
  federation.StartDevice(2);
  const auto over = federation.WaitOver(run);
  INFO(federation.Logs());
  CHECK(TextOf(over, "state") == "finished");
  return TextOf(over, "model_sha256");
}

TEST_CASE("a device killed in a round of fedbn goes on from its own norm layers", "[parity]") {
  Federation federation({});
  // Long enough that a round is seen while it is open.
  const auto sets = FedBn({"client.local_epochs=1000"});
  const std::string simulated = federation.Simulated(sets);
  CHECK(WithKilled(federation, sets, false) == simulated);
  federation.WaitHeld(8);
  // Which are what it went on from.
  CHECK(WithKilled(federation, sets, true) != simulated);
}

TEST_CASE("a server that is killed still knows which norm layers its devices go on from",
          "[parity]") {
  Federation federation({});
  const auto sets = FedBn({"client.local_epochs=1000"});
  const std::string simulated = federation.Simulated(sets);
  const std::string run = federation.StartRun(sets);
  (void)federation.WaitUntil(run, "the second round", [](const auto& found) {
    return NumberOf(found, "round") == 2 &&
           NumberOf(found.at("counts").as_object(), "started") == 8;
  });
  federation.KillServer();
  // Trains anew, from what the server says after its restart.
  federation.KillDevice(2);
  federation.Serve();
  federation.StartDevice(2);
  const auto over = federation.WaitOver(run);
  INFO(federation.Logs());
  CHECK(TextOf(over, "state") == "finished");
  CHECK(TextOf(over, "model_sha256") == simulated);
}

}  // namespace
}  // namespace skep::test
