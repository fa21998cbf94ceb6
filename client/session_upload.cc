// Uploads: the pending update leaves, and a verdict ends it. It is offered again after every loss
// until then.
#include <utility>

#include "client/session_impl.h"
#include "shared/base/error_catalogue.h"

namespace skep::client {
namespace {

constexpr Nanoseconds kNoAccept = std::chrono::seconds(60);
constexpr Nanoseconds kNoByteSent = std::chrono::seconds(120);
constexpr Nanoseconds kNoByteReceived = std::chrono::seconds(60);
constexpr Nanoseconds kNoVerdict = std::chrono::seconds(120);
constexpr Nanoseconds kRetryPause = std::chrono::seconds(5);  // where a refusal names no time
constexpr std::uint64_t kSlowestBytesPerSecond = 4096;        // transfer.min_rate

Nanoseconds LongestTransfer(std::uint64_t bytes) {
  return kNoByteSent + std::chrono::seconds(bytes / kSlowestBytesPerSecond);
}

// TransferCancel carries no retry class: the catalogue's. Whatever else ends a transfer, the
// connection is not trusted with another.
RetryClass ClassOfCancel(int code) {
  const ErrorEntry* const entry = FindError(code);
  const RetryClass known = entry == nullptr ? RetryClass::kNone : entry->retry;
  return known == RetryClass::kNever || known == RetryClass::kSession ? known
                                                                      : RetryClass::kReconnect;
}

}  // namespace

void Session::Impl::Upload() {
  const std::uint32_t transfer_id = ++last_transfer_;
  const PendingUpdate& update = *pending_;
  Say(wire::UploadBegin{.transfer_id = transfer_id,
                        .update_id = update.id,
                        .task = update.task,
                        .encoding = update.encoding,
                        .size = update.body.bytes->size(),
                        .sha256 = update.body.sha256,
                        .layout_sha256 = update.layout,
                        .model_sha256 = update.model,
                        .weight = update.weight,
                        .metrics = update.metrics,
                        .train_ms = update.train_ms});
  if (update.encoding == wire::Encoding::kNone) {
    // A report without a body is answered at once.
    Enter(Settling{transfer_id});
    ArmDeadline(kNoVerdict);
  } else {
    Enter(Uploading{transfer_id});
    ArmDeadline(kNoAccept);
  }
}

void Session::Impl::On(const wire::UploadAccept& accept) {
  auto* uploading = std::get_if<Uploading>(&phase_);
  const bool is_current = uploading != nullptr && accept.transfer_id == uploading->transfer_id &&
                          !uploading->is_sending && repeat_timer_ == 0;
  if (!is_current) {
    if (!IsOldTransfer(accept.transfer_id)) Contradiction("an upload that was not begun");
    return;
  }
  const std::uint64_t size = pending_->body.bytes->size();
  if (accept.offset > size) {
    Contradiction("more bytes than the update has");
    return;
  }
  if (ack_.chunk_bytes != 0 && accept.chunk_bytes != ack_.chunk_bytes) {
    Contradiction("chunks of another size than agreed");
    return;
  }
  if (accept.offset == size) {  // all there: the aggregator verifies
    Enter(Settling{accept.transfer_id});
    ArmDeadline(kNoVerdict);
    return;
  }
  uploading->is_sending = true;
  out_.emplace_back(
      SendBody{accept.transfer_id, pending_->body, accept.offset, accept.chunk_bytes});
  ArmDeadline(LongestTransfer(size - accept.offset));
}

void Session::Impl::On(const BodySent& sent) {
  const auto* uploading = std::get_if<Uploading>(&phase_);
  if (!IsAttached() || uploading == nullptr || !uploading->is_sending ||
      sent.transfer_id != uploading->transfer_id) {
    return;
  }
  Enter(Settling{sent.transfer_id});
  ArmDeadline(kNoVerdict);
}

void Session::Impl::On(const BodyProgress& progress) {
  if (!IsAttached()) return;
  if (const auto* uploading = std::get_if<Uploading>(&phase_)) {
    const bool is_current = uploading->transfer_id == progress.transfer_id && uploading->is_sending;
    if (is_current) ArmDeadline(kNoByteSent);
  } else if (const auto* downloading = std::get_if<Downloading>(&phase_)) {
    const bool is_current =
        downloading->transfer_id == progress.transfer_id && downloading->has_begun;
    if (is_current) ArmDeadline(kNoByteReceived);
  }
}

void Session::Impl::On(const wire::TransferProgress& progress) {
  const auto* uploading = std::get_if<Uploading>(&phase_);
  const bool is_current = uploading != nullptr && progress.transfer_id == uploading->transfer_id &&
                          uploading->is_sending;
  if (!is_current) {
    if (!IsOldTransfer(progress.transfer_id)) Contradiction("progress of an unknown transfer");
    return;
  }
  if (progress.received > pending_->body.bytes->size()) {
    Contradiction("more bytes received than the update has");
    return;
  }
  ArmDeadline(kNoByteSent);
}

// A sender that is told to stop answers, unless its last chunk is on the way already.
void Session::Impl::StopSending(int code) {
  auto* uploading = std::get_if<Uploading>(&phase_);
  if (uploading == nullptr || !uploading->is_sending) return;
  uploading->is_sending = false;
  Say(wire::TransferCancel{uploading->transfer_id, static_cast<std::uint32_t>(code)});
}

void Session::Impl::On(const wire::TransferCancel& cancel) {
  const auto code = static_cast<int>(cancel.code);
  const auto* uploading = std::get_if<Uploading>(&phase_);
  const auto* settling = std::get_if<Settling>(&phase_);
  const auto* downloading = std::get_if<Downloading>(&phase_);
  const bool is_upload = (uploading != nullptr && uploading->transfer_id == cancel.transfer_id) ||
                         (settling != nullptr && settling->transfer_id == cancel.transfer_id);
  const bool is_download = downloading != nullptr && downloading->transfer_id == cancel.transfer_id;
  if (!is_upload && !is_download) {
    if (!IsOldTransfer(cancel.transfer_id)) Contradiction("the end of an unknown transfer");
    return;
  }
  if (is_upload) StopSending(code);
  AfterCancel(code, is_upload);
}

void Session::Impl::AfterCancel(int code, bool is_upload) {
  switch (ClassOfCancel(code)) {
    case RetryClass::kNever:
      if (is_upload) {
        DropUpdate(code);
        Enter(Idle{});
        Next();
      } else {
        FailTask(CurrentTask(), Error{code, "the aggregator does not serve the model", ""});
      }
      return;
    case RetryClass::kSession:
      if (is_upload) Enter(Idle{});
      DisarmDeadline();
      ArmRepeat(kRetryPause);
      return;
    default:
      Lose(is_upload ? "the aggregator ended the upload" : "the aggregator ended the download");
  }
}

void Session::Impl::On(const wire::UpdateAck& ack) {
  // Only the verdict on this very body counts; any other is of the past.
  if (!pending_ || ack.update_id != pending_->id || ack.sha256 != pending_->body.sha256) return;
  ResetBackOff();
  StopSending(2108);
  Note note{.kind = Note::Kind::kContributed, .task = pending_->task, .examples = pending_->weight};
  if (!pending_->metrics.empty()) note.loss = pending_->metrics.front().value;
  Tell(std::move(note));
  for (const SeenTask& seen : memory_.seen) {
    const wire::TaskRef task{seen.run, seen.round, seen.attempt, seen.kind};
    if (task != pending_->task) continue;
    memory_.evidence = seen.manifest;
    ++memory_.revision;
  }
  pending_.reset();
  Enter(Idle{});
  if (!config_.once) return ObserveWindow(ack.come_back);
  if (ack.come_back) static_cast<void>(DrawWindow(*ack.come_back));
  Finish(0, "one contribution made", wire::GoodbyeReason::kDone);
}

void Session::Impl::On(const wire::UpdateRefused& refused) {
  if (!pending_ || refused.update_id != pending_->id) return;
  const auto code = static_cast<int>(refused.code);
  StopSending(code);
  const Nanoseconds after = Milliseconds(refused.retry_after_ms);
  switch (refused.retry) {
    case wire::RetryClass::kNever:
      DropUpdate(code);
      Enter(Idle{});
      ObserveWindow(refused.come_back);
      return;
    case wire::RetryClass::kSession:
      return RepeatAfter(after);
    case wire::RetryClass::kReconnect:
      Tell({.kind = Note::Kind::kProblem,
            .task = pending_->task,
            .code = code,
            .text = "update refused for now"});
      Enter(Idle{});
      if (refused.come_back) return ObserveWindow(refused.come_back);
      Lose("update refused for now", after);
      return;
    case wire::RetryClass::kRejoin:
    case wire::RetryClass::kUpgrade:
      Rejoin(code, "update refused");
      return;
  }
}

void Session::Impl::DropUpdate(int code) {
  Tell({.kind = Note::Kind::kRefused,
        .task = pending_->task,
        .code = code,
        .text = "update refused"});
  pending_.reset();
}

}  // namespace skep::client
