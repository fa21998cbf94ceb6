// The inside of a Session: its phases as values and the transitions between them.
//
// Included by the session_*.cc files alone. `Impl` holds what outlives a phase (the link, the
// pending update, what must be remembered); a phase holds what is true only while it lasts. Every
// transition is a member function that appends to the outputs of the current Step.
#pragma once

#include <string>
#include <variant>

#include "client/session.h"

namespace skep::client {

// A task that was offered, with what its manifest and plan say.
struct Task {
  wire::Manifest manifest;
  ClientNumber client = 0;
  Nanoseconds report_within{};
  std::optional<UpdateId> last_included;
  std::shared_ptr<const wire::Plan> wire_plan;
  std::shared_ptr<const TrainingPlan> plan;

  [[nodiscard]] wire::TaskRef Ref() const {
    return {manifest.run_id, manifest.round, manifest.attempt, manifest.kind};
  }
};

// Nothing in flight: not connected, or connected and resting until a come-back window is over.
struct Idle {};
struct Polling {};
struct Deciding {
  Task task;  // its plan was asked for
};
struct Downloading {
  Task task;
  std::uint32_t transfer_id = 0;
  std::uint64_t offset = 0;  // from where it was asked for
  bool has_begun = false;
};
struct Training {
  Task task;
};
struct Uploading {
  std::uint32_t transfer_id = 0;
  bool is_sending = false;  // UploadAccept came
};
struct Settling {
  std::uint32_t transfer_id = 0;
};
using Phase = std::variant<Idle, Polling, Deciding, Downloading, Training, Uploading, Settling>;

enum class Link {
  kConnecting,  // for the first time
  kResting,     // apart until a come-back window is over
  kBackOff,     // apart after a loss, or connecting again
  kAttached,
  kFinished
};

class Session::Impl {
 public:
  Impl(SessionConfig config, Device& device);

  [[nodiscard]] Outputs Step(Now now, Input input);
  [[nodiscard]] SessionState state() const;
  [[nodiscard]] std::string WaitingFor() const;
  [[nodiscard]] const SessionMemory& memory() const { return memory_; }

 private:
  // session.cc: the link, timers, and what comes next.
  void On(const Connected& connected);
  void On(ServerMessage& message);
  void On(const TimerFired& timer);
  void On(const Disconnected& disconnected);
  void On(const Stop&);
  void DeadlinePassed();
  void RepeatRequest();
  void Next();
  void Poll();
  template <class PhaseType>
  void Enter(PhaseType phase);
  [[nodiscard]] wire::TaskRef CurrentTask() const;

  // session_offer.cc: is this task one to accept?
  void On(wire::TaskOffer& offer);
  void On(const wire::PlanReply& reply);
  [[nodiscard]] Status CheckManifest(const wire::Manifest& manifest) const;
  [[nodiscard]] const SeenTask* LaterThan(const wire::Manifest& manifest) const;
  void Remember(const wire::Manifest& manifest, wire::SignedManifest signed_manifest);
  void Decide(Task task);
  [[nodiscard]] Status CheckTask(Task& task);
  [[nodiscard]] Status CheckPlan(Task& task);
  [[nodiscard]] Status CheckExamples(const Task& task);
  void Decline(const wire::TaskRef& task, const Error& why,
               std::optional<wire::SignedManifest> evidence = std::nullopt);
  void Accept(Task task);

  // session_task.cc: the model arrives, the trainer works.
  void On(const wire::DownloadBegin& begin);
  void On(const ModelArrived& arrived);
  void On(TrainingDone& done);
  void On(const wire::RoundClosed& closed);
  void RequestModel();
  void Train(Task task, Body model);
  void SendProgress();
  void FailTask(const wire::TaskRef& task, const Error& why);

  // session_upload.cc: the update leaves and is answered.
  void On(const wire::UploadAccept& accept);
  void On(const BodySent& sent);
  void On(const BodyProgress& progress);
  void On(const wire::TransferProgress& progress);
  void On(const wire::TransferCancel& cancel);
  void On(const wire::UpdateAck& ack);
  void On(const wire::UpdateRefused& refused);
  void Upload();
  void StopSending(int code);
  void DropUpdate(int code);
  void AfterCancel(int code, bool is_upload);

  // session_wait.cc: when to come back.
  void On(const wire::ComeBack& come_back);
  void On(const wire::Goodbye& goodbye);
  void On(const wire::PeerError& error);
  void ObserveWindow(const std::optional<wire::ComeBack>& come_back);
  [[nodiscard]] Nanoseconds DrawWindow(const wire::ComeBack& come_back);
  void Refused(const wire::PeerError& error);
  void RepeatAfter(Nanoseconds after);
  void Lose(std::string why, Nanoseconds at_least = {});
  void Contradiction(const char* what);
  void StayAway(Nanoseconds after, Link link, std::string why);
  void Rejoin(int code, std::string why);
  [[nodiscard]] Nanoseconds DrawBackOff(bool was_attached);
  void ResetBackOff();
  void Finish(int code, std::string why, wire::GoodbyeReason reason);

  // Outputs of the current Step.
  template <class MessageType>
  void Say(MessageType message) {
    out_.emplace_back(Send{wire::Message(std::move(message))});
  }
  void Tell(Note note) { out_.emplace_back(std::move(note)); }
  // One deadline at a time: arming it, or disarming it, makes earlier ones stale.
  void ArmDeadline(Nanoseconds after);
  void DisarmDeadline() { deadline_timer_ = 0; }
  void ArmRepeat(Nanoseconds after);
  void ArmProgress();
  [[nodiscard]] bool IsAttached() const { return link_ == Link::kAttached; }
  // Something that a lost connection would not end.
  [[nodiscard]] bool HasWork() const {
    return pending_ || std::holds_alternative<Training>(phase_) ||
           std::holds_alternative<Downloading>(phase_);
  }
  // A transfer of the session that came before the current one: its crossing messages are ignored.
  [[nodiscard]] bool IsOldTransfer(std::uint32_t transfer_id) const {
    return transfer_id >= 1 && transfer_id <= last_transfer_;
  }

  SessionConfig config_;
  Device& device_;
  Phase phase_;
  Link link_ = Link::kConnecting;
  Now now_;
  Now since_;  // when the session began to wait for what it waits for
  Outputs out_;

  wire::HelloAck ack_;
  std::int64_t clock_offset_ms_ = 0;  // aggregator's clock minus ours
  std::uint32_t last_transfer_ = 0;   // of this connection
  bool asked_for_plan_ = false;       // on this connection
  SteadyTime reconnect_at_{};
  std::optional<SteadyTime> lost_at_;  // the established session before

  TimerId last_timer_ = 0;
  TimerId deadline_timer_ = 0;
  TimerId repeat_timer_ = 0;
  TimerId progress_timer_ = 0;

  std::optional<PendingUpdate> pending_;
  std::optional<wire::TaskFailed> unsent_failure_;
  SessionMemory memory_;
  Hash32 plan_hash_;  // of last_plan_
  std::shared_ptr<const TrainingPlan> last_plan_;
};

template <class PhaseType>
void Session::Impl::Enter(PhaseType phase) {
  phase_ = std::move(phase);
  since_ = now_;
  deadline_timer_ = 0;
  repeat_timer_ = 0;
}

}  // namespace skep::client
