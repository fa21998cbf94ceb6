// The upload and the download region of a session.
#include <algorithm>
#include <utility>

#include "aggregator/server/session_machine.h"

namespace skep::aggregator {
namespace {

constexpr int kNotAllowedNow = 3302;
constexpr int kNoTransfer = 3303;
constexpr int kNotDrained = 3323;
constexpr int kTooSlow = 3325;
constexpr int kNotServed = 3401;
constexpr int kBeyondTheEnd = 3402;
constexpr int kOverloaded = 3336;
constexpr int kConnectionLost = 3324;
constexpr std::uint32_t kOverloadWaitMs = 5000;
constexpr std::uint64_t kMostDrained = 16ULL << 20U;
constexpr std::chrono::seconds kDrainFor{10};
constexpr std::chrono::seconds kReportEvery{15};

}  // namespace

std::optional<UploadNumber> SessionMachine::receiving() const {
  return upload_ == UploadRegion::kReceiving ? upload_number_ : std::nullopt;
}

// Numbers rise over both directions, so that no late message can mean another transfer.
bool SessionMachine::OpenTransfer(std::uint32_t transfer_id) {
  if (transfer_id <= last_transfer_) return false;
  last_transfer_ = transfer_id;
  return true;
}

void SessionMachine::OnUploadBegin(wire::UploadBegin begin) {
  if (upload_ != UploadRegion::kNone || !OpenTransfer(begin.transfer_id)) {
    return Fail(kNotAllowedNow);
  }
  upload_ = UploadRegion::kDeciding;
  upload_number_.reset();
  begin_ = begin;
  out_.push_back(OfferUpload{std::move(begin)});
}

void SessionMachine::Admit(const AdmitUpload& admit) {
  const bool is_wanted = state_ != State::kClosing && upload_ == UploadRegion::kDeciding &&
                         begin_.transfer_id == admit.transfer_id;
  if (!is_wanted) {
    // The client has cancelled or gone in the meantime.
    out_.push_back(DropBody{admit.upload});
    out_.push_back(TellEngine{UploadAborted{admit.upload, kConnectionLost}});
    return;
  }
  upload_ = UploadRegion::kReceiving;
  upload_number_ = admit.upload;
  receiver_.emplace(wire::Transfer{.id = admit.transfer_id,
                                   .total = begin_.size,
                                   .offset = admit.offset,
                                   .chunk_bytes = rules_.chunk_bytes});
  window_began_ = now_.steady;
  window_bytes_ = 0;
  progress_at_ = now_.steady;
  progress_bytes_ = 0;
  Send(wire::UploadAccept{
      .transfer_id = admit.transfer_id, .offset = admit.offset, .chunk_bytes = rules_.chunk_bytes});
  if (admit.offset < begin_.size) return;
  // All of it came on an earlier session: it is being checked.
  upload_ = UploadRegion::kSettling;
  receiver_.reset();
}

void SessionMachine::SendRefusal(const RefuseUpload& refuse) {
  const bool is_current = upload_ != UploadRegion::kNone && upload_ != UploadRegion::kDraining &&
                          begin_.transfer_id == refuse.transfer_id;
  const wire::RetryClass retry = RetryClassOf(refuse.code);
  Send(wire::UpdateRefused{.update_id = refuse.update,
                           .code = static_cast<std::uint32_t>(refuse.code),
                           .come_back = {},
                           .transfer_id = refuse.transfer_id,
                           .retry = retry,
                           .retry_after_ms = refuse.code == kOverloaded ? kOverloadWaitMs : 0});
  if (!is_current) return;
  if (retry == wire::RetryClass::kNever) EndTask(begin_.task);
  if (upload_ == UploadRegion::kReceiving) return BeginDraining();
  EndUpload();
}

// The engine no longer wants an upload that it had admitted.
void SessionMachine::Cancel(const CancelUpload& cancel) {
  if (upload_number_ != cancel.upload) return;
  if (upload_ == UploadRegion::kReceiving) {
    Send(wire::TransferCancel{.transfer_id = begin_.transfer_id,
                              .code = static_cast<std::uint32_t>(cancel.code)});
    BeginDraining();
  } else if (upload_ == UploadRegion::kSettling) {
    out_.push_back(DropBody{cancel.upload});
    SendRefusal({number_, begin_.transfer_id, begin_.update_id, cancel.code});
  }
}

void SessionMachine::BeginDraining() {
  out_.push_back(DropBody{*upload_number_});
  upload_number_.reset();
  upload_ = UploadRegion::kDraining;
  draining_until_ = now_.steady + kDrainFor;
  drained_bytes_ = 0;
}

void SessionMachine::EndUpload() {
  upload_ = UploadRegion::kNone;
  upload_number_.reset();
  receiver_.reset();
  last_message_ = now_.steady;
}

void SessionMachine::OnChunk(wire::Frame frame) {
  if (upload_ == UploadRegion::kDraining) return DrainChunk(frame);
  if (upload_ != UploadRegion::kReceiving) return Fail(kNoTransfer);
  const Result<wire::Chunk> chunk = receiver_->Accept(frame.payload);
  if (!chunk) return Fail(chunk.error().code);
  const std::uint64_t size = chunk.value().data.size();
  window_bytes_ += size;
  progress_bytes_ += size;
  last_message_ = now_.steady;
  const bool is_last = chunk.value().is_last;
  out_.push_back(TakeBody{*upload_number_, std::move(frame), chunk.value().data, is_last});
  if (is_last) {
    upload_ = UploadRegion::kSettling;
    receiver_.reset();
  } else if (progress_bytes_ >= rules_.progress_every) {
    ReportProgress();
  }
}

// A sender that was told to stop may still have chunks on the way.
void SessionMachine::DrainChunk(const wire::Frame& frame) {
  const Result<wire::ChunkHeader> header = wire::DecodeChunkHeader(frame.payload);
  if (!header) return Fail(header.error().code);
  if (header.value().transfer_id != begin_.transfer_id) return Fail(kNoTransfer);
  drained_bytes_ += frame.payload.size();
  if (drained_bytes_ > kMostDrained) return Fail(kNotDrained);
  if ((header.value().flags & wire::kLastChunkFlag) != 0) EndUpload();
}

void SessionMachine::ReportProgress() {
  progress_bytes_ = 0;
  progress_at_ = now_.steady;
  Send(
      wire::TransferProgress{.transfer_id = begin_.transfer_id, .received = receiver_->received()});
}

void SessionMachine::OnTransferCancel(const wire::TransferCancel& cancel) {
  if (cancel.transfer_id > last_transfer_) return Fail(kNoTransfer);
  if (upload_ != UploadRegion::kNone && cancel.transfer_id == begin_.transfer_id) {
    if (upload_ == UploadRegion::kReceiving) {
      out_.push_back(DropBody{*upload_number_});
      out_.push_back(TellEngine{UploadAborted{*upload_number_, static_cast<int>(cancel.code)}});
    }
    return EndUpload();  // what is settling goes on by itself
  }
  if (download_ == DownloadRegion::kNone || cancel.transfer_id != download_id_) return;
  const bool is_sending = download_ == DownloadRegion::kSending;
  download_ = DownloadRegion::kNone;
  if (is_sending && !stopping_) {
    stopping_ = {cancel.transfer_id, cancel.code};
    out_.push_back(StopModel{cancel.transfer_id});
  } else {
    Send(wire::TransferCancel{.transfer_id = cancel.transfer_id, .code = cancel.code});
  }
}

SessionOutputs SessionMachine::DownloadStopped(Now now, std::uint32_t transfer_id) {
  now_ = now;
  if (state_ == State::kClosing || !stopping_ || stopping_->transfer_id != transfer_id) return {};
  Send(wire::TransferCancel{.transfer_id = transfer_id, .code = stopping_->code});
  stopping_.reset();
  return Take();
}

void SessionMachine::OnDownloadRequest(const wire::DownloadRequest& request) {
  if (download_ != DownloadRegion::kNone || !OpenTransfer(request.transfer_id)) {
    return Fail(kNotAllowedNow);
  }
  // A grant without an offer is of a task that was accepted on an earlier session.
  const bool is_of_before = grant_ && grant_->model == request.sha256;
  const bool is_granted =
      request.kind == wire::DownloadKind::kModel &&
      (is_of_before || std::any_of(tasks_.begin(), tasks_.end(),
                                   [&](const Task& task) { return task.model == request.sha256; }));
  download_ = DownloadRegion::kFinding;
  download_id_ = request.transfer_id;
  download_offset_ = request.offset;
  if (is_granted) {
    out_.push_back(FindModel{request.transfer_id, request.sha256});
    return;
  }
  download_ = DownloadRegion::kNone;
  Send(wire::TransferCancel{.transfer_id = request.transfer_id, .code = kNotServed});
}

SessionOutputs SessionMachine::BeginDownload(Now now, std::uint32_t transfer_id,
                                             std::uint64_t size) {
  if (download_offset_ > size) return RefuseDownload(now, transfer_id, kBeyondTheEnd);
  now_ = now;
  const bool is_wanted = state_ != State::kClosing && download_ == DownloadRegion::kFinding &&
                         transfer_id == download_id_;
  if (!is_wanted) return {};
  Send(wire::DownloadBegin{.transfer_id = transfer_id,
                           .size = size,
                           .offset = download_offset_,
                           .chunk_bytes = rules_.chunk_bytes});
  if (download_offset_ == size) {
    download_ = DownloadRegion::kNone;
    return Take();
  }
  download_ = DownloadRegion::kSending;
  out_.push_back(SendModel{{.id = transfer_id,
                            .total = size,
                            .offset = download_offset_,
                            .chunk_bytes = rules_.chunk_bytes}});
  return Take();
}

SessionOutputs SessionMachine::RefuseDownload(Now now, std::uint32_t transfer_id, int code) {
  now_ = now;
  const bool is_wanted = state_ != State::kClosing && download_ != DownloadRegion::kNone &&
                         transfer_id == download_id_;
  if (!is_wanted) return {};
  download_ = DownloadRegion::kNone;
  Send(wire::TransferCancel{.transfer_id = transfer_id, .code = static_cast<std::uint32_t>(code)});
  return Take();
}

void SessionMachine::DownloadSent(Now now, std::uint32_t transfer_id) {
  now_ = now;
  if (stopping_ && stopping_->transfer_id == transfer_id) stopping_.reset();
  if (download_ != DownloadRegion::kSending || transfer_id != download_id_) return;
  download_ = DownloadRegion::kNone;
  last_message_ = now.steady;
}

SteadyTime SessionMachine::TransferDeadline() const {
  if (paused_since_) return SteadyTime::max();
  if (upload_ == UploadRegion::kDraining) return draining_until_;
  if (upload_ != UploadRegion::kReceiving) return SteadyTime::max();
  const SteadyTime window_ends = window_began_ + rules_.rate_window;
  return progress_bytes_ > 0 ? std::min(window_ends, progress_at_ + kReportEvery) : window_ends;
}

void SessionMachine::CheckTransfers() {
  if (upload_ == UploadRegion::kDraining) return Fail(kNotDrained);
  if (upload_ != UploadRegion::kReceiving) return;
  if (window_began_ + rules_.rate_window <= now_.steady) {
    const double wanted = Seconds(rules_.rate_window) * static_cast<double>(rules_.min_rate);
    if (static_cast<double>(window_bytes_) < wanted) return Fail(kTooSlow);
    window_began_ = now_.steady;
    window_bytes_ = 0;
  }
  if (progress_bytes_ > 0 && progress_at_ + kReportEvery <= now_.steady) ReportProgress();
}

}  // namespace skep::aggregator
