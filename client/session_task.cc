// Tasks: the model arrives, the trainer works, its result becomes the pending update.
#include <utility>

#include "client/session_impl.h"

namespace skep::client {
namespace {

constexpr Nanoseconds kNoByte = std::chrono::seconds(60);
constexpr std::uint64_t kSlowestBytesPerSecond = 4096;  // transfer.min_rate

// Numbers that a TaskFailed may carry.
int FailureCode(int code) {
  const bool is_known = (code >= 7401 && code <= 7414) || code == 2218 || code == 2219 ||
                        code == 3401 || code == 3402 || code == 6001;
  return is_known ? code : 7406;
}

}  // namespace

void Session::Impl::RequestModel() {
  auto& downloading = std::get<Downloading>(phase_);
  downloading.transfer_id = ++last_transfer_;
  downloading.has_begun = false;
  const wire::Manifest& manifest = downloading.task.manifest;
  const std::uint64_t held = device_.HeldOf(manifest.model_sha256);
  downloading.offset = held <= manifest.model_bytes ? held : 0;
  repeat_timer_ = 0;
  Say(wire::DownloadRequest{.transfer_id = downloading.transfer_id,
                            .kind = wire::DownloadKind::kModel,
                            .sha256 = manifest.model_sha256,
                            .offset = downloading.offset});
  ArmDeadline(kNoByte);
}

void Session::Impl::On(const wire::DownloadBegin& begin) {
  auto* downloading = std::get_if<Downloading>(&phase_);
  const bool is_current = downloading != nullptr && begin.transfer_id == downloading->transfer_id;
  if (!is_current) {
    if (!IsOldTransfer(begin.transfer_id)) Contradiction("a download that was not asked for");
    return;
  }
  if (downloading->has_begun || begin.offset != downloading->offset ||
      begin.size != downloading->task.manifest.model_bytes) {
    Contradiction("a download that is not the model of the manifest");
    return;
  }
  if (ack_.chunk_bytes != 0 && begin.chunk_bytes != ack_.chunk_bytes) {
    Contradiction("chunks of another size than agreed");
    return;
  }
  downloading->has_begun = true;
  out_.emplace_back(ReceiveBody{begin.transfer_id, begin.size,
                                downloading->task.manifest.model_sha256, begin.offset});
  ArmDeadline(kNoByte + std::chrono::seconds(begin.size / kSlowestBytesPerSecond));
}

void Session::Impl::On(const ModelArrived& arrived) {
  auto* downloading = std::get_if<Downloading>(&phase_);
  if (!IsAttached() || downloading == nullptr || !downloading->has_begun ||
      arrived.transfer_id != downloading->transfer_id) {
    return;
  }
  const wire::Manifest& manifest = downloading->task.manifest;
  const bool is_right = arrived.body.bytes != nullptr &&
                        arrived.body.bytes->size() == manifest.model_bytes &&
                        arrived.body.sha256 == manifest.model_sha256;
  if (!is_right && downloading->offset > 0) {
    // What was kept was not sound: all of it once more.
    device_.DropHeld(manifest.model_sha256);
    return RequestModel();
  }
  Task task = std::move(downloading->task);
  if (!is_right) {
    const wire::TaskRef ref = task.Ref();
    return FailTask(ref, Error{2218, "the model is not the one that the manifest names", ""});
  }
  Train(std::move(task), arrived.body);
}

void Session::Impl::Train(Task task, Body model) {
  const Nanoseconds within = task.report_within;
  Enter(Training{std::move(task)});
  const Task& begun = std::get<Training>(phase_).task;
  out_.emplace_back(StartTraining{.manifest = begun.manifest,
                                  .plan = begun.plan,
                                  .wire_plan = begun.wire_plan,
                                  .model = std::move(model),
                                  .client = begun.client,
                                  .last_included = begun.last_included});
  ArmDeadline(within);
  ArmProgress();
}

void Session::Impl::SendProgress() {
  const auto* training = std::get_if<Training>(&phase_);
  if (training == nullptr || !IsAttached()) return;
  Say(wire::Progress{training->task.Ref(), wire::ProgressPhase::kTraining, 0});
  ArmProgress();
}

void Session::Impl::On(TrainingDone& done) {
  const auto* training = std::get_if<Training>(&phase_);
  if (training == nullptr) return;
  const wire::TaskRef task = training->task.Ref();
  wire::TaskRef of = done.task;
  if (of.run_id.IsZero()) of = done.update ? done.update->task : task;
  if (of != task) return;  // a late result of an older task
  if (!done.update) return FailTask(task, done.update.error());

  pending_ = std::move(done.update).value();
  if (pending_->id.IsZero()) pending_->id = device_.NewUpdateId();
  if (pending_->body.bytes == nullptr) pending_->body.bytes = std::make_shared<const Bytes>();
  out_.emplace_back(Persist{*pending_});
  Enter(Idle{});
  progress_timer_ = 0;
  Next();
}

// The task is over without an update. Apart from the aggregator, the news waits for a connection.
void Session::Impl::FailTask(const wire::TaskRef& task, const Error& why) {
  const int code = FailureCode(why.code);
  Tell({.kind = Note::Kind::kProblem, .task = task, .code = code, .text = why.message});
  unsent_failure_ = wire::TaskFailed{task, static_cast<std::uint32_t>(code)};
  Enter(Idle{});
  progress_timer_ = 0;
  Next();
}

void Session::Impl::On(const wire::RoundClosed& closed) {
  // A pending update gets its own verdict; a task that is over already needs no second end.
  if (CurrentTask() != closed.task) return;
  if (std::holds_alternative<Training>(phase_)) out_.emplace_back(StopTraining{});
  Tell({.kind = Note::Kind::kClosed, .task = closed.task, .text = "the round has closed"});
  Enter(Idle{});
  progress_timer_ = 0;
  ObserveWindow(closed.come_back);
}

}  // namespace skep::client
