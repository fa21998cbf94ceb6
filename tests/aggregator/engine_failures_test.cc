// Rounds that do not go as planned: refusals, silence, deadlines, abandoned attempts.
#include <limits>

#include "tests/support/catch.h"
#include "tests/support/engine_harness.h"

namespace skep::aggregator {
namespace {

using test::Script;
using test::World;

TEST_CASE("a round in which all clients fail is abandoned and changes nothing", "[unit]") {
  const auto world = World({.clients_per_round = 4}, 4);
  for (ClientNumber client = 0; client < 4; ++client) world->scripts[client] = Script::kFail;
  world->Start();
  world->Work();
  const auto ended = world->Events<AttemptEnded>();
  REQUIRE(ended.size() == 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK_FALSE(ended[i].published);
    CHECK(ended[i].key.round == 1);
    CHECK(ended[i].key.attempt == i + 1);
    CHECK(ended[i].counts.failed == 4);
    CHECK(ended[i].counts.ok == 0);
    CHECK(ended[i].code == 7406);
    CHECK(ended[i].model == test::SmallModel().ModelHash());
  }
  CHECK(ended[0].reason ==
        "0 of 2 updates needed and no client is left; most often SKEP-7406 (4 clients, client " +
            std::to_string(world->Events<ClientOutcome>().front().client) + " for one)");
  CHECK(world->published.empty());
  CHECK(world->model() == test::SmallModel().ModelHash());
}

TEST_CASE("after max_attempts abandoned attempts the run pauses with 2201", "[unit]") {
  const auto world = World({.clients_per_round = 4, .max_attempts = 2}, 4);
  for (ClientNumber client = 0; client < 4; ++client) world->scripts[client] = Script::kFail;
  world->Start();
  world->Work();
  const RunView view = world->View();
  CHECK(view.state == RunState::kPaused);
  CHECK(view.code == 2201);
  CHECK(view.phase == "stopped");
  CHECK(view.reason.find("2 attempts of round 1 in a row were abandoned") == 0);
  const auto over = world->Events<RunEnded>();
  REQUIRE(over.size() == 1);
  CHECK(over[0].code == 2201);
}

TEST_CASE("a paused run that is resumed goes on with the next attempt", "[unit]") {
  const auto world = World({.clients_per_round = 4, .max_attempts = 1}, 4);
  for (ClientNumber client = 0; client < 4; ++client) world->scripts[client] = Script::kFail;
  world->Start();
  world->Work();
  REQUIRE(world->View().state == RunState::kPaused);
  world->scripts.clear();
  world->Control(ControlRun::Action::kResume);
  world->Work();
  CHECK(world->View().state == RunState::kFinished);
  CHECK(world->Events<AttemptEnded>()[1].key.attempt == 2);
}

TEST_CASE("at the deadline a round with enough reports is published", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 4, .min_reports = 2}, 4);
  world->scripts[0] = Script::kSilent;
  world->scripts[1] = Script::kSilent;
  world->Start();
  world->Work();
  CHECK(world->published.empty());
  CHECK(world->View().waiting_for == "waiting for reports: 2 of 4 are in, 2 clients at work");
  world->Advance(std::chrono::minutes(11));
  REQUIRE(world->published.size() == 1);
  const auto ended = world->Events<AttemptEnded>();
  CHECK(ended[0].counts.ok == 2);
  CHECK(ended[0].counts.dropped == 2);  // silent for longer than the lease
}

TEST_CASE("at the deadline a round with too few reports is abandoned", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 4, .min_reports = 3}, 4);
  world->scripts[0] = Script::kSilent;
  world->scripts[1] = Script::kSilent;
  world->Start();
  world->Work();
  world->Advance(std::chrono::minutes(10));
  const auto ended = world->Events<AttemptEnded>();
  REQUIRE(ended.size() == 1);
  CHECK_FALSE(ended[0].published);
  CHECK(ended[0].reason.find("2 of 3 updates needed by the report deadline") == 0);
  CHECK(world->model() == test::SmallModel().ModelHash());
  CHECK(world->View().attempt.attempt == 2);
}

