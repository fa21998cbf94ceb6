// A store that takes no writes for a while: nothing is lost, nothing untrue is said, and the run
// goes on by itself.
#include "tests/support/catch.h"
#include "tests/support/engine_harness.h"

namespace skep::aggregator {
namespace {

using test::EngineHarness;
using test::RunOptions;
using test::Script;

constexpr std::uint32_t kClients = 4;
const RunOptions kTwoRounds{
    .rounds = 2, .clients_per_round = kClients, .min_reports = 3, .has_test_data = true};

bool IsWrite(const Job& job) {
  const auto* commit = std::get_if<CommitJob>(&job);
  if (commit == nullptr) return std::holds_alternative<FinishJob>(job);
  return !std::holds_alternative<StartRunTx>(commit->transaction);
}

// A world whose store fails: counts the writes, and says of each whether it fails.
struct Store {
  std::shared_ptr<MemoryStore> memory =
      std::make_shared<MemoryStore>(test::SmallConfig().federation);
  std::unique_ptr<EngineHarness> world;
  std::uint64_t writes = 0;
  std::function<bool(std::uint64_t write)> is_full = [](std::uint64_t) { return false; };
  Error error{4001, "the disk is full", "free space"};

  explicit Store(const RunOptions& options) {
    world = std::make_unique<EngineHarness>(test::SmallRun(options), memory);
    world->evaluate = [](const EvaluateJob& job) {
      return Evaluated{.metrics = {{"accuracy", 0.1 * job.round, 0}}, .examples = 10};
    };
    world->scripts[1] = Script::kFail;
    world->fail_job = [this](const Job& job) -> std::optional<Error> {
      if (!IsWrite(job) || !is_full(++writes)) return std::nullopt;
      return error;
    };
    for (ClientNumber client = 0; client < kClients; ++client) world->Join(client);
  }

  // What is not waiting to be written is what memory says.
  void CheckAgreement() const {
    const RunView view = world->View();
    if (view.waiting_for.starts_with("waiting for the store")) return;
    const RunRow stored = memory->Load().value().runs.front().run;
    CHECK(stored.model == view.model);
    CHECK((stored.state == view.state || view.phase == "evaluating"));
  }

  void RunToEnd() {
    world->Work();
    for (int i = 0; i < 60 && world->View().state == RunState::kRunning; ++i) {
      CheckAgreement();
      world->Tick();
      world->Work();
    }
    CheckAgreement();
  }

