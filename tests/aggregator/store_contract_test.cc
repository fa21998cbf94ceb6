// One suite for every implementation of the Store.
#include <algorithm>
#include <tuple>

#include "tests/aggregator/store_fixture.h"

namespace skep::aggregator::test {
namespace {

// Runs the rest of a test case once per implementation.
std::unique_ptr<StoreUnderTest> AnyStore() {
  const auto number = GENERATE(range(0, 2));
  INFO("implementation " << number);
  return kAllStores[static_cast<std::size_t>(number)]();
}

// The transaction contradicts the store: SKEP-4007, and nothing has changed.
void CheckContradiction(StoreUnderTest& under_test, const Transaction& transaction) {
  const std::string before = under_test.State();
  const auto applied = under_test.Apply(transaction);
  REQUIRE_FALSE(applied.has_value());
  CHECK(applied.error().code == 4007);
  CHECK(under_test.State() == before);
}

TEST_CASE("a new store is empty and counts from one", "[contract]") {
  const auto under_test = AnyStore();
  const StoreSnapshot snapshot = under_test->store().Load().value();
  CHECK(snapshot.federation == kFederation);
  CHECK(snapshot.epoch == 1);
  CHECK(snapshot.next_seq == 1);
  CHECK(snapshot.next_upload == 1);
  CHECK(snapshot.runs.empty());
}

TEST_CASE("a started run comes back with every field", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}});
  under_test->Reopen();
  const RunRow run = under_test->store().Load().value().runs.at(0).run;
  CHECK(run.name == "run-1");
  CHECK(run.seed == 0xFEDCBA9876543210U);
  CHECK(run.plan == PlanBytes());
  CHECK(run.model == ModelHash(1));
  CHECK(run.scale == 33);
  CHECK(run.request_key == "key-1");
  CHECK(run.next_round == 1);
  CHECK(run.next_attempt == 1);
}

TEST_CASE("a run is not started twice, nor under a name that is alive", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}});
  CheckContradiction(*under_test, StartRunTx{MakeRun()});
  RunRow same_name = MakeRun(2);
  same_name.name = "run-1";
  CheckContradiction(*under_test, StartRunTx{same_name});
  under_test->Must({ChangeRunTx{.run = MakeId<RunId>(1), .state = RunState::kStopped, .reason = ""},
                    StartRunTx{same_name}});
}

TEST_CASE("a run whose model was not stored is refused", "[contract]") {
  const auto under_test = AnyStore();
  RunRow run = MakeRun();
  run.model = ModelHash(77);
  CheckContradiction(*under_test, StartRunTx{run});
}

TEST_CASE("an open round comes back with its cohort in order", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())}});
  under_test->Reopen();
  const RunSnapshot run = under_test->store().Load().value().runs.at(0);
  REQUIRE(run.open_rounds.size() == 1);
  const OpenRound& open = run.open_rounds[0];
  CHECK(open.round.key == TrainKey());
  CHECK(open.round.state == RoundState::kOpen);
  CHECK(open.round.manifest == MakeOpen(TrainKey()).round.manifest);
  CHECK(open.round.deadline == 601'000);
  REQUIRE(open.cohort.size() == 3);
  CHECK(open.cohort[0].client == 3);
  CHECK(open.cohort[2].client == 1);
  CHECK(under_test->store().GetPlan(Sha256::Of(PlanBytes())).value() == PlanBytes());
}

TEST_CASE("a round opens only as the next one of a run that runs", "[contract]") {
  const auto under_test = AnyStore();
  CheckContradiction(*under_test, OpenRoundTx{MakeOpen(TrainKey())});
  under_test->Must({StartRunTx{MakeRun()}});
  CheckContradiction(*under_test, OpenRoundTx{MakeOpen(TrainKey(2))});
  CheckContradiction(*under_test, OpenRoundTx{MakeOpen(TrainKey(1, 2))});
  CheckContradiction(*under_test, OpenRoundTx{MakeOpen(TrainKey(), ModelHash(2))});
  CheckContradiction(*under_test, OpenRoundTx{MakeOpen(EvaluateKey())});
  under_test->Must(
      {ChangeRunTx{.run = MakeId<RunId>(1), .state = RunState::kPaused, .reason = ""}});
  CheckContradiction(*under_test, OpenRoundTx{MakeOpen(TrainKey())});
  under_test->Must({ChangeRunTx{.run = MakeId<RunId>(1), .state = RunState::kRunning, .reason = ""},
                    OpenRoundTx{MakeOpen(TrainKey())}});
  CheckContradiction(*under_test, OpenRoundTx{MakeOpen(TrainKey())});
}