TEST_CASE("a client still in touch at the close is late, a silent one dropped", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 4, .min_reports = 2}, 4);
  world->scripts[0] = Script::kSilent;
  world->scripts[1] = Script::kSilent;
  world->Start();
  world->Work();
  world->Advance(std::chrono::minutes(8));
  const wire::Manifest manifest = world->ManifestOf(0);
  const wire::TaskRef task{manifest.run_id, manifest.round, manifest.attempt, manifest.kind};
  world->Step(ClientMessage{world->SessionOf(0), wire::Progress{.task = task}});
  world->Advance(std::chrono::minutes(2));
  std::map<ClientNumber, std::pair<Outcome, int>> outcomes;
  for (const auto& outcome : world->Events<ClientOutcome>()) {
    outcomes[outcome.client] = {outcome.outcome, outcome.code};
  }
  CHECK(outcomes[0] == std::pair(Outcome::kLate, 2109));
  CHECK(outcomes[1] == std::pair(Outcome::kDropped, 3324));
  CHECK(outcomes[2] == std::pair(Outcome::kOk, 0));
}

TEST_CASE("a late result of a closed round is refused and changes nothing", "[unit]") {
  const auto world = World({.rounds = 2, .clients_per_round = 4, .min_reports = 2}, 4);
  world->scripts[0] = Script::kSilent;
  world->Start();
  world->Work();
  const wire::UploadBegin late = world->BeginOf(0);
  world->Advance(std::chrono::minutes(10));
  REQUIRE(world->published.size() == 1);
  const std::string before = world->Digest();
  world->Step(UploadOffered{world->SessionOf(0), late, std::nullopt});
  REQUIRE(world->refusals.size() == 1);
  CHECK(world->refusals[0].code == 2109);
  CHECK(world->Digest() == before);
}

TEST_CASE("a result of a round that another one has followed is 2212", "[unit]") {
  const auto world = World({.rounds = 2, .clients_per_round = 3, .min_reports = 2}, 3);
  world->scripts[0] = Script::kSilent;
  world->Start();
  world->Work();
  const wire::UploadBegin late = world->BeginOf(0);
  world->Advance(std::chrono::minutes(10));
  world->Work();
  REQUIRE(world->View().attempt.round == 2);
  REQUIRE(world->View().phase == "collecting");
  const std::string before = world->Digest();
  world->Step(UploadOffered{world->SessionOf(0), late, std::nullopt});
  REQUIRE(world->refusals.size() == 1);
  CHECK(world->refusals[0].code == 2212);
  CHECK(world->Digest() == before);
}

TEST_CASE("with over-selection the attempt closes at the m-th report", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 3, .invited = 5}, 5);
  world->holds_uploads = true;
  world->Start();
  world->Work();
  for (const ClientNumber client : {0U, 1U, 2U}) world->FinishUpload(client);
  REQUIRE(world->published.size() == 1);
  const auto ended = world->Events<AttemptEnded>();
  CHECK(ended[0].counts.invited == 5);
  CHECK(ended[0].counts.ok == 3);
  CHECK(ended[0].counts.late == 2);
  CHECK(world->cancels.size() == 2);  // those that were receiving
  CHECK(world->cancels[0].code == 2109);
}

TEST_CASE("uploads that are settling at the close finish and count", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 3, .invited = 5}, 5);
  world->holds_uploads = true;
  world->Start();
  world->Work();
  world->holds_commits = true;
  for (const ClientNumber client : {0U, 1U, 2U, 3U}) world->FinishUpload(client);
  CHECK(world->MessagesTo<wire::UpdateAck>(world->SessionOf(0)).empty());  // not durable yet
  world->FinishCommits();
  REQUIRE(world->published.size() == 1);
  const auto ended = world->Events<AttemptEnded>();
  CHECK(ended[0].counts.ok == 4);
  CHECK(ended[0].counts.late == 1);
  CHECK(world->MessagesTo<wire::UpdateAck>(world->SessionOf(3)).size() == 1);
}

TEST_CASE("an offer that nobody answers expires and its place is filled again", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2}, 3);
  for (ClientNumber client = 0; client < 3; ++client) world->scripts[client] = Script::kIgnore;
  world->Start();
  world->Work();
  std::vector<ClientNumber> offered;
  for (const test::Sent& sent : world->sent) {
    if (const auto* offer = std::get_if<wire::TaskOffer>(&sent.message)) {
      offered.push_back(offer->client);
    }
  }
  REQUIRE(offered.size() == 2);
  const ClientNumber third = 3 - offered[0] - offered[1];
  world->scripts.erase(third);
  world->Advance(std::chrono::seconds(60));
  world->Work();
  CHECK(world->MessagesTo<wire::RoundClosed>(world->SessionOf(offered[0])).size() == 1);
  CHECK(world->MessagesTo<wire::TaskOffer>(world->SessionOf(third)).size() == 1);
  const auto ended = world->Events<AttemptEnded>();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].published);
  CHECK(ended[0].counts.invited == 3);  // those whose offer expired are not asked twice
  CHECK(ended[0].counts.started == 1);
}