  [[nodiscard]] std::size_t Said(StoreWaiting::Step step) const {
    std::size_t times = 0;
    for (const auto& said : world->Events<StoreWaiting>()) times += said.step == step ? 1U : 0U;
    return times;
  }
};

Hash32 UndisturbedModel(std::uint64_t* writes) {
  Store store(kTwoRounds);
  store.world->Start();
  store.RunToEnd();
  REQUIRE(store.world->View().state == RunState::kFinished);
  *writes = store.writes;
  return store.world->View().model;
}

void CheckFinished(const Store& store, const Hash32& model) {
  const RunRow stored = store.memory->Load().value().runs.front().run;
  CHECK(stored.state == RunState::kFinished);
  CHECK(stored.model == model);
  CHECK(store.world->View().state == RunState::kFinished);
  CHECK(store.world->View().model == model);
  CHECK(store.world->failures.empty());
  for (const AttemptEnded& ended : store.world->Events<AttemptEnded>()) CHECK(ended.published);
  CHECK(store.Said(StoreWaiting::Step::kBegan) == 1);
  CHECK(store.Said(StoreWaiting::Step::kEnded) == 1);
}

TEST_CASE("a run whose n-th write fails once ends at the undisturbed model", "[unit][fault]") {
  std::uint64_t writes = 0;
  const Hash32 model = UndisturbedModel(&writes);
  REQUIRE(writes >= 16);
  for (std::uint64_t n = 1; n <= writes; ++n) {
    INFO("write " << n << " of " << writes);
    Store store(kTwoRounds);
    store.is_full = [n](std::uint64_t write) { return write == n; };
    store.world->Start();
    store.RunToEnd();
    CheckFinished(store, model);
  }
}

TEST_CASE("a disk that is full from the n-th write on is waited for", "[unit][fault]") {
  std::uint64_t writes = 0;
  const Hash32 model = UndisturbedModel(&writes);
  for (std::uint64_t n = 1; n <= writes; ++n) {
    INFO("write " << n << " of " << writes);
    Store store(kTwoRounds);
    std::optional<SteadyTime> space_at;
    store.is_full = [&](std::uint64_t write) {
      if (write == n) space_at = store.world->now.steady + std::chrono::seconds(45);
      return space_at && store.world->now.steady < *space_at;
    };
    store.world->Start();
    store.RunToEnd();
    CheckFinished(store, model);
  }
}

TEST_CASE("while commits are on their way a failed one does not change what is stored in the end",
          "[unit][fault]") {
  std::uint64_t writes = 0;
  const Hash32 model = UndisturbedModel(&writes);
  for (std::uint64_t n = 1; n <= writes; ++n) {
    INFO("write " << n << " of " << writes);
    Store store(kTwoRounds);
    store.is_full = [n](std::uint64_t write) { return write == n; };
    store.world->Start();
    // Several are on their way at a time: those behind the failed one succeed before it.
    for (int i = 0; i < 200 && store.world->View().state == RunState::kRunning; ++i) {
      store.world->holds_commits = true;
      store.world->Work();
      store.world->FinishCommits();
      if (i % 4 == 3) store.world->Tick();
    }
    CheckFinished(store, model);
  }
}

TEST_CASE("a write that builds on one that failed is written after it", "[unit]") {
  // A place is taken by another client and given up again while both rows are on their way.
  Store store({.rounds = 1, .clients_per_round = 3, .min_reports = 1});
  store.world->scripts.clear();
  for (ClientNumber client = 0; client < kClients; ++client) {
    store.world->scripts[client] = Script::kIgnore;
  }
  store.world->Start();
  store.world->Work();
  std::vector<ClientNumber> offered;
  for (const test::Sent& sent : store.world->sent) {
    const auto* offer = std::get_if<wire::TaskOffer>(&sent.message);
    if (offer != nullptr) offered.push_back(offer->client);
  }
  REQUIRE(offered.size() == 3);
  const ClientNumber next = 6 - offered[0] - offered[1] - offered[2];
  const wire::Manifest manifest = store.world->ManifestOf(offered[0]);
  const wire::TaskRef task{manifest.run_id, manifest.round, manifest.attempt, manifest.kind};
  store.world->holds_commits = true;
  store.world->Step(ClientMessage{store.world->SessionOf(offered[0]),
                                  wire::TaskDecline{.task = task, .code = 7404, .evidence = {}}});
  store.world->Step(DeviceChanged{test::DeviceOf(next), DeviceState::kRevoked, {{"bees", next}}});
  store.writes = 0;
  store.is_full = [](std::uint64_t write) { return write == 2; };  // the new assignment
  store.world->FinishCommits();
  store.world->Advance(std::chrono::seconds(5));
  CHECK(store.world->failures.empty());
  CHECK(store.world->View().state == RunState::kRunning);
  const auto cohort = store.memory->Load().value().runs.front().open_rounds.front().cohort;
  REQUIRE(cohort.size() == 4);
  CHECK(cohort[3].client == next);
  CHECK(cohort[3].state == AssignmentState::kExpired);
}

TEST_CASE("a full disk is said where people look, and since when", "[unit]") {
  Store store(kTwoRounds);
  store.is_full = [](std::uint64_t) { return true; };
  store.world->Start();
  store.world->Work();
  const SteadyTime since = store.world->now.steady;
  store.world->Advance(std::chrono::seconds(30));
  const RunView view = store.world->View();
  CHECK(view.state == RunState::kRunning);
  CHECK(view.waiting_for == "waiting for the store: the disk is full (SKEP-4001)");
  CHECK(view.waiting_since == since);
}

TEST_CASE("a write is tried again after 1, 2, 4, 8 and then every 10 seconds", "[unit]") {
  Store store(kTwoRounds);
  std::vector<std::int64_t> tried;
  store.is_full = [&](std::uint64_t) {
    tried.push_back(
        std::chrono::duration_cast<std::chrono::seconds>(store.world->now.steady.time_since_epoch())
            .count());
    return true;
  };
  store.world->Start();
  store.world->Work();
  store.world->Advance(std::chrono::seconds(40));
  CHECK(tried == std::vector<std::int64_t>{0, 1, 3, 7, 15, 25, 35});
}

TEST_CASE("a long outage is announced once, and again every five minutes", "[unit]") {
  Store store(kTwoRounds);
  store.is_full = [](std::uint64_t) { return true; };
  store.world->Start();
  store.world->Work();
  store.world->Advance(std::chrono::minutes(16));
  CHECK(store.Said(StoreWaiting::Step::kBegan) == 1);
  CHECK(store.Said(StoreWaiting::Step::kGoesOn) == 3);
  CHECK(store.Said(StoreWaiting::Step::kEnded) == 0);
  const auto said = store.world->Events<StoreWaiting>();
  CHECK(said.front().error.message == "the disk is full");
  CHECK(said.front().writes == 1);
}

TEST_CASE("an update that cannot be written is put off with 3404 and counts once it can",
          "[unit]") {
  Store store({.rounds = 1, .clients_per_round = kClients, .min_reports = 3});
  bool is_full = false;
  store.is_full = [&](std::uint64_t) { return is_full; };
  store.world->holds_uploads = true;
  store.world->Start();
  store.world->Work();
  is_full = true;
  store.world->FinishUpload(0);
  REQUIRE(store.world->refusals.size() == 1);
  CHECK(store.world->refusals[0].code == 3404);
  CHECK(store.world->MessagesTo<wire::UpdateAck>(store.world->SessionOf(0)).empty());
  is_full = false;
  store.world->Tick();
  store.world->Work();
  const auto acks = store.world->MessagesTo<wire::UpdateAck>(store.world->SessionOf(0));
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].disposition == wire::Disposition::kDuplicate);
  CHECK(store.world->View().counts.ok == 1);
}

