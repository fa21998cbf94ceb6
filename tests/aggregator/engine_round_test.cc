#include <set>

#include "tests/support/catch.h"
#include "tests/support/engine_harness.h"

namespace skep::aggregator {
namespace {

using test::EngineHarness;
using test::RunOptions;
using test::Script;
using test::SmallRun;

struct Trained {
  Hash32 model;
  std::vector<RoundPublished> published;
};

// A whole run; clients join in the order given.
Trained Train(const RunOptions& options, std::uint32_t clients,
              std::optional<std::uint64_t> order_seed = std::nullopt, bool reverse = false) {
  const auto store = std::make_shared<MemoryStore>(test::SmallConfig().federation);
  EngineHarness harness(SmallRun(options), store);
  harness.order_seed = order_seed;
  for (std::uint32_t i = 0; i < clients; ++i) harness.Join(reverse ? clients - 1 - i : i);
  harness.Start();
  harness.Work();
  REQUIRE(harness.failures.empty());
  REQUIRE(harness.View().state == RunState::kFinished);
  return {harness.model(), harness.published};
}

TEST_CASE("a run of three rounds with all clients publishes three models", "[unit]") {
  const auto store = std::make_shared<MemoryStore>(test::SmallConfig().federation);
  EngineHarness harness(SmallRun({}), store);
  for (ClientNumber client = 0; client < 8; ++client) harness.Join(client);
  harness.Start();
  harness.Work();
  REQUIRE(harness.published.size() == 3);
  const RunView view = harness.View();
  CHECK(view.state == RunState::kFinished);
  CHECK(view.phase == "stopped");
  CHECK(view.reason == "finished after 3 rounds");
  const auto ended = harness.Events<AttemptEnded>();
  REQUIRE(ended.size() == 3);
  CHECK(ended[0].published);
  CHECK(ended[0].counts.ok == 8);
  CHECK(ended[0].counts.started == 8);
  CHECK(ended[2].model == harness.model());
  CHECK(harness.Events<RunEnded>().size() == 1);
}

TEST_CASE("the order in which clients work does not change the model", "[unit]") {
  const Trained first = Train({}, 8);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("order seed " << seed);
    CHECK(Train({}, 8, seed).model == first.model);
  }
}

TEST_CASE("the order in which clients join does not change the model", "[unit]") {
  for (const std::uint32_t per_round : {8U, 3U}) {
    const RunOptions options{.clients_per_round = per_round};
    CHECK(Train(options, 8, std::nullopt, true).model == Train(options, 8).model);
  }
}

TEST_CASE("weighting, seed and cohort size change the model", "[unit]") {
  std::set<Hash32> models{test::SmallModel().ModelHash()};
  models.insert(Train({}, 8).model);
  models.insert(Train({.weighting = Weighting::kUniform}, 8).model);
  models.insert(Train({.clients_per_round = 3}, 8).model);
  models.insert(Train({.clients_per_round = 3, .seed = 43}, 8).model);
  CHECK(models.size() == 5);
}

TEST_CASE("the cohort is the first part of the purpose-3 shuffle", "[unit]") {
  const auto store = std::make_shared<MemoryStore>(test::SmallConfig().federation);
  EngineHarness harness(SmallRun({.rounds = 1, .clients_per_round = 10}), store);
  for (ClientNumber client = 0; client < 100; ++client) harness.Join(client);
  harness.Start();
  const std::vector<ClientNumber> expected{65, 75, 17, 68, 72, 79, 74, 30, 67, 33};
  std::vector<ClientNumber> offered;
  for (const test::Sent& sent : harness.sent) {
    if (const auto* offer = std::get_if<wire::TaskOffer>(&sent.message)) {
      offered.push_back(offer->client);
    }
  }
  CHECK(offered == expected);
}

TEST_CASE("simulated clients give the model of clients that joined", "[unit]") {
  for (const std::uint32_t per_round : {8U, 3U}) {
    const auto spec = SmallRun({.clients_per_round = per_round});
    const auto store = std::make_shared<MemoryStore>(test::SmallConfig().federation);
    EngineHarness harness(spec, store);
    harness.Start();
    std::size_t answered = 0;
    while (harness.View().state == RunState::kRunning) {
      const auto opened = harness.Events<SelectionOpened>();
      REQUIRE(opened.size() == answered + 1);
      ++answered;
      harness.MeetSimulated({0, 1, 2, 3, 4, 5, 6, 7});
      harness.Work();
    }
    CHECK(harness.model() == Train({.clients_per_round = per_round}, 8).model);
  }
}

TEST_CASE("train_loss is the mean by weight over all clients", "[unit]") {
  const auto store = std::make_shared<MemoryStore>(test::SmallConfig().federation);
  EngineHarness harness(SmallRun({.rounds = 1, .clients_per_round = 2}), store);
  harness.Join(0);
  harness.Join(1);
  harness.Start();
  harness.Work();
  const auto ended = harness.Events<AttemptEnded>();
  REQUIRE(ended.size() == 1);
  REQUIRE(ended[0].metrics.size() == 1);
  CHECK(ended[0].metrics[0].name == "train_loss");
  CHECK(ended[0].metrics[0].clients == 2);
  // Weights 10 and 17, losses 0.5 and 0.625.
  CHECK(ended[0].metrics[0].value == (10 * 0.5 + 17 * 0.625) / 27);
}

TEST_CASE("a replay of the input log gives the same outputs byte for byte", "[unit]") {
  const auto spec = SmallRun({.clients_per_round = 5, .invited = 6});
  const auto store = std::make_shared<MemoryStore>(test::SmallConfig().federation);
  EngineHarness harness(spec, store);
  harness.order_seed = 7;
  for (ClientNumber client = 0; client < 8; ++client) harness.Join(client);
  harness.scripts[3] = Script::kDecline;
  harness.scripts[4] = Script::kFail;
  harness.Start();
  harness.Work();
  for (int i = 0; i < 50 && harness.Tick(); ++i) harness.Work();
  REQUIRE(harness.published.size() == 3);

  EngineSnapshot empty;
  empty.store = MemoryStore(test::SmallConfig().federation).Load().value();
  empty.specs = {spec};
  RoundEngine again(test::SmallConfig(), std::move(empty));
  std::string trace;
  for (const Output& output : again.Resume(harness.log.front().first)) {
    trace += test::Describe(output);
  }
  for (const auto& [now, input] : harness.log) {
    for (const Output& output : again.Step(now, input)) trace += test::Describe(output);
  }
  CHECK(trace == harness.trace);
}

}  // namespace
}  // namespace skep::aggregator
