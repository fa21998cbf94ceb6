#include <cmath>
#include <cstring>

#include "client/agent/state.h"
#include "client/agent/work.h"
#include "tests/client/agent_world.h"
#include "tests/support/catch.h"

namespace skep::agent {
namespace {

using test::AgentWorld;
using test::Peer;

TEST_CASE("a device downloads, trains, uploads and is acknowledged", "[unit]") {
  AgentWorld world;
  world.Enrol();
  const Outcome outcome = world.RunToEnd();
  INFO(outcome.why);
  for (const std::string& line : world.lines) UNSCOPED_INFO(line);
  CHECK(outcome.code == 0);
  REQUIRE(world.aggregator.updates.size() == 1);
  const auto& update = world.aggregator.updates.front();
  CHECK(update.begin.weight == 16);  // 20 rows without the fifth that is held out
  CHECK(update.body.size() == world.aggregator.model().size());
  CHECK(Sha256::Of(update.body) == update.begin.sha256);
  CHECK(world.Logged("round 1: trained 16 examples in "));

  const Storage storage = Storage::Open(world.StorageFolder()).value();
  CHECK_FALSE(RecoverUpdate(storage).value().pending);
  const State state = LoadState(storage).value();
  CHECK(state.memory.client == 3U);
  CHECK(state.memory.seen.size() == 1);
  CHECK(state.memory.evidence.has_value());
  CHECK(state.today.up > update.body.size());
  CHECK(state.today.down > world.aggregator.model().size());
  const auto history = ReadHistory(storage, 10);
  REQUIRE(history.size() == 1);
  CHECK(history.front().outcome == "contributed");
  CHECK(history.front().examples == 16);
}

}  // namespace
}  // namespace skep::agent