TEST_CASE("a device is in a cohort once", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}});
  OpenRoundTx open = MakeOpen(TrainKey());
  open.cohort.push_back(open.cohort[0]);
  CheckContradiction(*under_test, open);
  under_test->Must({OpenRoundTx{MakeOpen(TrainKey())}});
  const AssignmentRow again{.device = Device(10), .client = 1};
  CheckContradiction(*under_test, AssignTx{TrainKey(), again});
}

TEST_CASE("a place freed later is given after the others", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                    EndAssignmentTx{TrainKey(), Device(20), AssignmentState::kDeclined, 7404},
                    AssignTx{TrainKey(), {.device = Device(40), .client = 4}}});
  under_test->Reopen();
  const auto cohort = under_test->store().Load().value().runs.at(0).open_rounds.at(0).cohort;
  REQUIRE(cohort.size() == 4);
  CHECK(cohort[1].state == AssignmentState::kDeclined);
  CHECK(cohort[1].code == 7404);
  CHECK(cohort[3].client == 4);
}

TEST_CASE("an assignment ends once", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                    EndAssignmentTx{TrainKey(), Device(20), AssignmentState::kAccepted, 0},
                    EndAssignmentTx{TrainKey(), Device(20), AssignmentState::kFailed, 7406}});
  // The same again is no news; another end is a contradiction.
  under_test->Must({EndAssignmentTx{TrainKey(), Device(20), AssignmentState::kFailed, 7406}});
  CheckContradiction(*under_test,
                     EndAssignmentTx{TrainKey(), Device(20), AssignmentState::kDeclined, 7404});
  CheckContradiction(*under_test,
                     EndAssignmentTx{TrainKey(), Device(30), AssignmentState::kAcknowledged, 0});
  CheckContradiction(*under_test,
                     EndAssignmentTx{TrainKey(), Device(99), AssignmentState::kDeclined, 7404});
  CheckContradiction(*under_test,
                     EndAssignmentTx{TrainKey(2), Device(30), AssignmentState::kDeclined, 7404});
}

TEST_CASE("an update is stored with its body and a sequence number", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())}});
  // Upload 3 before upload 1: numbers are the driver's, in any order.
  CHECK(under_test->Apply(MakeUpdate(TrainKey(), 3)).value() == 1);
  CHECK(under_test->Apply(MakeUpdate(TrainKey(), 1)).value() == 2);
  under_test->Reopen();
  const StoreSnapshot snapshot = under_test->store().Load().value();
  CHECK(snapshot.next_seq == 3);
  CHECK(snapshot.next_upload == 4);
  const OpenRound& open = snapshot.runs.at(0).open_rounds.at(0);
  REQUIRE(open.updates.size() == 2);
  CHECK(open.updates[0].client == 3);
  CHECK(open.updates[1].weight == 601);
  CHECK(open.updates[1].metrics.at(0).value == 2.25);
  CHECK(open.cohort[0].state == AssignmentState::kAcknowledged);
  CHECK(open.cohort[1].state == AssignmentState::kOffered);
  CHECK(under_test->store().UpdateBody(3).value() == BodyBytes(3));
  CHECK(under_test->store().UpdateBody(2).error().code == 4007);
}

TEST_CASE("an update without its body, assignment or a fresh id changes nothing", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                    UpdateTx{MakeUpdate(TrainKey(), 1)}});
  CheckContradiction(*under_test, MakeUpdate(TrainKey(), 1));  // twice
  CheckContradiction(*under_test, MakeUpdate(TrainKey(), 4));  // not in the cohort
  UpdateTx no_body = MakeUpdate(TrainKey(), 2);
  no_body.update.upload = 99;
  CheckContradiction(*under_test, no_body);
  UpdateTx short_body = MakeUpdate(TrainKey(), 2);
  ++short_body.update.size;
  CheckContradiction(*under_test, short_body);
  UpdateTx same_id = MakeUpdate(TrainKey(), 2);
  same_id.update.update = MakeUpdate(TrainKey(), 1).update.update;
  CheckContradiction(*under_test, same_id);
  UpdateTx same_upload = MakeUpdate(TrainKey(), 2);
  same_upload.update.upload = 1;
  same_upload.update.size = BodyBytes(1).size();
  CheckContradiction(*under_test, same_upload);
  CheckContradiction(*under_test, MakeUpdate(TrainKey(1, 2), 2));
}

