// The operator's commands, evaluation and the ends of a run.
#include "tests/support/catch.h"
#include "tests/support/engine_harness.h"

namespace skep::aggregator {
namespace {

using Action = ControlRun::Action;
using test::Script;
using test::World;

TEST_CASE("pause lets the open round finish and opens no other", "[unit]") {
  const auto world = World({.rounds = 3, .clients_per_round = 2}, 2);
  world->holds_uploads = true;
  world->Start();
  world->Work();
  world->Control(Action::kPause);
  CHECK(world->View().state == RunState::kRunning);
  world->FinishUpload(0);
  world->FinishUpload(1);
  CHECK(world->published.size() == 1);
  CHECK(world->View().state == RunState::kPaused);
  CHECK(world->View().reason == "paused by the operator");
  world->holds_uploads = false;
  world->Control(Action::kResume);
  world->Work();
  CHECK(world->View().state == RunState::kFinished);
  CHECK(world->published.size() == 3);
}

TEST_CASE("stop lets the open round finish and ends the run", "[unit]") {
  const auto world = World({.rounds = 3, .clients_per_round = 2}, 2);
  world->holds_uploads = true;
  world->Start();
  world->Work();
  world->Control(Action::kStop);
  world->FinishUpload(0);
  world->FinishUpload(1);
  CHECK(world->published.size() == 1);
  CHECK(world->View().state == RunState::kStopped);
  const std::string before = world->Digest();
  world->Control(Action::kStop);  // once more is no news
  world->Control(Action::kResume);
  CHECK(world->Digest() == before);
}

TEST_CASE("stop now abandons the open round", "[unit]") {
  const auto world = World({.rounds = 3, .clients_per_round = 2}, 2);
  world->holds_uploads = true;
  world->Start();
  world->Work();
  world->FinishUpload(0);
  world->Control(Action::kStopNow);
  CHECK(world->View().state == RunState::kStopped);
  const auto ended = world->Events<AttemptEnded>();
  REQUIRE(ended.size() == 1);
  CHECK_FALSE(ended[0].published);
  CHECK(ended[0].reason == "stopped by the operator");
  CHECK(world->model() == test::SmallModel().ModelHash());
  const auto closed = world->MessagesTo<wire::RoundClosed>(world->SessionOf(1));
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].reason == wire::RoundClosedReason::kStopped);
}

TEST_CASE("an upload to a stopped run is 2213", "[unit]") {
  const auto world = World({.rounds = 3, .clients_per_round = 2}, 2);
  world->scripts[0] = Script::kSilent;
  world->Start();
  world->Work();
  const wire::UploadBegin begin = world->BeginOf(0);
  world->Control(Action::kStopNow);
  world->Step(UploadOffered{world->SessionOf(0), begin, std::nullopt});
  REQUIRE_FALSE(world->refusals.empty());
  CHECK(world->refusals.back().code == 2213);
}

TEST_CASE("a run that waits for devices stops and pauses at once", "[unit]") {
  for (const Action action : {Action::kPause, Action::kStop, Action::kStopNow}) {
    const auto world = World({.rounds = 3, .clients_per_round = 2}, 0);
    world->Start();
    world->Control(action);
    CHECK(world->View().state ==
          (action == Action::kPause ? RunState::kPaused : RunState::kStopped));
    CHECK(world->Events<RunEnded>().size() == 1);
  }
}

TEST_CASE("a paused run can be stopped", "[unit]") {
  const auto world = World({.rounds = 3, .clients_per_round = 2}, 0);
  world->Start();
  world->Control(Action::kPause);
  world->Control(Action::kStop);
  CHECK(world->View().state == RunState::kStopped);
}

TEST_CASE("a command for an unknown run changes nothing", "[unit]") {
  const auto world = World({}, 1);
  world->Start();
  const std::string before = world->Digest();
  world->Step(ControlRun{RunId{}, Action::kStopNow});
  CHECK(world->Digest() == before);
}

TEST_CASE("starting a run twice with one request key starts it once", "[unit]") {
  const auto world = World({}, 0);
  world->Start();
  auto again = std::make_shared<RunSpec>(*test::SmallRun({}));
  again->id.bytes[5] = 7;
  world->Step(StartRun{again, "", "key"});
  CHECK(world->commits == 1);
}

Evaluated Accuracy(double value) {
  return {.metrics = {{"accuracy", value, 0}}, .examples = 10};
}

TEST_CASE("the central evaluation follows each due round and the last one", "[unit]") {
  const auto world =
      World({.rounds = 5, .clients_per_round = 2, .has_test_data = true, .eval_every = 2}, 2);
  world->evaluate = [](const EvaluateJob& job) { return Accuracy(0.1 * job.round); };
  world->Start();
  world->Work();
  std::vector<std::uint32_t> rounds;
  for (const auto& evaluated : world->Events<CentralEvaluated>()) rounds.push_back(evaluated.round);
  CHECK(rounds == std::vector<std::uint32_t>{2, 4, 5});
  CHECK(world->View().state == RunState::kFinished);
}

