// Offers: every reason to decline, and the order in which reasons are looked at.
#include "tests/client/scripted_server.h"

namespace skep::client::test {
namespace {

// Offers `task` to a fresh session that has plan and model at hand.
void OfferTo(Script& script, const OfferedTask& task) {
  script.device.plans[MakeTask().manifest.plan_sha256] =
      std::make_shared<const wire::Plan>(MakePlan());
  script.device.model = MakeModel();
  script.Connect();
  script.Offer(task);
}

TEST_CASE("a connected session asks for a task", "[unit]") {
  Script script;
  CHECK(script.session.state() == SessionState::kConnecting);
  script.Connect();
  const auto* poll = script.Said<wire::Poll>();
  REQUIRE(poll != nullptr);
  CHECK(poll->population == "pump");
  CHECK(poll->hold_ms == 60'000);
  CHECK(poll->max_model_bytes == 1000);
  CHECK(poll->encodings == std::vector{wire::Encoding::kF32});
  CHECK(poll->task_kinds == std::vector{wire::TaskKind::kTrain, wire::TaskKind::kEvaluate});
  CHECK_FALSE(poll->evidence.has_value());
  CHECK(script.session.state() == SessionState::kPolling);
  CHECK(script.Armed() == seconds(90));
}

TEST_CASE("an offer with plan and model at hand goes straight to training", "[unit]") {
  Script script;
  OfferTo(script, MakeTask());
  const auto* accept = script.Said<wire::TaskAccept>();
  REQUIRE(accept != nullptr);
  CHECK(accept->task == MakeTask().Ref());
  CHECK(script.Messages() == 1);
  const auto* start = script.Get<StartTraining>();
  REQUIRE(start != nullptr);
  CHECK(start->client == 7);
  CHECK(start->plan->batch_size == 4);
  CHECK(start->model.sha256 == MakeModel().sha256);
  CHECK(script.NoteOf(Note::Kind::kOffer) != nullptr);
}

TEST_CASE("a key that is not pinned and a wrong signature are declined", "[unit]") {
  Script unknown_key;
  unknown_key.device.verdict = Error{3132, "unknown key", ""};
  OfferTo(unknown_key, MakeTask());
  CheckDeclined(unknown_key, 3132);
  Script wrong_signature;
  wrong_signature.device.verdict = Error{3131, "wrong signature", ""};
  OfferTo(wrong_signature, MakeTask());
  CheckDeclined(wrong_signature, 3131);
  CHECK(wrong_signature.session.memory().seen.empty());
}

TEST_CASE("a manifest of another federation is declined", "[unit]") {
  Script script;
  OfferedTask task = MakeTask();
  task.manifest.federation_id = MakeId<FederationId>(8);
  OfferTo(script, task);
  CheckDeclined(script, 2216);
}

TEST_CASE("an expired manifest and one from the future are declined", "[unit]") {
  Script expired;
  OfferedTask old = MakeTask();
  old.manifest.expires_at_ms = kWall - 1;
  OfferTo(expired, old);
  CheckDeclined(expired, 2215);
  Script ahead;
  OfferedTask early = MakeTask();
  early.manifest.issued_at_ms = kWall + 10 * 60 * 1000 + 1;
  OfferTo(ahead, early);
  CheckDeclined(ahead, 2215);
}

TEST_CASE("the aggregator's clock judges times, not the device's", "[unit]") {
  Script script;
  script.now.wall = kWall - 400 * 24 * 3'600'000ULL;  // a device that lost its clock
  OfferTo(script, MakeTask());
  CHECK(script.Said<wire::TaskAccept>() != nullptr);
}

TEST_CASE("a round that goes backwards is declined with the evidence", "[unit]") {
  Script script;
  script.ReachTraining(MakeTask(5));
  script.Hear(wire::RoundClosed{.task = MakeTask(5).Ref(),
                                .reason = wire::RoundClosedReason::kStopped,
                                .come_back = std::nullopt});
  script.Offer(MakeTask(4));
  CheckDeclined(script, 2217);
  const auto* decline = script.Said<wire::TaskDecline>();
  REQUIRE(decline->evidence.has_value());
  CHECK(*decline->evidence == MakeTask(5).Message().manifest);
}

TEST_CASE("round, kind, attempt and epoch order what was seen", "[unit]") {
  const auto offered_after = [](OfferedTask first, OfferedTask second) {
    Script script;
    script.ReachTraining(first);
    script.Hear(wire::RoundClosed{.task = first.Ref(),
                                  .reason = wire::RoundClosedReason::kStopped,
                                  .come_back = std::nullopt});
    script.Offer(second);
    return script.Said<wire::TaskAccept>() != nullptr;
  };
  OfferedTask second_attempt = MakeTask(5);
  second_attempt.manifest.attempt = 2;
  OfferedTask next_epoch = MakeTask(1);
  next_epoch.manifest.epoch = 2;
  OfferedTask other_run = MakeTask(1);
  other_run.manifest.run_id = MakeId<RunId>(77);
  const OfferedTask evaluation = MakeTask(5, wire::TaskKind::kEvaluate);
  CHECK(offered_after(MakeTask(5), MakeTask(5)));
  CHECK(offered_after(MakeTask(5), second_attempt));
  CHECK_FALSE(offered_after(second_attempt, MakeTask(5)));
  CHECK(offered_after(second_attempt, evaluation));
  CHECK_FALSE(offered_after(evaluation, second_attempt));
  CHECK(offered_after(MakeTask(5), next_epoch));
  CHECK_FALSE(offered_after(next_epoch, MakeTask(5)));
  CHECK(offered_after(MakeTask(5), other_run));
}

TEST_CASE("a model or update above the device's limits is declined", "[unit]") {
  SessionConfig small_model = Script::MakeConfig();
  small_model.max_model_bytes = 59;
  Script first(small_model);
  OfferTo(first, MakeTask());
  CheckDeclined(first, 7404);
  SessionConfig small_update = Script::MakeConfig();
  small_update.max_update_bytes = 59;
  Script second(small_update);
  OfferTo(second, MakeTask());
  CheckDeclined(second, 7404);
}

TEST_CASE("a plan that is not cached is asked for and kept", "[unit]") {
  Script script;
  script.ReachDeciding();
  const auto* request = script.Said<wire::PlanRequest>();
  REQUIRE(request != nullptr);
  CHECK(request->plan_sha256 == MakeTask().manifest.plan_sha256);
  CHECK(script.Armed() == seconds(60));
  script.Hear(wire::PlanReply{request->plan_sha256, wire::EncodePlan(MakePlan()).value()});
  CHECK(script.Said<wire::TaskAccept>() != nullptr);
  CHECK(script.device.plans.size() == 1);
}

TEST_CASE("plan bytes with another hash are declined", "[unit]") {
  Script script;
  script.ReachDeciding();
  Bytes plan = wire::EncodePlan(MakePlan()).value();
  plan.back() ^= 1U;
  script.Hear(wire::PlanReply{MakeTask().manifest.plan_sha256, plan});
  CheckDeclined(script, 2218);
  CHECK(script.device.plans.empty());
}

TEST_CASE("plan bytes that are no plan are declined", "[unit]") {
  Script script;
  script.Connect();
  OfferedTask task = MakeTask();
  const Bytes nonsense{0xFF, 0xFF};
  task.manifest.plan_sha256 = Sha256::Of(nonsense);
  task.manifest.plan_bytes = 2;
  script.Offer(task);
  script.Hear(wire::PlanReply{task.manifest.plan_sha256, nonsense});
  CheckDeclined(script, 2219);
}

TEST_CASE("a plan that the aggregator does not serve is declined", "[unit]") {
  Script script;
  script.ReachDeciding();
  script.Hear(wire::PeerError{.code = 2214,
                              .retry = wire::RetryClass::kNever,
                              .in_reply_to = 0x0017,
                              .text = "plan unknown"});
  CheckDeclined(script, 2214);
}

TEST_CASE("a task without a common encoding is declined", "[unit]") {
  Script script;
  OfferedTask task = MakeTask();
  task.manifest.encodings = {wire::Encoding::kI8Block, wire::Encoding::kTopK};
  OfferTo(script, task);
  CheckDeclined(script, 2112);
}

TEST_CASE("an evaluation is not judged by encodings", "[unit]") {
  Script script;
  OfferedTask task = MakeTask(1, wire::TaskKind::kEvaluate);
  task.manifest.encodings = {wire::Encoding::kTopK};
  OfferTo(script, task);
  CHECK(script.Said<wire::TaskAccept>() != nullptr);
}

TEST_CASE("a kind, a population or a client number not asked for is declined", "[unit]") {
  Script rehearsal;
  OfferTo(rehearsal, MakeTask(1, wire::TaskKind::kRehearse));
  CheckDeclined(rehearsal, 2219);
  Script elsewhere;
  OfferedTask foreign = MakeTask();
  foreign.manifest.population = "other";
  OfferTo(elsewhere, foreign);
  CheckDeclined(elsewhere, 2219);
  SessionConfig known = Script::MakeConfig();
  known.memory.client = 6;
  Script renumbered(known);
  OfferTo(renumbered, MakeTask());
  CheckDeclined(renumbered, 2219);
}

TEST_CASE("a plan that this client cannot do is declined", "[unit]") {
  Script script;
  script.Connect();
  wire::Plan plan = MakePlan();
  plan.params.push_back({.key = "client.proximal_mu", .number = 0.1, .text = {}});
  const Bytes bytes = wire::EncodePlan(plan).value();
  OfferedTask task = MakeTask();
  task.manifest.plan_sha256 = Sha256::Of(bytes);
  task.manifest.plan_bytes = static_cast<std::uint32_t>(bytes.size());
  script.Offer(task);
  script.Hear(wire::PlanReply{task.manifest.plan_sha256, bytes});
  CheckDeclined(script, 2219);
}

TEST_CASE("a manifest that contradicts its plan is declined", "[unit]") {
  Script layout;
  OfferedTask task = MakeTask();
  task.manifest.layout_sha256 = MakeId<Hash32>(9);
  OfferTo(layout, task);
  CheckDeclined(layout, 2219);
  Script size;
  task = MakeTask();
  task.manifest.model_bytes = 56;
  OfferTo(size, task);
  CheckDeclined(size, 2219);
}

TEST_CASE("own data that do not fit, or are none, are declined", "[unit]") {
  Script unsuitable;
  unsuitable.device.examples = Error{7414, "column \"age\" is missing", ""};
  OfferTo(unsuitable, MakeTask());
  CheckDeclined(unsuitable, 7414);
  CHECK(unsuitable.NoteOf(Note::Kind::kDeclined)->text == "column \"age\" is missing");
  Script empty;
  empty.device.examples = 0U;
  OfferTo(empty, MakeTask());
  CheckDeclined(empty, 7402);
  Script odd;
  odd.device.examples = Error{1202, "a number of the device's own", ""};
  OfferTo(odd, MakeTask());
  CheckDeclined(odd, 7401);
}

TEST_CASE("more examples than the run lets weigh are declined with both numbers", "[unit]") {
  Script script;
  script.device.examples = 1001U;
  OfferTo(script, MakeTask());
  CheckDeclined(script, 7413);
  const std::string& text = script.NoteOf(Note::Kind::kDeclined)->text;
  CHECK(text.find("1001") != std::string::npos);
  CHECK(text.find("1000") != std::string::npos);
  CHECK(text.find("admission.max_weight") != std::string::npos);
}

TEST_CASE("equal weights set no limit to examples", "[unit]") {
  Script script;
  wire::Plan plan = MakePlan();
  plan.params.push_back({.key = "training.weighting", .number = 0, .text = "uniform"});
  const Bytes bytes = wire::EncodePlan(plan).value();
  OfferedTask task = MakeTask();
  task.manifest.plan_sha256 = Sha256::Of(bytes);
  task.manifest.plan_bytes = static_cast<std::uint32_t>(bytes.size());
  task.manifest.max_weight = 1;
  script.device.plans[task.manifest.plan_sha256] = std::make_shared<const wire::Plan>(plan);
  script.Connect();
  script.Offer(task);
  CHECK(script.Said<wire::TaskAccept>() != nullptr);
}

// A task that is wrong in every way, repaired one check at a time: each repair uncovers the next.
TEST_CASE("checks come in the order of the protocol", "[unit]") {
  SessionConfig config = Script::MakeConfig();
  config.memory.client = 6;
  Script script(config);
  script.device.plans[MakeTask().manifest.plan_sha256] =
      std::make_shared<const wire::Plan>(MakePlan());
  script.device.model = MakeModel();
  script.device.verdict = Error{3132, "unknown key", ""};
  script.device.examples = Error{7414, "unsuitable", ""};
  script.Connect();
  OfferedTask task = MakeTask(5);
  task.manifest.federation_id = MakeId<FederationId>(8);
  task.manifest.expires_at_ms = 1;
  task.manifest.model_bytes = 5000;
  task.manifest.encodings = {wire::Encoding::kTopK};
  const auto declined_with = [&] {
    script.Offer(task);
    const auto* decline = script.Said<wire::TaskDecline>();
    return decline == nullptr ? 0U : decline->code;
  };
  CHECK(declined_with() == 3132);
  script.device.verdict = Ok();
  CHECK(declined_with() == 2216);
  task.manifest.federation_id = MakeId<FederationId>(1);
  CHECK(declined_with() == 2215);
  task.manifest.expires_at_ms = kWall + 1000;
  CHECK(declined_with() == 7404);
  task.manifest.round = 4;
  CHECK(declined_with() == 2217);
  task.manifest.round = 5;
  task.manifest.model_bytes = 60;
  CHECK(declined_with() == 2112);
  task.manifest.encodings = {wire::Encoding::kF32};
  CHECK(declined_with() == 2219);  // client 7, known as 6
  task.client = 6;
  CHECK(declined_with() == 7414);
  script.device.examples = 5000U;
  CHECK(declined_with() == 7413);
  script.device.examples = 10U;
  CHECK(declined_with() == 0);
  CHECK(script.session.state() == SessionState::kTraining);
}

TEST_CASE("a plan that does not come while the offer stands is declined", "[unit]") {
  Script script;
  script.ReachDeciding();
  script.FireTimer();
  CheckDeclined(script, 7410);
}

TEST_CASE("a plan that comes after its offer has ended changes nothing", "[unit]") {
  Script script;
  script.ReachDeciding();
  script.Hear(wire::RoundClosed{.task = MakeTask().Ref(),
                                .reason = wire::RoundClosedReason::kComplete,
                                .come_back = std::nullopt});
  CHECK(script.session.state() == SessionState::kPolling);
  script.Hear(
      wire::PlanReply{MakeTask().manifest.plan_sha256, wire::EncodePlan(MakePlan()).value()});
  CHECK(script.outputs.empty());
  CHECK(script.session.state() == SessionState::kPolling);
}

TEST_CASE("an offer or a plan that was not asked for ends the session", "[unit]") {
  Script twice;
  twice.ReachTraining();
  twice.Offer(MakeTask());
  CHECK(twice.Get<Reconnect>() != nullptr);
  CHECK(twice.session.state() == SessionState::kTraining);  // the task goes on
  Script unasked;
  unasked.Connect();
  unasked.Hear(wire::PlanReply{MakeId<Hash32>(1), {}});
  CHECK(unasked.session.state() == SessionState::kBackOff);
}

TEST_CASE("a manifest that cannot be read ends the session", "[unit]") {
  Script script;
  script.Connect();
  OfferedTask task = MakeTask();
  task.payload = Bytes{0x0A};
  script.Offer(task);
  CHECK(script.Messages() == 0);
  CHECK(script.session.state() == SessionState::kBackOff);
}

TEST_CASE("what was seen is remembered before a task is accepted", "[unit]") {
  Script script;
  const std::uint64_t before = script.session.memory().revision;
  script.ReachTraining(MakeTask(3));
  const SessionMemory& memory = script.session.memory();
  CHECK(memory.revision > before);
  REQUIRE(memory.seen.size() == 1);
  CHECK(memory.seen[0].round == 3);
  CHECK(memory.seen[0].manifest == MakeTask(3).Message().manifest);
  CHECK(memory.client == ClientNumber{7});
}

}  // namespace
}  // namespace skep::client::test