TEST_CASE("a verdict is given to whoever asks again", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                    UpdateTx{MakeUpdate(TrainKey(), 1)},
                    EndAssignmentTx{TrainKey(), Device(20), AssignmentState::kRefused, 2105},
                    CloseRoundTx{TrainKey()}, PublishTx{MakePublish(TrainKey(), 2)}});
  under_test->Reopen();
  Store& store = under_test->store();
  const auto accepted = store.Verdict(TrainKey(), Device(10)).value();
  REQUIRE(accepted.has_value());
  CHECK(accepted->update == MakeUpdate(TrainKey(), 1).update.update);
  CHECK(accepted->sha256 == Sha256::Of(BodyBytes(1)));
  CHECK(accepted->seq == 1);
  CHECK(accepted->code == 0);
  const auto refused = store.Verdict(TrainKey(), Device(20)).value();
  REQUIRE(refused.has_value());
  CHECK(refused->code == 2105);
  CHECK_FALSE(store.Verdict(TrainKey(), Device(30)).value().has_value());
  CHECK_FALSE(store.Verdict(TrainKey(9), Device(10)).value().has_value());
}

TEST_CASE("from the close on the set of updates is fixed", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                    UpdateTx{MakeUpdate(TrainKey(), 1)}});
  CheckContradiction(*under_test, MakePublish(TrainKey(), 2));  // not closed yet
  under_test->Must({CloseRoundTx{TrainKey()}, CloseRoundTx{TrainKey()}});
  CheckContradiction(*under_test, MakeUpdate(TrainKey(), 2));
  CheckContradiction(*under_test, AssignTx{TrainKey(), {.device = Device(40), .client = 4}});
  under_test->Reopen();
  const OpenRound open = under_test->store().Load().value().runs.at(0).open_rounds.at(0);
  CHECK(open.round.state == RoundState::kClosing);
  CHECK(open.updates.size() == 1);
  CHECK(under_test->store().UpdateBody(1).value() == BodyBytes(1));
}

TEST_CASE("a published round moves the run on and frees the bodies", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                    UpdateTx{MakeUpdate(TrainKey(), 1)}, CloseRoundTx{TrainKey()}});
  CheckContradiction(*under_test, MakePublish(TrainKey(), 77));  // no such model
  PublishTx wrong_next = MakePublish(TrainKey(), 2);
  wrong_next.next_round = 5;
  CheckContradiction(*under_test, wrong_next);
  under_test->Must({PublishTx{MakePublish(TrainKey(), 2)}});
  under_test->Reopen();
  const RunSnapshot run = under_test->store().Load().value().runs.at(0);
  CHECK(run.run.model == ModelHash(2));
  CHECK(run.run.next_round == 2);
  CHECK(run.open_rounds.empty());
  REQUIRE(run.rounds.size() == 1);
  CHECK(run.rounds[0].state == RoundState::kPublished);
  CHECK(run.rounds[0].model_out == ModelHash(2));
  CHECK(run.rounds[0].total_weight == 1801);
  CHECK(run.rounds[0].metrics.at(0).clients == 3);
  CHECK(under_test->store().UpdateBody(1).error().code == 4007);
  CheckContradiction(*under_test, MakePublish(TrainKey(), 2));
  CheckContradiction(*under_test, CloseRoundTx{TrainKey()});
  CheckContradiction(*under_test, AbandonTx{.key = TrainKey(), .reason = ""});
}