TEST_CASE("while nothing can be written a new update is refused before its body", "[unit]") {
  Store store({.rounds = 1, .clients_per_round = kClients, .min_reports = 3});
  bool is_full = false;
  store.is_full = [&](std::uint64_t) { return is_full; };
  store.world->scripts[0] = Script::kSilent;
  store.world->holds_uploads = true;
  store.world->Start();
  store.world->Work();
  is_full = true;
  store.world->FinishUpload(2);
  const std::size_t before = store.world->refusals.size();
  store.world->Step(
      UploadOffered{store.world->SessionOf(0), store.world->BeginOf(0), std::nullopt});
  REQUIRE(store.world->refusals.size() == before + 1);
  CHECK(store.world->refusals.back().code == 3404);
}

TEST_CASE("a halt that cannot be written is written as soon as it can", "[unit]") {
  Store store({.rounds = 1, .clients_per_round = 2});
  bool is_full = false;
  store.world->fail_job = [&](const Job& job) -> std::optional<Error> {
    if (std::holds_alternative<FoldJob>(job)) {
      is_full = true;
      return Error{4007, "a body is missing", ""};
    }
    if (IsWrite(job) && is_full) return store.error;
    return std::nullopt;
  };
  store.world->scripts.clear();
  store.world->Start();
  store.world->Work();
  REQUIRE(store.world->View().state == RunState::kHalted);
  CHECK(store.memory->Load().value().runs.front().run.state == RunState::kRunning);
  CHECK(store.world->View().waiting_for == "waiting for the store: the disk is full (SKEP-4001)");
  is_full = false;
  store.world->Advance(std::chrono::seconds(10));
  const RunRow stored = store.memory->Load().value().runs.front().run;
  CHECK(stored.state == RunState::kHalted);
  CHECK(stored.code == 4007);
}

TEST_CASE("of a pause and a resume on a full disk the later one is stored", "[unit]") {
  Store store(kTwoRounds);
  store.world->Leave(3);  // is waited for
  bool is_full = true;
  store.is_full = [&](std::uint64_t) { return is_full; };
  store.world->holds_commits = true;
  store.world->Start();
  store.world->FinishCommits();
  REQUIRE(store.world->View().phase == "selecting");
  store.world->holds_commits = true;
  store.world->Control(ControlRun::Action::kPause);
  store.world->Control(ControlRun::Action::kResume);
  store.world->FinishCommits();
  is_full = false;
  store.world->Advance(std::chrono::seconds(10));
  CHECK(store.memory->Load().value().runs.front().run.state == RunState::kRunning);
  CHECK(store.world->View().state == RunState::kRunning);
  CHECK(store.world->View().phase == "selecting");
}

TEST_CASE("a damaged store ends the engine, whatever was to be written", "[unit]") {
  Store store(kTwoRounds);
  store.error = {4006, "the database is damaged", ""};
  store.is_full = [](std::uint64_t write) { return write == 3; };
  store.world->Start();
  store.world->Work();
  REQUIRE(store.world->failures.size() == 1);
  CHECK_FALSE(store.world->failures[0].run.has_value());
  CHECK(store.world->failures[0].error.code == 4006);
}

TEST_CASE("a run whose first row cannot be written is refused and never was", "[unit]") {
  Store store(kTwoRounds);
  store.world->fail_job = [](const Job& job) -> std::optional<Error> {
    if (!std::holds_alternative<CommitJob>(job)) return std::nullopt;
    return Error{4001, "the disk is full", ""};
  };
  store.world->Start();
  REQUIRE(store.world->failures.size() == 1);
  CHECK(store.world->failures[0].error.code == 4001);
  CHECK(store.memory->Load().value().runs.empty());
  CHECK(store.world->Events<StoreWaiting>().empty());
}

}  // namespace
}  // namespace skep::aggregator