TEST_CASE("a run stops at its target", "[unit]") {
  const auto world = World({.rounds = 9,
                            .clients_per_round = 2,
                            .has_test_data = true,
                            .stop = {.target = 0.3, .stop_at_target = true}},
                           2);
  world->evaluate = [](const EvaluateJob& job) { return Accuracy(0.1 * job.round); };
  world->Start();
  world->Work();
  CHECK(world->published.size() == 3);
  CHECK(world->View().state == RunState::kFinished);
  CHECK(world->View().reason == "target reached after 3 rounds");
}

TEST_CASE("a run stops when patience runs out", "[unit]") {
  const auto world = World({.rounds = 9,
                            .clients_per_round = 2,
                            .has_test_data = true,
                            .stop = {.target = {}, .patience = 2}},
                           2);
  world->evaluate = [](const EvaluateJob& job) { return Accuracy(job.round == 2 ? 0.5 : 0.4); };
  world->Start();
  world->Work();
  CHECK(world->published.size() == 4);
  CHECK(world->View().reason == "no improvement of accuracy in 2 evaluations");
}

TEST_CASE("clients evaluate the published model where due and at the end", "[unit]") {
  const auto world = World({.rounds = 3, .clients_per_round = 2, .client_eval_every = 2}, 4);
  world->Start();
  world->Work();
  std::vector<AttemptEnded> evaluations;
  for (const auto& ended : world->Events<AttemptEnded>()) {
    if (ended.key.kind == TaskKind::kEvaluate) evaluations.push_back(ended);
  }
  REQUIRE(evaluations.size() == 2);
  CHECK(evaluations[0].key.round == 2);
  CHECK(evaluations[1].key.round == 3);
  CHECK(evaluations[0].counts.ok == 4);
  REQUIRE(evaluations[0].metrics.size() == 1);
  CHECK(evaluations[0].metrics[0].name == "accuracy");
  CHECK(evaluations[0].metrics[0].clients == 4);
  // Weights 10, 17, 24, 31; values 0.5, 0.625, 0.75, 0.875.
  CHECK(evaluations[0].metrics[0].value ==
        Approx((10 * 0.5 + 17 * 0.625 + 24 * 0.75 + 31 * 0.875) / 82).epsilon(1e-15));
  CHECK(world->View().state == RunState::kFinished);
}

TEST_CASE("the evaluation sample is fixed and of the asked size", "[unit]") {
  const auto world = World(
      {.rounds = 2, .clients_per_round = 2, .client_eval_every = 1, .client_eval_clients = 3}, 6);
  world->Start();
  world->Work();
  std::map<std::uint32_t, std::vector<ClientNumber>> samples;
  for (const auto& outcome : world->Events<ClientOutcome>()) {
    if (outcome.key.kind == TaskKind::kEvaluate) {
      samples[outcome.key.round].push_back(outcome.client);
    }
  }
  REQUIRE(samples.size() == 2);
  CHECK(samples[1].size() == 3);
  CHECK(samples[1] == samples[2]);
}

TEST_CASE("evaluation never changes the model", "[unit]") {
  const auto plain = World({.rounds = 3, .clients_per_round = 2}, 4);
  plain->Start();
  plain->Work();
  const auto evaluated = World({.rounds = 3, .clients_per_round = 2, .client_eval_every = 1}, 4);
  evaluated->Start();
  evaluated->Work();
  CHECK(evaluated->model() == plain->model());
}

TEST_CASE("an evaluation report with a body is refused", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2, .client_eval_every = 1}, 2);
  world->tamper = [](ClientNumber client, wire::UploadBegin& begin) {
    if (client == 0 && begin.task.kind == wire::TaskKind::kEvaluate) begin.size = 32;
  };
  world->Start();
  world->Work();
  REQUIRE(world->refusals.size() == 1);
  CHECK(world->refusals[0].code == 2101);
  CHECK(world->View().state == RunState::kFinished);
}

TEST_CASE("a client evaluation that nobody attends ends empty", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2, .client_eval_every = 1}, 2);
  world->holds_uploads = true;
  world->Start();
  world->Work();
  world->FinishUpload(0);
  world->FinishUpload(1);
  world->Leave(0);
  world->Leave(1);
  CHECK(world->View().attempt.kind == TaskKind::kEvaluate);
  world->Advance(std::chrono::minutes(3));
  CHECK(world->View().state == RunState::kFinished);
  CHECK(world->Events<AttemptEnded>().back().reason == "no client was there to evaluate");
}

}  // namespace
}  // namespace skep::aggregator