TEST_CASE("a restart knows the latest update of each client that a model includes", "[contract]") {
  const auto under_test = AnyStore();
  // As the same client's update of another round.
  const auto again = [](const AttemptKey& key, std::uint8_t client, std::uint8_t number) {
    UpdateTx tx = MakeUpdate(key, number);
    tx.update.client = client;
    tx.update.device = Device(static_cast<std::uint8_t>(10 * client));
    tx.update.upload = 0;  // the body does not matter here
    tx.update.size = 0;
    return tx;
  };
  OpenRoundTx second = MakeOpen(TrainKey(2), ModelHash(2));
  second.round.opened = 2000;
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                    UpdateTx{MakeUpdate(TrainKey(), 1)}, UpdateTx{MakeUpdate(TrainKey(), 2)}});
  CHECK(under_test->store().Load().value().runs.at(0).contributions.empty());
  under_test->Must({CloseRoundTx{TrainKey()}, PublishTx{MakePublish(TrainKey(), 2)},
                    OpenRoundTx{second}, again(TrainKey(2), 2, 4)});
  const auto look = [&] {
    under_test->Reopen();
    std::vector<std::tuple<ClientNumber, UpdateId, WallMs>> found;
    const StoreSnapshot snapshot = under_test->store().Load().value();
    for (const ContributionRow& row : snapshot.runs.at(0).contributions) {
      found.emplace_back(row.client, row.update, row.opened);
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  using Rows = std::vector<std::tuple<ClientNumber, UpdateId, WallMs>>;
  const Rows before{{1, MakeId<UpdateId>(0x41), 1000}, {2, MakeId<UpdateId>(0x42), 1000}};
  CHECK(look() == before);
  under_test->Must({AbandonTx{.key = TrainKey(2),
                              .code = 2201,
                              .reason = "too few reports",
                              .next_attempt = 2,
                              .abandoned_in_a_row = 1}});
  CHECK(look() == before);
  second = MakeOpen(TrainKey(2, 2), ModelHash(2));
  second.round.opened = 3000;
  PublishTx publish = MakePublish(TrainKey(2, 2), 2);
  publish.next_round = 3;
  under_test->Must({OpenRoundTx{second}, again(TrainKey(2, 2), 2, 5), CloseRoundTx{TrainKey(2, 2)},
                    PublishTx{publish}});
  CHECK(look() == Rows{{1, MakeId<UpdateId>(0x41), 1000}, {2, MakeId<UpdateId>(0x45), 3000}});
}

TEST_CASE("an abandoned attempt keeps the model and opens the round again", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                    UpdateTx{MakeUpdate(TrainKey(), 1)},
                    AbandonTx{.key = TrainKey(),
                              .code = 2201,
                              .reason = "too few reports",
                              .next_attempt = 2,
                              .abandoned_in_a_row = 1}});
  under_test->Reopen();
  const RunSnapshot run = under_test->store().Load().value().runs.at(0);
  CHECK(run.run.model == ModelHash(1));
  CHECK(run.run.state == RunState::kRunning);
  CHECK(run.run.next_round == 1);
  CHECK(run.run.next_attempt == 2);
  CHECK(run.run.abandoned_in_a_row == 1);
  CHECK(run.rounds.at(0).reason == "too few reports");
  CHECK(under_test->store().UpdateBody(1).error().code == 4007);
  under_test->Must({OpenRoundTx{MakeOpen(TrainKey(1, 2))}});
}

TEST_CASE("a run paused by an abandoned attempt says why", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                    AbandonTx{.key = TrainKey(),
                              .code = 2201,
                              .reason = "three attempts in a row",
                              .run_state = RunState::kPaused,
                              .next_attempt = 2,
                              .abandoned_in_a_row = 3}});
  under_test->Reopen();
  const RunRow run = under_test->store().Load().value().runs.at(0).run;
  CHECK(run.state == RunState::kPaused);
  CHECK(run.code == 2201);
  CHECK(run.reason == "three attempts in a row");
}

TEST_CASE("the end of a round does not wake a paused run", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must(
      {StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
       ChangeRunTx{.run = MakeId<RunId>(1), .state = RunState::kPaused, .reason = "by hand"},
       CloseRoundTx{TrainKey()}, PublishTx{MakePublish(TrainKey(), 2)},
       EvaluatedTx{.key = TrainKey(), .metrics = {}, .reason = ""}});
  under_test->Reopen();
  const RunRow run = under_test->store().Load().value().runs.at(0).run;
  CHECK(run.state == RunState::kPaused);
  CHECK(run.reason == "by hand");
  CHECK(run.next_round == 2);
}

TEST_CASE("a central evaluation adds to the published round", "[contract]") {
  const auto under_test = AnyStore();
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())}});
  const EvaluatedTx evaluated{
      .key = TrainKey(), .metrics = {{"accuracy", 0.8, 0}, {"loss", 0.5, 0}}, .reason = ""};
  CheckContradiction(*under_test, evaluated);
  under_test->Must({CloseRoundTx{TrainKey()}, PublishTx{MakePublish(TrainKey(), 2)}, evaluated});
  under_test->Reopen();
  const RunSnapshot run = under_test->store().Load().value().runs.at(0);
  CHECK(run.evaluated_round == 1);
  REQUIRE(run.rounds.at(0).metrics.size() == 3);
  CHECK(run.rounds[0].metrics[1].name == "accuracy");
  CHECK(run.rounds[0].metrics[1].value == 0.8);
}

