// Tasks and updates: download, training, upload, verdict, and answers that cross.
#include "tests/client/scripted_server.h"

namespace skep::client::test {
namespace {

wire::DownloadBegin Begin(std::uint64_t size = 60) {
  return {.transfer_id = 1, .size = size, .offset = 0, .chunk_bytes = kChunk};
}
wire::UpdateAck Ack(std::uint8_t id = 1) {
  return {.update_id = MakeId<UpdateId>(id),
          .sha256 = MakeUpdate({}).body.sha256,
          .seq = 3,
          .disposition = wire::Disposition::kAccepted,
          .come_back = std::nullopt};
}
wire::UpdateRefused Refusal(std::uint32_t code, wire::RetryClass retry) {
  return {.update_id = MakeId<UpdateId>(1),
          .code = code,
          .come_back = std::nullopt,
          .transfer_id = 1,
          .retry = retry,
          .retry_after_ms = 0};
}

TEST_CASE("a model that is not cached is downloaded", "[unit]") {
  Script script;
  script.ReachDownloading();
  const auto* request = script.Said<wire::DownloadRequest>();
  REQUIRE(request != nullptr);
  CHECK(request->transfer_id == 1);
  CHECK(request->sha256 == MakeModel().sha256);
  CHECK(request->offset == 0);
  CHECK(script.Armed() == seconds(60));
  script.Hear(Begin());
  const auto* receive = script.Get<ReceiveBody>();
  REQUIRE(receive != nullptr);
  CHECK(receive->size == 60);
  script.Step(ModelArrived{1, MakeModel()});
  REQUIRE(script.Get<StartTraining>() != nullptr);
  CHECK(script.Get<StartTraining>()->model.sha256 == MakeModel().sha256);
}

TEST_CASE("a model with another hash fails the task", "[unit]") {
  Script script;
  script.ReachDownloading();
  script.Hear(Begin());
  Body other = MakeModel();
  other.sha256 = MakeId<Hash32>(1);
  script.Step(ModelArrived{1, other});
  REQUIRE(script.Said<wire::TaskFailed>() != nullptr);
  CHECK(script.Said<wire::TaskFailed>()->code == 2218);
  CHECK(script.Get<StartTraining>() == nullptr);
  CHECK(script.session.state() == SessionState::kPolling);
}

TEST_CASE("a download that contradicts the manifest ends the session", "[unit]") {
  std::vector<wire::DownloadBegin> wrong{Begin(61), Begin(), Begin(), Begin()};
  wrong[1].offset = 1;
  wrong[2].chunk_bytes = kChunk + 1;
  wrong[3].transfer_id = 2;
  for (const wire::DownloadBegin& begin : wrong) {
    Script script;
    script.ReachDownloading();
    script.Hear(begin);
    CHECK(script.Get<ReceiveBody>() == nullptr);
    CHECK(script.session.state() == SessionState::kBackOff);
  }
}

TEST_CASE("a model goes on from what is here of it", "[unit]") {
  Script script;
  script.device.held = 24;
  script.ReachDownloading();
  CHECK(script.Said<wire::DownloadRequest>()->offset == 24);
  wire::DownloadBegin begin = Begin();
  begin.offset = 24;
  script.Hear(begin);
  REQUIRE(script.Get<ReceiveBody>() != nullptr);
  CHECK(script.Get<ReceiveBody>()->offset == 24);
  Body wrong = MakeModel();
  wrong.sha256.bytes[0] ^= 1;
  script.Step(ModelArrived{1, wrong});
  // What was here was not sound: all of it is asked for, once.
  REQUIRE(script.Said<wire::DownloadRequest>() != nullptr);
  CHECK(script.Said<wire::DownloadRequest>()->offset == 0);
  CHECK(script.Said<wire::DownloadRequest>()->transfer_id == 2);
  begin = Begin();
  begin.transfer_id = 2;
  script.Hear(begin);
  script.Step(ModelArrived{2, wrong});
  REQUIRE(script.Said<wire::TaskFailed>() != nullptr);
  CHECK(script.Said<wire::TaskFailed>()->code == 2218);
}

TEST_CASE("a download that begins elsewhere than was asked ends the session", "[unit]") {
  Script script;
  script.device.held = 24;
  script.ReachDownloading();
  script.Hear(Begin());
  CHECK(script.session.state() == SessionState::kBackOff);
}

TEST_CASE("a model that is not served drops the task", "[unit]") {
  Script script;
  script.ReachDownloading();
  script.Hear(wire::TransferCancel{1, 3401});
  REQUIRE(script.Said<wire::TaskFailed>() != nullptr);
  CHECK(script.Said<wire::TaskFailed>()->code == 3401);
  CHECK(script.session.state() == SessionState::kPolling);
}

TEST_CASE("an overloaded aggregator is asked for the model again later", "[unit]") {
  Script script;
  script.ReachDownloading();
  script.Hear(wire::TransferCancel{1, 3336});
  CHECK(script.session.state() == SessionState::kDownloading);
  CHECK(script.Armed() == seconds(5));
  script.FireTimer();
  REQUIRE(script.Said<wire::DownloadRequest>() != nullptr);
  CHECK(script.Said<wire::DownloadRequest>()->transfer_id == 2);
}

TEST_CASE("an accepted task survives a lost connection", "[unit]") {
  Script script;
  script.ReachDownloading();
  script.Hear(Begin());
  script.Step(Disconnected{});
  CHECK(script.session.state() == SessionState::kBackOff);
  script.Step(ModelArrived{1, MakeModel()});  // of the lost connection
  CHECK(script.outputs.empty());
  script.Connect();
  CHECK(script.Said<wire::Poll>() == nullptr);
  REQUIRE(script.Said<wire::DownloadRequest>() != nullptr);
  CHECK(script.Said<wire::DownloadRequest>()->transfer_id == 1);
}

TEST_CASE("training tells of itself while attached", "[unit]") {
  Script script;
  script.ReachTraining();
  CHECK(script.Armed() == seconds(15));
  script.FireTimer();
  REQUIRE(script.Said<wire::Progress>() != nullptr);
  CHECK(script.Said<wire::Progress>()->task == MakeTask().Ref());
  CHECK(script.Said<wire::Progress>()->phase == wire::ProgressPhase::kTraining);
  script.Step(Disconnected{});
  script.FireTimer();
  CHECK(script.outputs.empty());
}

TEST_CASE("training that takes too long is stopped", "[unit]") {
  Script script;
  script.ReachTraining();
  const auto* deadline = script.Get<ArmTimer>();
  REQUIRE(deadline != nullptr);
  CHECK(deadline->after == minutes(10));
  const TimerId timer = deadline->timer;
  script.Wait(minutes(10));
  script.Step(TimerFired{timer});
  CHECK(script.Get<StopTraining>() != nullptr);
  REQUIRE(script.Said<wire::TaskFailed>() != nullptr);
  CHECK(script.Said<wire::TaskFailed>()->code == 7410);
  CHECK(script.session.state() == SessionState::kPolling);
}

TEST_CASE("a result is persisted before it is offered", "[unit]") {
  Script script;
  script.ReachUploading();
  REQUIRE(script.outputs.size() >= 2);
  const auto* persist = std::get_if<Persist>(&script.outputs[0]);
  REQUIRE(persist != nullptr);
  CHECK(persist->update.id == MakeId<UpdateId>(1));
  const auto* begin = script.Said<wire::UploadBegin>();
  REQUIRE(begin != nullptr);
  CHECK(begin->update_id == MakeId<UpdateId>(1));
  CHECK(begin->task == MakeTask().Ref());
  CHECK(begin->size == 60);
  CHECK(begin->weight == 120);
  CHECK(begin->encoding == wire::Encoding::kF32);
  CHECK(begin->model_sha256 == MakeModel().sha256);
  CHECK(begin->layout_sha256 == MakeTask().manifest.layout_sha256);
  REQUIRE(begin->metrics.size() == 1);
  CHECK(script.Armed() == seconds(60));
}

TEST_CASE("a trainer's failure is told by number only", "[unit]") {
  Script script;
  script.ReachTraining();
  script.Step(TrainingDone{.update = Error{7406, "loss is NaN", ""}, .task = MakeTask().Ref()});
  REQUIRE(script.Said<wire::TaskFailed>() != nullptr);
  CHECK(script.Said<wire::TaskFailed>()->code == 7406);
  CHECK(script.NoteOf(Note::Kind::kProblem)->text == "loss is NaN");
  CHECK(script.session.state() == SessionState::kPolling);
  Script odd;
  odd.ReachTraining();
  odd.Step(TrainingDone{.update = Error{1202, "of no use to the aggregator", ""}});
  CHECK(odd.Said<wire::TaskFailed>()->code == 7406);
}

TEST_CASE("a result of an older task changes nothing", "[unit]") {
  Script script;
  script.ReachTraining(MakeTask(1));
  script.Hear(wire::RoundClosed{.task = MakeTask(1).Ref(),
                                .reason = wire::RoundClosedReason::kDeadline,
                                .come_back = std::nullopt});
  CHECK(script.Get<StopTraining>() != nullptr);
  script.Step(TrainingDone{.update = MakeUpdate(MakeTask(1).Ref())});  // nothing in training
  CHECK(script.outputs.empty());
  script.Offer(MakeTask(2));
  script.Step(TrainingDone{.update = Error{7407, "stopped", ""}, .task = MakeTask(1).Ref()});
  CHECK(script.outputs.empty());
  script.Step(TrainingDone{.update = MakeUpdate(MakeTask(1).Ref())});
  CHECK(script.outputs.empty());
  CHECK(script.session.state() == SessionState::kTraining);
  script.Step(TrainingDone{.update = MakeUpdate(MakeTask(2).Ref())});
  CHECK(script.Said<wire::UploadBegin>() != nullptr);
}

TEST_CASE("the end of another round does not stop this task", "[unit]") {
  Script script;
  script.ReachTraining(MakeTask(2));
  script.Hear(wire::RoundClosed{.task = MakeTask(1).Ref(),
                                .reason = wire::RoundClosedReason::kComplete,
                                .come_back = std::nullopt});
  CHECK(script.outputs.empty());
  CHECK(script.session.state() == SessionState::kTraining);
}

TEST_CASE("a result made while apart is offered on the next connection", "[unit]") {
  Script script;
  script.ReachTraining();
  script.Step(Disconnected{});
  CHECK(script.session.state() == SessionState::kTraining);
  script.Step(TrainingDone{.update = MakeUpdate(MakeTask().Ref())});
  CHECK(script.Get<Persist>() != nullptr);
  CHECK(script.Messages() == 0);
  script.Connect();
  CHECK(script.Said<wire::UploadBegin>() != nullptr);
  CHECK(script.Said<wire::Poll>() == nullptr);
}

TEST_CASE("a failure while apart is told on the next connection", "[unit]") {
  Script script;
  script.ReachTraining();
  script.Step(Disconnected{});
  script.Step(TrainingDone{.update = Error{7406, "diverged", ""}});
  CHECK(script.Messages() == 0);
  script.Connect();
  REQUIRE(script.Said<wire::TaskFailed>() != nullptr);
  CHECK(script.Said<wire::TaskFailed>()->task == MakeTask().Ref());
  CHECK(script.Said<wire::Poll>() != nullptr);
}

TEST_CASE("an update of an earlier process goes first", "[unit]") {
  SessionConfig config = Script::MakeConfig();
  config.pending = MakeUpdate(MakeTask().Ref());
  config.pending->id = MakeId<UpdateId>(42);
  Script script(config);
  script.Connect();
  REQUIRE(script.Said<wire::UploadBegin>() != nullptr);
  CHECK(script.Said<wire::UploadBegin>()->update_id == MakeId<UpdateId>(42));
  CHECK(script.Messages() == 1);
}

TEST_CASE("the body is sent from where the aggregator stands", "[unit]") {
  Script script;
  script.ReachUploading();
  script.Hear(wire::UploadAccept{.transfer_id = 1, .offset = 24, .chunk_bytes = kChunk});
  const auto* body = script.Get<SendBody>();
  REQUIRE(body != nullptr);
  CHECK(body->transfer_id == 1);
  CHECK(body->offset == 24);
  CHECK(body->chunk_bytes == kChunk);
  CHECK(body->body.bytes->size() == 60);
  CHECK(script.Armed() == seconds(120));
}

TEST_CASE("an aggregator that has all bytes is given time to verify", "[unit]") {
  Script script;
  script.ReachUploading();
  script.Hear(wire::UploadAccept{.transfer_id = 1, .offset = 60, .chunk_bytes = kChunk});
  CHECK(script.Get<SendBody>() == nullptr);
  CHECK(script.session.state() == SessionState::kSettling);
}

TEST_CASE("an UploadAccept that contradicts the update ends the session", "[unit]") {
  const std::vector<wire::UploadAccept> wrong{
      {.transfer_id = 1, .offset = 61, .chunk_bytes = kChunk},
      {.transfer_id = 1, .offset = 0, .chunk_bytes = kChunk * 2},
      {.transfer_id = 2, .offset = 0, .chunk_bytes = kChunk}};
  for (const wire::UploadAccept& accept : wrong) {
    Script script;
    script.ReachUploading();
    script.Hear(accept);
    CHECK(script.Get<SendBody>() == nullptr);
    CHECK(script.session.state() == SessionState::kBackOff);
  }
}

TEST_CASE("an acknowledgement ends the task and asks for the next", "[unit]") {
  Script script;
  script.ReachSettling();
  script.Hear(Ack());
  const Note* note = script.NoteOf(Note::Kind::kContributed);
  REQUIRE(note != nullptr);
  CHECK(note->task == MakeTask().Ref());
  CHECK(note->examples == 120);
  CHECK(note->loss == 0.75);
  REQUIRE(script.Said<wire::Poll>() != nullptr);
  CHECK(script.Said<wire::Poll>()->evidence == MakeTask().Message().manifest);
}

TEST_CASE("an acknowledgement of another update or body is ignored", "[unit]") {
  Script script;
  script.ReachSettling();
  script.Hear(Ack(2));
  CHECK(script.outputs.empty());
  wire::UpdateAck other_body = Ack();
  other_body.sha256 = MakeId<Hash32>(1);
  script.Hear(other_body);
  CHECK(script.outputs.empty());
  CHECK(script.session.state() == SessionState::kSettling);
  script.Hear(Ack());
  script.Hear(Ack());  // once more, after the fact
  CHECK(script.outputs.empty());
}

TEST_CASE("a duplicate is acknowledged without its body", "[unit]") {
  Script script;
  script.ReachUploading();
  wire::UpdateAck ack = Ack();
  ack.disposition = wire::Disposition::kDuplicate;
  script.Hear(ack);
  CHECK(script.NoteOf(Note::Kind::kContributed) != nullptr);
  CHECK(script.session.state() == SessionState::kPolling);
}

TEST_CASE("an evaluation is reported without a body", "[unit]") {
  Script script;
  const OfferedTask task = MakeTask(1, wire::TaskKind::kEvaluate);
  script.ReachTraining(task);
  script.Step(TrainingDone{.update = MakeUpdate(task.Ref(), wire::Encoding::kNone)});
  const auto* begin = script.Said<wire::UploadBegin>();
  REQUIRE(begin != nullptr);
  CHECK(begin->size == 0);
  CHECK(begin->encoding == wire::Encoding::kNone);
  CHECK(begin->sha256 == Sha256::Of({}));
  CHECK(script.session.state() == SessionState::kSettling);
  wire::UpdateAck ack = Ack();
  ack.sha256 = Sha256::Of({});
  script.Hear(ack);
  CHECK(script.NoteOf(Note::Kind::kContributed) != nullptr);
}

TEST_CASE("a refusal for good drops the update", "[unit]") {
  for (const std::uint32_t code : {2104U, 2105U, 2109U, 2212U}) {
    Script script;
    script.ReachSettling();
    script.Hear(Refusal(code, wire::RetryClass::kNever));
    REQUIRE(script.NoteOf(Note::Kind::kRefused) != nullptr);
    CHECK(script.NoteOf(Note::Kind::kRefused)->code == static_cast<int>(code));
    CHECK(script.session.state() == SessionState::kPolling);
    script.Step(Disconnected{});
    script.Connect();
    CHECK(script.Said<wire::UploadBegin>() == nullptr);
  }
}

TEST_CASE("a refusal of another update is ignored", "[unit]") {
  Script script;
  script.ReachSettling();
  wire::UpdateRefused other = Refusal(2104, wire::RetryClass::kNever);
  other.update_id = MakeId<UpdateId>(9);
  script.Hear(other);
  CHECK(script.outputs.empty());
  CHECK(script.session.state() == SessionState::kSettling);
}

TEST_CASE("a refusal for now is followed by the same update later", "[unit]") {
  Script script;
  script.ReachUploading();
  wire::UpdateRefused refusal = Refusal(3336, wire::RetryClass::kSession);
  refusal.retry_after_ms = 7000;
  script.Hear(refusal);
  CHECK(script.Armed() == seconds(7));
  script.FireTimer();
  REQUIRE(script.Said<wire::UploadBegin>() != nullptr);
  CHECK(script.Said<wire::UploadBegin>()->update_id == MakeId<UpdateId>(1));
  CHECK(script.Said<wire::UploadBegin>()->transfer_id == 2);
}

TEST_CASE("a refusal that asks for another connection keeps the update", "[unit]") {
  Script script;
  script.ReachSettling();
  script.Hear(Refusal(3405, wire::RetryClass::kReconnect));
  CHECK(script.session.state() == SessionState::kBackOff);
  script.Connect();
  CHECK(script.Said<wire::UploadBegin>() != nullptr);
}

TEST_CASE("a sender that is told to stop stops and says so", "[unit]") {
  Script script;
  script.ReachSending();
  script.Hear(wire::TransferCancel{1, 2109});
  REQUIRE(script.Said<wire::TransferCancel>() != nullptr);
  CHECK(script.Said<wire::TransferCancel>()->transfer_id == 1);
  CHECK(script.NoteOf(Note::Kind::kRefused) != nullptr);
  CHECK(script.session.state() == SessionState::kPolling);
  // What crossed on the way is ignored.
  script.Hear(wire::TransferProgress{1, 60});
  CHECK(script.outputs.empty());
  script.Step(BodySent{1});
  CHECK(script.outputs.empty());
}

TEST_CASE("a refusal while sending is answered like a cancel", "[unit]") {
  Script script;
  script.ReachSending();
  script.Hear(Refusal(2105, wire::RetryClass::kNever));
  CHECK(script.Said<wire::TransferCancel>() != nullptr);
  CHECK(script.NoteOf(Note::Kind::kRefused) != nullptr);
}

TEST_CASE("a cancel after the last chunk is not answered", "[unit]") {
  Script script;
  script.ReachSettling();
  script.Hear(wire::TransferCancel{1, 2109});
  CHECK(script.Said<wire::TransferCancel>() == nullptr);
  CHECK(script.NoteOf(Note::Kind::kRefused) != nullptr);
}

TEST_CASE("a cancelled upload whose slot went to a faster peer is resumed", "[unit]") {
  Script script;
  script.ReachSending();
  script.Hear(wire::TransferCancel{1, 3329});
  CHECK(script.Said<wire::TransferCancel>() != nullptr);
  script.FireTimer();
  CHECK(script.Said<wire::UploadBegin>() != nullptr);
}

TEST_CASE("a storage fault of the aggregator is retried on a new connection", "[unit]") {
  Script script;
  script.ReachSending();
  script.Hear(wire::TransferCancel{1, 3405});
  CHECK(script.session.state() == SessionState::kBackOff);
  script.Connect();
  CHECK(script.Said<wire::UploadBegin>() != nullptr);
}

TEST_CASE("messages of a transfer that never was end the session", "[unit]") {
  Script progress;
  progress.ReachSending();
  progress.Hear(wire::TransferProgress{7, 1});
  CHECK(progress.session.state() == SessionState::kBackOff);
  Script cancel;
  cancel.Connect();
  cancel.Hear(wire::TransferCancel{1, 2109});
  CHECK(cancel.session.state() == SessionState::kBackOff);
  Script too_much;
  too_much.ReachSending();
  too_much.Hear(wire::TransferProgress{1, 61});
  CHECK(too_much.session.state() == SessionState::kBackOff);
}

TEST_CASE("the round's end leaves a sent update to its verdict", "[unit]") {
  Script script;
  script.ReachSettling();
  script.Hear(wire::RoundClosed{.task = MakeTask().Ref(),
                                .reason = wire::RoundClosedReason::kComplete,
                                .come_back = std::nullopt});
  CHECK(script.outputs.empty());
  script.Hear(Ack());
  CHECK(script.NoteOf(Note::Kind::kContributed) != nullptr);
}

}  // namespace
}  // namespace skep::client::test
