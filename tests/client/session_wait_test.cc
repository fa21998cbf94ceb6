// Waiting: silence in every state, come-back windows, refusals by class, back-off, and the end.
#include "tests/client/scripted_server.h"

namespace skep::client::test {
namespace {

wire::ComeBack Window(std::uint32_t earliest_ms, std::uint32_t latest_ms) {
  return {earliest_ms, latest_ms, wire::ComeBackReason::kPacing};
}
wire::PeerError PeerErrorOf(std::uint32_t code, wire::RetryClass retry, std::uint32_t after = 0) {
  return {.code = code, .retry = retry, .retry_after_ms = after, .in_reply_to = 0, .text = "text"};
}

TEST_CASE("a silent aggregator is left in every state that waits for it", "[unit]") {
  struct Silence {
    const char* name;
    void (*reach)(Script&);
    Nanoseconds after;
  };
  const std::vector<Silence> silences{
      {"polling", [](Script& script) { script.Connect(); }, seconds(90)},
      {"download not begun", [](Script& script) { script.ReachDownloading(); }, seconds(60)},
      {"download begun",
       [](Script& script) {
         script.ReachDownloading();
         script.Hear(wire::DownloadBegin{1, 60, 0, kChunk});
       },
       seconds(60)},
      {"upload not accepted", [](Script& script) { script.ReachUploading(); }, seconds(60)},
      {"upload without progress", [](Script& script) { script.ReachSending(); }, seconds(120)},
      {"upload after progress",
       [](Script& script) {
         script.ReachSending();
         script.Hear(wire::TransferProgress{1, 30});
       },
       seconds(120)},
      {"settling", [](Script& script) { script.ReachSettling(); }, seconds(120)}};
  for (const Silence& silence : silences) {
    INFO(silence.name);
    Script script;
    silence.reach(script);
    CHECK(script.Armed() == silence.after);
    script.FireTimer();
    CHECK(script.Get<Reconnect>() != nullptr);
    CHECK(script.session.state() == SessionState::kBackOff);
  }
}

TEST_CASE("a timer of a state that was left changes nothing", "[unit]") {
  Script script;
  script.Connect();
  const TimerId poll_timer = script.Get<ArmTimer>()->timer;
  script.ReachTraining();
  script.Wait(seconds(90));
  script.Step(TimerFired{poll_timer});
  CHECK(script.outputs.empty());
  CHECK(script.session.state() == SessionState::kTraining);
}

TEST_CASE("a large transfer may take as long as the slowest rate allows", "[unit]") {
  Script script;
  script.ReachTraining();
  PendingUpdate update = MakeUpdate(MakeTask().Ref());
  update.body.bytes = std::make_shared<const Bytes>(40'960'000);
  script.Step(TrainingDone{.update = std::move(update)});
  script.Hear(wire::UploadAccept{.transfer_id = 1, .offset = 0, .chunk_bytes = kChunk});
  CHECK(script.Armed() == seconds(120 + 10'000));
  // Once bytes are known to move, the next ones are waited for as ever.
  script.Step(BodyProgress{1});
  CHECK(script.Armed() == seconds(120));
}

TEST_CASE("a short window is spent connected", "[unit]") {
  Script script;
  script.Connect();
  script.device.uniform = 0.25;
  script.Hear(Window(1000, 5000));
  CHECK(script.Messages() == 0);
  CHECK(script.Armed() == seconds(2));
  CHECK(script.session.state() == SessionState::kReady);
  script.FireTimer();
  CHECK(script.Said<wire::Poll>() != nullptr);
}

TEST_CASE("a long window is spent apart and remembered", "[unit]") {
  Script script;
  script.Connect();
  script.Hear(Window(60'000, 120'000));
  REQUIRE(script.Said<wire::Goodbye>() != nullptr);
  CHECK(script.Said<wire::Goodbye>()->reason == wire::GoodbyeReason::kDone);
  CHECK(script.ReconnectAfter() == seconds(90));
  CHECK(script.session.state() == SessionState::kIdle);
  CHECK(script.session.memory().next_check_in == kWall + 90'000);
  script.Step(Disconnected{});  // the close that was ordered
  CHECK(script.outputs.empty());
}

TEST_CASE("a window is drawn within its bounds and cut to a week", "[unit]") {
  for (const double uniform : {0.0, 0.999}) {
    Script script;
    script.Connect();
    script.device.uniform = uniform;
    script.Hear(Window(60'000, 120'000));
    CHECK(script.ReconnectAfter() >= seconds(60));
    CHECK(script.ReconnectAfter() < seconds(120));
  }
  Script script;
  script.Connect();
  script.Hear(Window(4'000'000'000U, 4'000'000'000U));
  CHECK(script.ReconnectAfter() == hours(7 * 24));
}

TEST_CASE("a ComeBack that crossed with something else is ignored", "[unit]") {
  Script script;
  script.ReachTraining();
  script.Hear(Window(60'000, 120'000));
  CHECK(script.outputs.empty());
  CHECK(script.session.state() == SessionState::kTraining);
}

TEST_CASE("an acknowledgement's window is kept", "[unit]") {
  Script script;
  script.ReachSettling();
  script.Hear(wire::UpdateAck{.update_id = MakeId<UpdateId>(1),
                              .sha256 = MakeUpdate({}).body.sha256,
                              .seq = 1,
                              .disposition = wire::Disposition::kAccepted,
                              .come_back = Window(60'000, 60'000)});
  CHECK(script.Said<wire::Poll>() == nullptr);
  CHECK(script.ReconnectAfter() == seconds(60));
}

TEST_CASE("a goodbye sends the client away until its window", "[unit]") {
  Script told;
  told.Connect();
  told.Hear(wire::Goodbye{wire::GoodbyeReason::kDraining, Window(30'000, 30'000)});
  CHECK(told.ReconnectAfter() == seconds(30));
  Script untold;
  untold.Connect();
  untold.Hear(wire::Goodbye{wire::GoodbyeReason::kDraining, std::nullopt});
  CHECK(untold.session.state() == SessionState::kBackOff);
}

TEST_CASE("back-off doubles up to an hour and is reset by an answer", "[unit]") {
  Script script;
  script.device.uniform = 0.999999;
  const auto about = [&](Nanoseconds expected) {
    const Nanoseconds after = script.ReconnectAfter();
    return after <= expected && after > expected - milliseconds(10);
  };
  script.Step(Disconnected{});  // the first attempt to connect failed
  CHECK(about(seconds(15)));
  Nanoseconds longest = seconds(15);
  for (int attempt = 1; attempt < 12; ++attempt) {
    script.Wait(script.ReconnectAfter());
    script.Step(Disconnected{});
    longest = std::min<Nanoseconds>(longest * 2, hours(1));
    INFO("attempt " << attempt);
    CHECK(about(longest));
  }
  CHECK(script.session.memory().failures == 12);
  script.Connect();  // HelloAck alone resets nothing
  CHECK(script.session.memory().failures == 12);
  script.Hear(Window(0, 1));
  CHECK(script.session.memory().failures == 0);
  script.Step(Disconnected{});
  CHECK(about(seconds(15)));
}

TEST_CASE("a wait is never shorter than a second", "[unit]") {
  Script script;
  script.device.uniform = 0;
  script.Step(Disconnected{});
  CHECK(script.ReconnectAfter() == seconds(1));
}

TEST_CASE("a lost session spreads its return", "[unit]") {
  Script script;
  wire::HelloAck ack = Script::MakeAck();
  ack.reconnect_spread_ms = 30'000;
  script.Step(Connected{ack});
  script.device.uniform = 0.9;
  script.Step(Disconnected{});
  CHECK(script.ReconnectAfter() == seconds(27));  // above 0.9 x 15 s
  script.Wait(script.ReconnectAfter());
  script.Step(Disconnected{});                    // not an established one any more
  CHECK(script.ReconnectAfter() == seconds(27));  // 0.9 x 30 s of the second failure
  script.Wait(script.ReconnectAfter());
  script.Step(Disconnected{});
  CHECK(script.ReconnectAfter() == seconds(54));
}

TEST_CASE("an update that waits brings the client back within seconds, for two minutes", "[unit]") {
  Script script;
  script.ReachSettling();
  script.Step(Disconnected{});
  CHECK(script.ReconnectAfter() == milliseconds(1500));
  script.Wait(minutes(1));
  script.Step(Disconnected{});
  CHECK(script.ReconnectAfter() == milliseconds(1500));
  CHECK(script.session.memory().failures == 0);
  script.Wait(minutes(1));
  script.Step(Disconnected{});
  CHECK(script.ReconnectAfter() == milliseconds(7500));
  CHECK(script.session.memory().failures == 1);
}

TEST_CASE("a close that the session ordered is no loss", "[unit]") {
  Script script;
  script.Connect();
  script.Hear(PeerErrorOf(3338, wire::RetryClass::kReconnect));
  CHECK(script.Get<Reconnect>() != nullptr);
  script.Step(Disconnected{});
  CHECK(script.outputs.empty());
}

TEST_CASE("class SESSION repeats the request on the same connection", "[unit]") {
  Script polling;
  polling.Connect();
  polling.Hear(PeerErrorOf(3336, wire::RetryClass::kSession, 4000));
  CHECK(polling.Armed() == seconds(4));
  polling.FireTimer();
  CHECK(polling.Said<wire::Poll>() != nullptr);
  Script deciding;
  deciding.ReachDeciding();
  deciding.Hear(PeerErrorOf(3336, wire::RetryClass::kSession));
  CHECK(deciding.Armed() == seconds(1));
  deciding.FireTimer();
  CHECK(deciding.Said<wire::PlanRequest>() != nullptr);
}

TEST_CASE("class SESSION does not disturb training", "[unit]") {
  Script script;
  script.ReachTraining();
  script.Hear(PeerErrorOf(3336, wire::RetryClass::kSession));
  CHECK(script.Get<ArmTimer>() == nullptr);
  CHECK(script.session.state() == SessionState::kTraining);
}

TEST_CASE("class RECONNECT waits at least as long as it is told", "[unit]") {
  Script script;
  script.Connect();
  script.Hear(PeerErrorOf(3332, wire::RetryClass::kReconnect, 600'000));
  CHECK(script.ReconnectAfter() == minutes(10));
}

TEST_CASE("classes REJOIN and UPGRADE wait six hours", "[unit]") {
  Script rejoin;
  rejoin.Connect();
  rejoin.Hear(PeerErrorOf(2210, wire::RetryClass::kRejoin));
  CHECK(rejoin.ReconnectAfter() == hours(6));
  Script upgrade;
  upgrade.Step(Disconnected{3311});
  CHECK(upgrade.ReconnectAfter() == hours(6));
  Script revoked;
  revoked.Connect();
  revoked.Step(Disconnected{3105});
  CHECK(revoked.ReconnectAfter() == hours(6));
}

TEST_CASE("a client that is to run once ends with the reason instead", "[unit]") {
  SessionConfig config = Script::MakeConfig();
  config.once = true;
  Script script(config);
  script.Connect();
  script.Hear(PeerErrorOf(2210, wire::RetryClass::kRejoin));
  REQUIRE(script.Get<Finished>() != nullptr);
  CHECK(script.Get<Finished>()->code == 2210);
}

TEST_CASE("a process that was replaced does not fight for its place", "[unit]") {
  Script script;
  script.Connect();
  script.Hear(PeerErrorOf(3334, wire::RetryClass::kNever));
  REQUIRE(script.Get<Finished>() != nullptr);
  CHECK(script.Get<Finished>()->code == 3334);
  CHECK(script.Get<Reconnect>() == nullptr);
}

TEST_CASE("an update that must not be repeated is dropped", "[unit]") {
  Script script;
  script.ReachUploading();
  wire::PeerError error = PeerErrorOf(2111, wire::RetryClass::kNever);
  error.in_reply_to = 0x0022;
  script.Hear(error);
  CHECK(script.NoteOf(Note::Kind::kRefused) != nullptr);
  script.Step(Disconnected{});
  script.Connect();
  CHECK(script.Said<wire::UploadBegin>() == nullptr);
}

TEST_CASE("running once ends after one contribution", "[unit]") {
  SessionConfig config = Script::MakeConfig();
  config.once = true;
  Script script(config);
  script.ReachSettling();
  script.Hear(wire::UpdateAck{.update_id = MakeId<UpdateId>(1),
                              .sha256 = MakeUpdate({}).body.sha256,
                              .seq = 1,
                              .disposition = wire::Disposition::kAccepted,
                              .come_back = Window(60'000, 60'000)});
  CHECK(script.Said<wire::Goodbye>() != nullptr);
  REQUIRE(script.Get<Finished>() != nullptr);
  CHECK(script.Get<Finished>()->code == 0);
  script.Step(Disconnected{});
  CHECK(script.outputs.empty());
  CHECK(script.session.WaitingFor() == "nothing: finished");
}

TEST_CASE("running once ends after one ComeBack", "[unit]") {
  SessionConfig config = Script::MakeConfig();
  config.once = true;
  Script script(config);
  script.Connect();
  script.Hear(Window(0, 1));
  CHECK(script.Get<Finished>() != nullptr);
}

TEST_CASE("a stop ends training and says why", "[unit]") {
  Script script;
  script.ReachTraining();
  script.Step(Stop{});
  CHECK(script.Get<StopTraining>() != nullptr);
  REQUIRE(script.Said<wire::TaskFailed>() != nullptr);
  CHECK(script.Said<wire::TaskFailed>()->code == 7407);
  REQUIRE(script.Said<wire::Goodbye>() != nullptr);
  CHECK(script.Said<wire::Goodbye>()->reason == wire::GoodbyeReason::kAppStop);
  CHECK(script.Get<Finished>()->code == 0);
  script.Step(TrainingDone{.update = MakeUpdate(MakeTask().Ref())});
  CHECK(script.outputs.empty());
}

TEST_CASE("a stop while apart says nothing", "[unit]") {
  Script script;
  script.Step(Disconnected{});
  script.Step(Stop{});
  CHECK(script.Messages() == 0);
  CHECK(script.Get<Finished>() != nullptr);
}

TEST_CASE("an aggregator of another federation is left", "[unit]") {
  Script script;
  wire::HelloAck ack = Script::MakeAck();
  ack.federation_id = MakeId<FederationId>(8);
  script.Step(Connected{ack});
  CHECK(script.Messages() == 0);
  CHECK(script.session.state() == SessionState::kBackOff);
}

TEST_CASE("messages that only clients send end the session", "[unit]") {
  Script script;
  script.Connect();
  script.Hear(wire::TaskAccept{MakeTask().Ref()});
  CHECK(script.session.state() == SessionState::kBackOff);
}

TEST_CASE("nothing that is heard while apart counts", "[unit]") {
  Script script;
  script.ReachSettling();
  script.Step(Disconnected{});
  script.Hear(wire::UpdateAck{.update_id = MakeId<UpdateId>(1),
                              .sha256 = MakeUpdate({}).body.sha256,
                              .seq = 1,
                              .disposition = wire::Disposition::kAccepted,
                              .come_back = std::nullopt});
  CHECK(script.outputs.empty());
  script.Connect();
  CHECK(script.Said<wire::UploadBegin>() != nullptr);
}

TEST_CASE("a session says what it waits for and since when", "[unit]") {
  Script script;
  script.ReachTraining();
  CHECK(script.session.WaitingFor() == "the trainer, since " + UtcText(kWall));
  script.Wait(seconds(30));
  script.Step(TrainingDone{.update = MakeUpdate(MakeTask().Ref())});
  CHECK(script.session.WaitingFor() ==
        "the aggregator to take the update, since " + UtcText(kWall + 30'000));
  script.Step(Disconnected{});
  CHECK(script.session.WaitingFor() ==
        "the next attempt to connect, since " + UtcText(kWall + 30'000));
}

TEST_CASE("memory of an earlier process is used", "[unit]") {
  SessionConfig config = Script::MakeConfig();
  Script earlier;
  earlier.ReachTraining(MakeTask(5));
  config.memory = earlier.session.memory();
  config.memory.failures = 3;
  Script script(config);
  script.Step(Disconnected{});
  CHECK(script.ReconnectAfter() == seconds(60));  // half of 15 s x 2^3
  script.Connect();
  script.Offer(MakeTask(4));
  CheckDeclined(script, 2217);
}

}  // namespace
}  // namespace skep::client::test
