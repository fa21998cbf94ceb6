// The harness' clients, jobs and outputs.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/vector_ops.h"
#include "shared/base/check.h"
#include "shared/base/sha256.h"
#include "shared/wire/codec.h"
#include "tests/support/engine_harness.h"

namespace skep::test {
namespace {

UpdateId UpdateIdOf(const wire::TaskRef& task, ClientNumber client) {
  UpdateId id;
  id.bytes[0] = static_cast<std::uint8_t>(task.kind);
  StoreLittle(task.round, id.bytes.data() + 1);
  StoreLittle(task.attempt, id.bytes.data() + 5);
  StoreLittle(client, id.bytes.data() + 12);
  return id;
}

wire::TaskRef TaskOf(const wire::Manifest& manifest) {
  return {manifest.run_id, manifest.round, manifest.attempt, manifest.kind};
}

}  // namespace

wire::Manifest EngineHarness::ManifestOf(ClientNumber client) const {
  return wire::DecodeManifest(offers_.at(client).manifest.payload).value();
}

wire::UploadBegin EngineHarness::BeginOf(ClientNumber client) {
  const wire::Manifest manifest = ManifestOf(client);
  const bool is_evaluation = manifest.kind == wire::TaskKind::kEvaluate;
  const model::ParamsPtr model = shelf_->Model(manifest.model_sha256).value();
  const std::vector<float> update =
      is_evaluation ? std::vector<float>{} : train(manifest, client, *model);
  const BytesView bytes = AsBytes(std::span<const float>(update));
  Body& body = trained_[client];
  body.bytes = std::make_shared<const Bytes>(bytes.begin(), bytes.end());
  body.norm = kernels::MeasureUpdate(update).l2;
  wire::UploadBegin begin;
  begin.transfer_id = next_transfer_++;
  begin.task = TaskOf(manifest);
  begin.update_id = UpdateIdOf(begin.task, client);
  begin.encoding = is_evaluation ? wire::Encoding::kNone : wire::Encoding::kF32;
  begin.size = bytes.size();
  begin.sha256 = Sha256::Of(bytes);
  begin.layout_sha256 = manifest.layout_sha256;
  begin.model_sha256 = manifest.model_sha256;
  begin.weight = std::min(manifest.max_weight, 10 + 7 * client);
  begin.metrics = {{is_evaluation ? 2U : 1U, 0.5 + 0.125 * client}};
  return begin;
}

void EngineHarness::Upload(ClientNumber client) {
  if (sessions_.count(client) == 0 || offers_.count(client) == 0) return;
  wire::UploadBegin begin = BeginOf(client);
  if (tamper) tamper(client, begin);
  const AttemptKey key{begin.task.run_id, begin.task.round, static_cast<TaskKind>(begin.task.kind),
                       begin.task.attempt};
  const SessionNumber session = sessions_.at(client);
  Step(UploadOffered{session, begin, store_->Verdict(key, DeviceBehind(session, client)).value()});
}

void EngineHarness::Admitted(const AdmitUpload& admit) {
  const ClientNumber client = ClientOf(admit.session);
  SKEP_CHECK(client != kNone);
  shelf_->bodies[admit.upload] = trained_.at(client).bytes;
  uploading_[client] = admit.upload;
  if (!holds_uploads) work_.push_back([this, client] { FinishUpload(client); });
}

void EngineHarness::ArriveUpload(ClientNumber client) {
  Step(UploadArrived{uploading_.at(client)});
}

void EngineHarness::FinishUpload(ClientNumber client) {
  const auto upload = uploading_.find(client);
  if (upload == uploading_.end()) return;
  UploadFinished finished{.upload = upload->second,
                          .code = 0,
                          .norm = trained_.at(client).norm,
                          .aux_norm = 0,
                          .detail = {}};
  uploading_.erase(upload);
  if (inspect) inspect(client, finished);
  Step(std::move(finished));
}

void EngineHarness::OnOffer(ClientNumber client, const wire::TaskOffer& offer) {
  offers_[client] = offer;
  const auto script = scripts.find(client);
  const Script what = script == scripts.end() ? Script::kTrain : script->second;
  const wire::TaskRef task = TaskOf(ManifestOf(client));
  const SessionNumber session = sessions_.at(client);
  const auto say = [this, session](wire::Message message) {
    Step(ClientMessage{session, std::move(message)});
  };
  switch (what) {
    case Script::kIgnore:
      return;
    case Script::kDecline:
      work_.push_back([=] { say(wire::TaskDecline{.task = task, .code = 7401, .evidence = {}}); });
      return;
    case Script::kFail:
      work_.push_back([=, this] {
        say(wire::TaskAccept{task});
        say(wire::TaskFailed{task, 7406});
        work_.push_back([this, client] { Repoll(client); });
      });
      return;
    case Script::kSilent:
      work_.push_back([=] { say(wire::TaskAccept{task}); });
      return;
    case Script::kTrain:
      work_.push_back([=, this] {
        say(wire::TaskAccept{task});
        work_.push_back([this, client] { Upload(client); });
      });
      return;
  }
}

void EngineHarness::Repoll(ClientNumber client) {
  trained_.erase(client);
  const auto session = sessions_.find(client);
  if (session == sessions_.end()) return;
  // A simulated client's turn is over with its task: Eligible speaks for it next time.
  if (session->second != RoundEngine::SimulatedSession(client)) Poll(client);
}

void EngineHarness::OnMessage(SessionNumber session, const wire::Message& message) {
  sent.push_back({session, message});
  const ClientNumber client = ClientOf(session);
  if (client == kNone) return;
  if (const auto* offer = std::get_if<wire::TaskOffer>(&message)) return OnOffer(client, *offer);
  const auto* come_back = std::get_if<wire::ComeBack>(&message);
  const bool is_at_once = come_back != nullptr && come_back->latest_ms <= 1;
  if (is_at_once || std::holds_alternative<wire::UpdateAck>(message)) {
    work_.push_back([this, client] { Repoll(client); });
  } else if (std::holds_alternative<wire::RoundClosed>(message)) {
    offers_.erase(client);
    work_.push_back([this, client] { Repoll(client); });
  }
}

JobResult EngineHarness::RunJob(const Job& job) {
  if (fail_job) {
    if (std::optional<Error> error = fail_job(job)) return std::move(*error);
  }
  if (const auto* sign = std::get_if<SignJob>(&job)) {
    return Signed{{.payload = sign->payload, .key_id = {}, .signature = {}}};
  }
  if (const auto* commit = std::get_if<CommitJob>(&job)) {
    Result<std::uint64_t> seq = store_->Apply(commit->transaction, now.wall, *shelf_);
    if (!seq) return std::move(seq).error();
    ++commits;
    return Committed{seq.value()};
  }
  if (const auto* due = std::get_if<EvaluateJob>(&job); due != nullptr && evaluate) {
    return evaluate(*due);
  }
  return runner_->Run(job);
}

void EngineHarness::FinishCommits() {
  holds_commits = false;
  while (!held_commits_.empty()) {
    auto [id, job] = std::move(held_commits_.front());
    held_commits_.pop_front();
    Step(JobDone{id, RunJob(job)});
  }
}

void EngineHarness::Do(const Output& output) {
  if (const auto* send = std::get_if<Send>(&output)) return OnMessage(send->session, send->message);
  if (const auto* admit = std::get_if<AdmitUpload>(&output)) return Admitted(*admit);
  if (const auto* refuse = std::get_if<RefuseUpload>(&output)) {
    refusals.push_back(*refuse);
    const ClientNumber client = ClientOf(refuse->session);
    const bool is_for_now = refuse->code == 3404 || refuse->code == 3405;
    if (client != kNone && is_for_now) return later_.push_back(client);
    if (client != kNone) work_.push_back([this, client] { Repoll(client); });
  } else if (const auto* cancel = std::get_if<CancelUpload>(&output)) {
    cancels.push_back(*cancel);
    for (auto at = uploading_.begin(); at != uploading_.end(); ++at) {
      if (at->second != cancel->upload) continue;
      uploading_.erase(at);
      break;
    }
  } else if (const auto* gone = std::get_if<Disconnect>(&output)) {
    disconnects.push_back(*gone);
  } else if (const auto* arm = std::get_if<ArmTimer>(&output)) {
    timers_[arm->timer] = arm->at;
  } else if (const auto* off = std::get_if<CancelTimer>(&output)) {
    timers_.erase(off->timer);
  } else if (const auto* start = std::get_if<StartJob>(&output)) {
    const bool is_commit = std::holds_alternative<CommitJob>(start->job);
    if (is_commit && holds_commits)
      return held_commits_.emplace_back(start->id, start->job), void();
    JobResult result = RunJob(start->job);
    // The process dies between the commit and what would follow it.
    if (is_commit && cut_after_commits && commits == *cut_after_commits) {
      is_dead_ = true;
      return;
    }
    log.emplace_back(now, JobDone{start->id, result});
    Queue(engine_->Step(now, JobDone{start->id, std::move(result)}));
  } else if (const auto* round = std::get_if<RoundPublished>(&output)) {
    published.push_back(*round);
    current_ = round->model;
  } else if (const auto* failed = std::get_if<EngineFailed>(&output)) {
    failures.push_back(*failed);
  } else if (const auto* emit = std::get_if<Emit>(&output)) {
    events.push_back(emit->event);
  }
}

namespace {

std::string DescribeJob(const Job& job) {
  if (const auto* sign = std::get_if<SignJob>(&job)) return "sign " + ToHex(sign->payload);
  if (const auto* fold = std::get_if<FoldJob>(&job)) {
    std::string text = fmt::format("fold {}.{}", fold->key.round, fold->key.attempt);
    for (const UpdateRow& row : fold->updates) text += fmt::format(" {}@{}", row.client, row.seq);
    return text;
  }
  if (const auto* finish = std::get_if<FinishJob>(&job)) return "finish " + finish->base.Hex();
  if (const auto* due = std::get_if<EvaluateJob>(&job)) return "evaluate " + due->model.Hex();
  if (const auto* release = std::get_if<ReleaseJob>(&job)) {
    return fmt::format("release {}.{}", release->key.round, release->key.attempt);
  }
  const Transaction& transaction = std::get<CommitJob>(job).transaction;
  std::string text = fmt::format("commit {}", transaction.index());
  if (const auto* update = std::get_if<UpdateTx>(&transaction)) {
    text += " " + update->update.update.Hex();
  } else if (const auto* open = std::get_if<OpenRoundTx>(&transaction)) {
    for (const AssignmentRow& row : open->cohort) text += fmt::format(" {}", row.client);
  } else if (const auto* publish = std::get_if<PublishTx>(&transaction)) {
    text += " " + publish->model_out.Hex();
  }
  return text;
}

std::string DescribeEvent(const Event& event) {
  if (const auto* outcome = std::get_if<ClientOutcome>(&event)) {
    return fmt::format("client {} {} {} {}", outcome->client, int(outcome->outcome), outcome->code,
                       outcome->detail);
  }
  if (const auto* ended = std::get_if<AttemptEnded>(&event)) {
    std::string text = fmt::format("ended {}.{} {} {} {}", ended->key.round, ended->key.attempt,
                                   ended->published, ended->code, ended->reason);
    for (const Metric& metric : ended->metrics) {
      text += fmt::format(" {}={}/{}", metric.name, metric.value, metric.clients);
    }
    return text;
  }
  return fmt::format("event {}", event.index());
}

}  // namespace

std::string Describe(const Output& output) {
  std::string text;
  if (const auto* send = std::get_if<Send>(&output)) {
    text = fmt::format("send {} {} {}", send->session, wire::MessageName(wire::IdOf(send->message)),
                       ToHex(wire::EncodeMessage(send->message)));
  } else if (const auto* admit = std::get_if<AdmitUpload>(&output)) {
    text = fmt::format("admit {} {}", admit->session, admit->upload);
  } else if (const auto* refuse = std::get_if<RefuseUpload>(&output)) {
    text = fmt::format("refuse {} {} {}", refuse->session, refuse->transfer_id, refuse->code);
  } else if (const auto* cancel = std::get_if<CancelUpload>(&output)) {
    text = fmt::format("cancel {} {}", cancel->upload, cancel->code);
  } else if (const auto* gone = std::get_if<Disconnect>(&output)) {
    text = fmt::format("disconnect {} {}", gone->session, gone->code);
  } else if (const auto* arm = std::get_if<ArmTimer>(&output)) {
    text = fmt::format("arm {} {}", arm->timer, arm->at.time_since_epoch().count());
  } else if (const auto* start = std::get_if<StartJob>(&output)) {
    text = fmt::format("job {} {}", start->id, DescribeJob(start->job));
  } else if (const auto* emit = std::get_if<Emit>(&output)) {
    text = DescribeEvent(emit->event);
  } else if (const auto* failed = std::get_if<EngineFailed>(&output)) {
    text = fmt::format("failed {} {}", failed->error.code, failed->error.message);
  } else {
    text = fmt::format("output {}", output.index());
  }
  return text + "\n";
}

}  // namespace skep::test