TEST_CASE("an evaluation by clients is a round of its own", "[contract]") {
  const auto under_test = AnyStore();
  UpdateTx report = MakeUpdate(EvaluateKey(), 1);
  report.update.upload = 0;
  report.update.size = 0;
  report.update.encoding = wire::Encoding::kNone;
  under_test->Must({StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                    CloseRoundTx{TrainKey()}, PublishTx{MakePublish(TrainKey(), 2)},
                    OpenRoundTx{MakeOpen(EvaluateKey(), ModelHash(2))}, report,
                    EvaluatedTx{.key = EvaluateKey(),
                                .metrics = {{"accuracy", 0.7, 1}},
                                .run_state = RunState::kFinished,
                                .reason = "all rounds done"}});
  under_test->Reopen();
  const RunSnapshot run = under_test->store().Load().value().runs.at(0);
  CHECK(run.evaluated_round == 0);
  CHECK(run.open_rounds.empty());
  REQUIRE(run.rounds.size() == 2);
  CHECK(run.rounds[1].state == RoundState::kPublished);
  CHECK(run.rounds[1].metrics.at(0).value == 0.7);
  CHECK(run.run.state == RunState::kFinished);
  CHECK(run.run.reason == "all rounds done");
  CHECK(run.run.next_round == 2);
}

TEST_CASE("a run that is over stays over", "[contract]") {
  const auto under_test = AnyStore();
  const RunId run = MakeId<RunId>(1);
  CheckContradiction(*under_test,
                     ChangeRunTx{.run = run, .state = RunState::kPaused, .reason = ""});
  under_test->Must({StartRunTx{MakeRun()},
                    ChangeRunTx{.run = run, .state = RunState::kStopped, .reason = "by hand"}});
  CheckContradiction(*under_test,
                     ChangeRunTx{.run = run, .state = RunState::kRunning, .reason = ""});
  under_test->Must({ChangeRunTx{.run = run, .state = RunState::kStopped, .reason = "by hand"}});
}

TEST_CASE("models are kept by their hash and checked", "[contract]") {
  const auto under_test = AnyStore();
  Store& store = under_test->store();
  CHECK(store.GetModel(ModelHash(1)).value() == ModelBytes(1));
  CHECK(store.PutModel(ModelHash(1), ModelBytes(1)).has_value());
  CHECK(store.PutModel(ModelHash(1), ModelBytes(2)).error().code == 4008);
  CHECK(store.GetModel(ModelHash(77)).error().code == 4008);
  CHECK(store.GetPlan(ModelHash(77)).error().code == 2214);
}

TEST_CASE("both stores tell the same story after the same transactions", "[contract]") {
  const auto memory = MakeMemory();
  const auto sqlite = MakeSqlite();
  const std::vector<Transaction> story{
      StartRunTx{MakeRun()},
      OpenRoundTx{MakeOpen(TrainKey())},
      EndAssignmentTx{TrainKey(), Device(10), AssignmentState::kAccepted, 0},
      UpdateTx{MakeUpdate(TrainKey(), 2)},
      UpdateTx{MakeUpdate(TrainKey(), 1)},
      CloseRoundTx{TrainKey()},
      AbandonTx{.key = TrainKey(), .code = 2202, .reason = "not finite", .next_attempt = 2},
      OpenRoundTx{MakeOpen(TrainKey(1, 2))},
      CloseRoundTx{TrainKey(1, 2)},
      PublishTx{MakePublish(TrainKey(1, 2), 3)},
      EvaluatedTx{.key = TrainKey(1, 2), .metrics = {{"loss", 0.25, 0}}, .reason = ""},
      StartRunTx{MakeRun(2)},
      ChangeRunTx{.run = MakeId<RunId>(2), .state = RunState::kPaused, .reason = "by hand"},
      OpenRoundTx{MakeOpen(TrainKey(2), ModelHash(3))},
  };
  for (const Transaction& transaction : story) {
    // A restart removes models that no row names.
    REQUIRE(sqlite->store().PutModel(ModelHash(3), ModelBytes(3)).has_value());
    const auto in_memory = memory->Apply(transaction);
    const auto in_sqlite = sqlite->Apply(transaction);
    INFO("transaction " << transaction.index());
    REQUIRE(in_memory.has_value());
    REQUIRE(in_sqlite.has_value());
    CHECK(in_memory.value() == in_sqlite.value());
    sqlite->Reopen();
    REQUIRE(memory->State() == sqlite->State());
  }
}

}  // namespace
}  // namespace skep::aggregator::test
