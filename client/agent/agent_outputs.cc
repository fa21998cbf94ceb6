// What the session wants done: its outputs, one by one, in their order.
#include <malloc.h>

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "client/agent/agent.h"
#include "client/agent/work.h"
#include "shared/base/amounts.h"
#include "shared/base/error_catalogue.h"

namespace skep::agent {
namespace {

// A rest that is worth giving memory back for.
constexpr Nanoseconds kLongRest = std::chrono::seconds(10);
constexpr std::uint32_t kTriesOfOnce = 5;  // after a session that was lost

std::string RoundText(const wire::TaskRef& task) {
  return fmt::format("round {}", task.round);
}

std::string_view TitleOf(int code) {
  const ErrorEntry* entry = FindError(code);
  return entry == nullptr ? std::string_view("unknown") : entry->title;
}

}  // namespace

// Inputs that come up while outputs are carried out wait for their turn.
void Agent::Feed(client::Input input) {
  if (outcome_ || !session_) return;
  inputs_.push_back(std::move(input));
  if (is_stepping_) return;
  is_stepping_ = true;
  while (!inputs_.empty() && !outcome_) {
    client::Input next = std::move(inputs_.front());
    inputs_.pop_front();
    client::Outputs outputs = session_->Step(loop_.Clock(), std::move(next));
    Save();
    Execute(std::move(outputs));
    if (!outcome_ && session_->state() != told_state_) TellProgress();
    if (!outcome_) Watch();
  }
  is_stepping_ = false;
}

void Agent::Execute(client::Outputs outputs) {
  contributed_.reset();
  std::optional<Nanoseconds> next;
  for (client::Output& output : outputs) {
    if (outcome_) return;
    if (const auto* reconnect = std::get_if<client::Reconnect>(&output)) next = reconnect->after;
    // The end of the session says nothing more: the line of the contribution comes before it.
    if (contributed_ && std::holds_alternative<client::Finished>(output)) TellContribution(next);
    std::visit([this](auto& one) { Do(one); }, output);
  }
  if (contributed_) TellContribution(next);
}

void Agent::Do(client::Send& send) {
  if (link_ == nullptr) return;
  if (const auto* cancel = std::get_if<wire::TransferCancel>(&send.message)) {
    link_->CancelBody(cancel->transfer_id);
  }
  link_->Send(send.message);
}

void Agent::Do(client::SendBody& body) {
  if (link_ != nullptr) link_->SendBody(body);
}

void Agent::Do(client::ReceiveBody& body) {
  download_.emplace(Download{.transfer_id = body.transfer_id,
                             .receiver = wire::ChunkReceiver({.id = body.transfer_id,
                                                              .total = body.size,
                                                              .offset = body.offset,
                                                              .chunk_bytes = ack_.chunk_bytes}),
                             .bytes = {},
                             .hash = {},
                             .model = body.sha256,
                             .told = loop_.Clock().steady});
  if (body.offset > 0) {
    // Should it be shorter by now, the whole has another hash and is asked for again.
    download_->bytes = cache_.Load(body.sha256);
    download_->hash.Update(download_->bytes);
    download_->kept = download_->bytes.size();
  }
  if (body.size == body.offset) FinishDownload();
}

void Agent::Do(client::StopTraining&) {
  if (job_ != nullptr) job_->gate.Stop();
}

void Agent::Do(client::ArmTimer& timer) {
  loop_.After(timer.after, [this, id = timer.timer] { Feed(client::TimerFired{id}); });
}

// It is stored already: before this, and so before the UploadBegin.
void Agent::Do(client::Persist& persist) {
  kept_ = persist.update.id;
}

void Agent::Do(client::Reconnect& reconnect) {
  const bool was_attached = is_attached_;
  CountTraffic();
  link_.reset();
  is_attached_ = false;
  KeepDownload();
  download_.reset();
  unwanted_.clear();
  held_.clear();
  if (GivesUp(reconnect.after)) return;
  TellOutcome(last_failure_ ? last_failure_->code : 0,
              last_failure_ ? last_failure_->message : reconnect.why, reconnect.after);
  if (last_failure_ && IsTrustFailure(last_failure_->code)) {
    log_.Failure(last_failure_->code,
                 last_failure_->message + "; next try in " + SpanText(reconnect.after));
  } else if (last_failure_ && was_attached) {
    log_.Warning(last_failure_->code, last_failure_->message);
  } else if (last_failure_) {
    const auto line = reach_.Failed(loop_.Clock().steady, *last_failure_, reconnect.after);
    if (line) log_.Info(*line);
  } else if (!contributed_) {
    log_.Info(fmt::format("{}; next check-in in {}", reconnect.why, SpanText(reconnect.after)));
  }
  last_failure_.reset();
  if (reconnect.after >= kLongRest) Rest();
  loop_.After(reconnect.after, [this] { Connect(); });
}

// With `once` nobody waits for an aggregator that is not there.
bool Agent::GivesUp(Nanoseconds next) {
  if (!settings_.once || !last_failure_) return false;
  if (was_attached_ && ++failed_in_a_row_ < kTriesOfOnce) return false;
  so_far_.retry_after = next;
  Conclude(last_failure_->code, last_failure_->message);
  return true;
}

void Agent::Do(client::Finished& finished) {
  int code = finished.code;
  std::string why = std::move(finished.why);
  if (settings_.once && code == 0 && last_trouble_ != 0) {
    code = last_trouble_;
    if (!last_trouble_text_.empty()) why = last_trouble_text_;
  }
  // Why the connection was not to be trusted says more than the session can.
  if (last_failure_ && last_failure_->code == finished.code) why = last_failure_->message;
  if (broken_device_) {
    code = broken_device_->code;
    why = broken_device_->message;
  }
  const WallMs now = loop_.Clock().wall;
  so_far_.retry_after = Milliseconds(std::max(session_->memory().next_check_in, now) - now);
  Conclude(code, std::move(why));
}

void Agent::Do(client::Note& note) {
  Report(note);
  using Kind = client::Note::Kind;
  if (note.task.round != 0) so_far_.round = note.task.round;
  if (note.kind == Kind::kRefused) so_far_.was_refused = true;
  if (note.kind == Kind::kContributed) {
    contributed_ = note.task;
    last_trouble_ = 0;
    so_far_.has_contributed = true;
    so_far_.was_refused = false;
    so_far_.examples = note.examples;
  }
  const bool is_trouble = note.kind == Kind::kRefused || note.kind == Kind::kDeclined ||
                          (note.kind == Kind::kProblem && !note.task.run_id.IsZero());
  if (is_trouble) {
    last_trouble_ = note.code;
    last_trouble_text_ = EscapePeerText(note.text);
  }
  const bool ends_update = note.kind == Kind::kContributed || note.kind == Kind::kRefused;
  const bool is_failure = note.kind == Kind::kProblem && note.code >= 7000 && note.code < 9000;
  if (!ends_update && !is_failure) return;
  CountTraffic();
  HistoryEntry entry{.time = loop_.Clock().wall,
                     .task = note.task,
                     .outcome = "failed",
                     .code = note.code,
                     .examples = note.examples,
                     .up = since_entry_.up,
                     .down = since_entry_.down};
  if (note.kind == Kind::kContributed) {
    entry.outcome = "contributed";
    contribution_text_ =
        ContributionText(note.task, "downloaded " + AmountText(since_entry_.down) + ", ");
  }
  if (note.kind == Kind::kRefused) entry.outcome = "refused";
  since_entry_ = {};
  last_work_ = entry.time;
  Status written = AppendHistory(storage_, entry);
  if (written.has_value() && ends_update) written = DropUpdate(storage_, note.task);
  if (!written.has_value()) log_.Failure(written.error().code, written.error().message);
}

void Agent::Report(const client::Note& note) {
  using Kind = client::Note::Kind;
  const std::string round = note.task.run_id.IsZero() ? "" : RoundText(note.task) + ": ";
  switch (note.kind) {
    case Kind::kOffer:
      return log_.Write({.level = LogLevel::kDebug,
                         .event = "task.accepted",
                         .message = round + "task accepted"});
    case Kind::kDeclined:
      return log_.Warning(note.code, round + "declined: " + note.text);
    case Kind::kRefused:
      return log_.Warning(note.code,
                          fmt::format("{}update refused: {}", round, TitleOf(note.code)));
    case Kind::kClosed:
      return log_.Info(round + note.text);
    case Kind::kProblem:
      return log_.Warning(note.code, round + EscapePeerText(note.text));
    case Kind::kContributed:
    case Kind::kComeBack:
      return;
  }
}

// "round 12: trained 412 examples in 0.31 s (loss 0.69), uploaded 21 KB"; `before` stands behind
// the colon.
std::string Agent::ContributionText(const wire::TaskRef& task, const std::string& before) const {
  const std::string line = RoundText(task) + ": ";
  if (!last_effort_ || last_effort_->task != task) {
    return line + "an update from before was taken";
  }
  if (task.kind == wire::TaskKind::kEvaluate) {
    return fmt::format("{}{}evaluated the model in {:.2f} s", line, before, last_effort_->seconds);
  }
  const client::TrainReport& report = last_effort_->report;
  // An application's own trainer may keep it to itself.
  const std::string loss =
      std::isfinite(report.loss) ? fmt::format(" (loss {:.2f})", report.loss) : "";
  return fmt::format("{}{}trained {} examples in {:.2f} s{}, uploaded {}", line, before,
                     report.examples, last_effort_->seconds, loss, AmountText(last_effort_->bytes));
}

void Agent::TellContribution(std::optional<Nanoseconds> next) {
  std::string line = ContributionText(*std::exchange(contributed_, std::nullopt), "");
  if (next) line += ", next check-in in " + SpanText(*next);
  log_.Info(std::move(line));
  // One that a Reconnect follows is told by that.
  if (!next) TellOutcome(0, "", {});
}

void Agent::CountTraffic() {
  if (link_ == nullptr) return;
  const Link::Traffic fresh = link_->TakeTraffic();
  state_.today.TurnTo(loop_.Clock().wall);
  state_.today.up += fresh.up;
  state_.today.down += fresh.down;
  since_entry_.up += fresh.up;
  since_entry_.down += fresh.down;
  so_far_.bytes_up += fresh.up;
  so_far_.bytes_down += fresh.down;
}

// Before the outputs of the step that changed it. Without it, a restart might accept what this
// process has refused: a device that cannot write stops.
void Agent::Save() {
  if (session_ && session_->memory().revision != saved_revision_) SaveNow();
}

void Agent::SaveNow() {
  if (!session_) return;
  CountTraffic();
  state_.memory = session_->memory();
  const Status saved = SaveState(storage_, state_);
  if (!saved.has_value()) {
    Conclude(saved.error().code, saved.error().message);
    return;
  }
  saved_revision_ = session_->memory().revision;
}

// Between check-ins this process keeps little: data may change meanwhile, too.
void Agent::Rest() {
  SaveNow();  // the day's traffic
  if (job_ != nullptr) return;
  device_.ForgetAll();
  last_effort_.reset();
  caller_.Post([this] {
    host_.Rest();
    ::malloc_trim(0);
  });
}

void Agent::TellProgress(double fraction) {
  if (!settings_.on_progress) return;
  CountTraffic();
  told_state_ = session_ ? session_->state() : client::SessionState::kIdle;
  AgentProgress progress{.state = told_state_,
                         .task = {},
                         .bytes_down = so_far_.bytes_down,
                         .bytes_up = so_far_.bytes_up,
                         .fraction = fraction};
  if (offered_.manifest.round != 0) {
    const wire::Manifest& manifest = offered_.manifest;
    progress.task = {manifest.run_id, manifest.round, manifest.attempt, manifest.kind};
  }
  caller_.Tell([this, progress] { settings_.on_progress(progress); });
}

// Of a check-in, where more are to come.
void Agent::TellOutcome(int code, std::string why, Nanoseconds retry_after) {
  if (settings_.once) return;
  CountTraffic();
  Outcome outcome = TakeOutcome(code, std::move(why), retry_after);
  if (!settings_.on_outcome) return;
  caller_.Tell([this, outcome = std::move(outcome)] { settings_.on_outcome(outcome); });
}

}  // namespace skep::agent