TEST_CASE("a declined place goes to the next client of the draw", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 4, .min_reports = 4}, 6);
  world->Start();
  std::vector<ClientNumber> cohort;
  for (const test::Sent& sent : world->sent) {
    if (const auto* offer = std::get_if<wire::TaskOffer>(&sent.message)) {
      cohort.push_back(offer->client);
    }
  }
  REQUIRE(cohort.size() == 4);
  const auto order = DrawCohort(42, 1, 1, {0, 1, 2, 3, 4, 5}, 6);
  const wire::Manifest manifest = world->ManifestOf(cohort[0]);
  const wire::TaskRef task{manifest.run_id, manifest.round, manifest.attempt, manifest.kind};
  world->Step(ClientMessage{world->SessionOf(cohort[0]),
                            wire::TaskDecline{.task = task, .code = 7404, .evidence = {}}});
  CHECK(world->MessagesTo<wire::TaskOffer>(world->SessionOf(order[4])).size() == 1);
  CHECK(world->MessagesTo<wire::TaskOffer>(world->SessionOf(order[5])).empty());
  world->Work();
  REQUIRE(world->Events<AttemptEnded>().size() == 1);
  CHECK(world->Events<AttemptEnded>()[0].counts.declined == 1);
  CHECK(world->Events<AttemptEnded>()[0].counts.ok == 4);
}

TEST_CASE("a new model that is not finite abandons the attempt with 2202", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2, .max_attempts = 1}, 2);
  world->fail_job = [](const Job& job) -> std::optional<Error> {
    if (!std::holds_alternative<FinishJob>(job)) return std::nullopt;
    return Error{2202, "the new model is not finite in \"0.weight\"", ""};
  };
  world->Start();
  world->Work();
  const auto ended = world->Events<AttemptEnded>();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].code == 2202);
  CHECK(ended[0].reason == "the new model is not finite in \"0.weight\"");
  CHECK(world->model() == test::SmallModel().ModelHash());
}

TEST_CASE("a commit that fails with 4005 stops the engine before any acknowledgement", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2}, 2);
  world->fail_job = [](const Job& job) -> std::optional<Error> {
    const auto* commit = std::get_if<CommitJob>(&job);
    if (commit == nullptr || !std::holds_alternative<UpdateTx>(commit->transaction)) {
      return std::nullopt;
    }
    return Error{4005, "sync failed", ""};
  };
  world->Start();
  world->Work();
  REQUIRE(world->failures.size() == 1);
  CHECK_FALSE(world->failures[0].run.has_value());
  CHECK(world->failures[0].error.code == 4005);
  CHECK(world->MessagesTo<wire::UpdateAck>(world->SessionOf(0)).empty());
  CHECK(world->MessagesTo<wire::UpdateAck>(world->SessionOf(1)).empty());
}

TEST_CASE("a job that fails halts its run and says why", "[unit]") {
  const auto world = World({.rounds = 1, .clients_per_round = 2}, 2);
  world->fail_job = [](const Job& job) -> std::optional<Error> {
    if (!std::holds_alternative<FoldJob>(job)) return std::nullopt;
    return Error{4007, "a body is missing", ""};
  };
  world->Start();
  world->Work();
  CHECK(world->View().state == RunState::kHalted);
  CHECK(world->View().code == 4007);
  REQUIRE(world->failures.size() == 1);
  CHECK(world->failures[0].run.has_value());
}

TEST_CASE("an update id that was used in an earlier round is refused with 2111", "[unit]") {
  const auto world = World({.rounds = 2, .clients_per_round = 2, .min_reports = 1}, 2);
  world->tamper = [](ClientNumber client, wire::UploadBegin& begin) {
    if (client == 0) begin.update_id.bytes.fill(9);
  };
  world->Start();
  world->Work();
  CHECK(world->published.size() == 2);
  REQUIRE(world->refusals.size() == 1);
  CHECK(world->refusals[0].code == 2111);
  CHECK(world->Events<AttemptEnded>()[1].counts.rejected == 1);
}

}  // namespace
}  // namespace skep::aggregator
