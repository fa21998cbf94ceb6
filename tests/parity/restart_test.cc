// Acknowledged means durable: processes that are killed change neither the model nor ask twice.
#include <boost/json/object.hpp>

#include <algorithm>
#include <csignal>
#include <map>

#include "aggregator/store/sqlite_store.h"
#include "tests/parity/federation.h"
#include "tests/support/catch.h"

namespace skep::test {
namespace {

using namespace skep::aggregator;

// Long enough that a round is seen while it is open.
const std::vector<std::string> kLongRounds{"training.weighting=examples",
                                           "client.local_epochs=1000"};

// The updates of the open attempt of a round, as the store of a server that is not running has
// them.
std::map<DeviceId, UpdateId> Acknowledged(const Federation& federation, const std::string& run,
                                          std::uint32_t round) {
  const auto store = SqliteStore::Open(federation.store().string(), std::nullopt);
  REQUIRE(store.has_value());
  std::map<DeviceId, UpdateId> updates;
  const AttemptKey key{.run = RunId::FromHexText(run).value(), .round = round, .attempt = 1};
  const auto attempt = (*store)->Attempt(key);
  REQUIRE(attempt.has_value());
  REQUIRE(attempt->has_value());
  for (const UpdateRow& update : (**attempt).updates) updates[update.device] = update.update;
  return updates;
}

TEST_CASE("a server killed in round 2 of 3 goes on to the same model and asks nobody twice",
          "[parity]") {
  Federation federation({});
  const std::string simulated = federation.Simulated(kLongRounds);
  const std::string run = federation.StartRun(kLongRounds);
  (void)federation.WaitUntil(run, "half of round 2", [](const auto& found) {
    return NumberOf(found, "round") == 2 && Reported(found) >= 3;
  });
  federation.KillServer();
  const auto before = Acknowledged(federation, run, 2);
  INFO(before.size() << " acknowledged before the kill");
  CHECK(before.size() >= 3);

  federation.Serve();
  const auto over = federation.WaitOver(run);
  INFO(federation.Logs());
  CHECK(TextOf(over, "state") == "finished");
  CHECK(TextOf(over, "model_sha256") == simulated);
  // No attempt was given up: the open one went on with the same cohort.
  CHECK(over.at("attempts").as_array().size() == 3);
  federation.KillServer();
  const auto after = Acknowledged(federation, run, 2);
  CHECK(after.size() == 8);
  for (const auto& [device, update] : before) CHECK(after.at(device) == update);
}

TEST_CASE("a run goes on without a device that was killed", "[parity]") {
  Federation federation({.server_lines = R"([session]
progress_interval = "1s"
progress_lease = "3s"
absent_after = "5s"
)"});
  const std::string run =
      federation.StartRun({"training.weighting=examples", "client.local_epochs=1000",
                           "training.report_deadline=10s", "training.selection_window=2s"});
  (void)federation.WaitUntil(run, "an open round", [](const auto& found) {
    return NumberOf(found.at("counts").as_object(), "started") == 8;
  });
  federation.KillDevice(5);
  const auto over = federation.WaitOver(run);
  INFO(federation.Logs());
  CHECK(TextOf(over, "state") == "finished");
  // It may have reported before it was killed: then it is missing from the next round on.
  const auto& attempts = over.at("attempts").as_array();
  const auto first = attempts.front().at("counts").as_object();
  CHECK(NumberOf(first, "ok") >= 7);
  CHECK(NumberOf(first, "ok") + NumberOf(first, "dropped") + NumberOf(first, "late") == 8);
  CHECK(NumberOf(attempts.back().at("counts").as_object(), "ok") == 7);
}

TEST_CASE("a device killed while it trains comes back and finishes the same round", "[parity]") {
  Federation federation({});
  const std::string simulated = federation.Simulated(kLongRounds);
  const std::string run = federation.StartRun(kLongRounds);
  (void)federation.WaitUntil(run, "an open round", [](const auto& found) {
    return NumberOf(found.at("counts").as_object(), "started") == 8;
  });
  federation.KillDevice(2);
  federation.StartDevice(2);
  const auto over = federation.WaitOver(run);
  INFO(federation.Logs());
  CHECK(TextOf(over, "state") == "finished");
  CHECK(TextOf(over, "model_sha256") == simulated);
}

TEST_CASE("a device that waits for its aggregator ends at the first SIGTERM", "[parity]") {
  Federation federation({.devices = 1});
  federation.KillServer();
  federation.device(0).Signal(SIGTERM);
  CHECK(federation.device(0).WaitFor(Milliseconds(30'000)) == 143);
}

TEST_CASE("of several runs with one name that are over, the latest is meant", "[parity]") {
  Federation federation({.devices = 2});
  for (int seed = 1; seed <= 4; ++seed) {
    const std::vector<std::string> sets{"seed=" + std::to_string(seed), "training.rounds=1",
                                        "data.num_clients=2", "training.clients_per_round=2"};
    const std::string model = federation.Deployed(sets);
    const auto named = federation.Ask("GET", "/api/v1/runs/parity").as_object();
    INFO(federation.Logs());
    CHECK(TextOf(named, "model_sha256") == model);
  }
}

}  // namespace
}  // namespace skep::test
