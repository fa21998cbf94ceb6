// Bodies of updates: room for them, what is kept of those that were cut off, and their inspection.
#include <algorithm>
#include <utility>

#include "aggregator/server/server_impl.h"

namespace skep::aggregator {
namespace {

constexpr int kHashMismatch = 2110;
constexpr int kConnectionLost = 3324;
constexpr int kOverloaded = 3336;
constexpr int kAllowanceSpent = 3403;
// A body goes to its file in steps of this size, and with what is there when its connection is
// lost: small ones are written only then.
constexpr std::size_t kKeepEvery = std::size_t{1} << 20U;

}  // namespace

// Bytes of a body of this attempt that need not come again, as far as is known without reading.
std::uint64_t Server::Impl::KeptOf(const DeviceId& device, const AttemptKey& attempt) const {
  const auto kept = partials_kept_.find(device);
  return kept == partials_kept_.end() || kept->second.attempt != attempt ? 0 : kept->second.bytes;
}

// What protocol 9.2 asks in step A9: slot, allowance, memory. 0 if there is room.
int Server::Impl::RefusalOf(const AdmitUpload& admit, const DeviceId& device) {
  const config::ServerConfig::Limits& limits = setup_.config.limits;
  if (uploads_ >= limits.concurrent_uploads) return kOverloaded;
  const AttemptKey attempt{admit.begin.task.run_id, admit.begin.task.round, admit.begin.task.kind,
                           admit.begin.task.attempt};
  std::uint64_t& announced = allowances_[{attempt, device}];
  const std::uint64_t size = admit.begin.size;
  const std::uint64_t to_come = size - std::min(size, KeptOf(device, attempt));
  if (announced + to_come > limits.upload_bytes_factor * limits.max_update_bytes) {
    return kAllowanceSpent;
  }
  std::shared_ptr<UploadBody> body = UploadBody::Open(body_memory_, size, admit.begin.sha256);
  if (!body) return kOverloaded;
  announced += to_come;
  incoming_[admit.upload] = {.session = admit.session,
                             .attempt = attempt,
                             .device = device,
                             .begin = admit.begin,
                             .body = std::move(body)};
  return 0;
}

void Server::Impl::Do(AdmitUpload& admit) {
  ServerSession* session = FindSession(admit.session);
  if (session == nullptr) return Tell(UploadAborted{admit.upload, kConnectionLost});
  const DeviceId device = session->visitor().device;
  const int code = RefusalOf(admit, device);
  if (code == 0 && partials_kept_.count(device) > 0) return LoadPartial(admit);
  if (code == 0) return session->FromEngine(admit);
  session->FromEngine(RefuseUpload{admit.session, admit.transfer_id, admit.begin.update_id, code});
  Tell(UploadAborted{admit.upload, code});
}

// The client waits for its answer until what is here has been read.
void Server::Impl::LoadPartial(const AdmitUpload& admit) {
  Incoming& incoming = incoming_.at(admit.upload);
  incoming.is_loading = true;
  workshop_->OnFiles([this, admit, device = incoming.device, body = incoming.body] {
    body->Append(partials_.Load(device, admit.begin));
    network_->Post([this, admit] { OnPartialLoaded(admit); });
  });
}

void Server::Impl::OnPartialLoaded(AdmitUpload admit) {
  Incoming& incoming = incoming_.at(admit.upload);
  incoming.is_loading = false;
  incoming.kept = admit.offset = incoming.body->bytes().size();
  ServerSession* session = FindSession(admit.session);
  const int cancelled = incoming.cancelled;
  if (session == nullptr || cancelled != 0) {
    incoming_.erase(admit.upload);
    if (session == nullptr) return Tell(UploadAborted{admit.upload, kConnectionLost});
    return session->FromEngine(
        RefuseUpload{admit.session, admit.transfer_id, admit.begin.update_id, cancelled});
  }
  if (admit.offset == 0) ForgetPartial(incoming.device);
  const bool is_whole = incoming.body->is_whole();
  session->FromEngine(admit);
  if (is_whole) CheckBody(admit.upload);
}

void Server::Impl::Do(CancelUpload& cancel) {
  const auto found = incoming_.find(cancel.upload);
  if (found == incoming_.end()) return;
  if (found->second.is_loading) {
    found->second.cancelled = cancel.code;
    return;
  }
  const SessionNumber number = found->second.session;
  // The device may be sending it on a newer session already.
  KeepPartial(cancel.upload);
  ToSession(number, cancel);
}

void Server::Impl::TakeBody(ServerSession&, aggregator::TakeBody taken) {
  const auto found = incoming_.find(taken.upload);
  if (found == incoming_.end()) return;
  Incoming& incoming = found->second;
  incoming.body->Append(taken.data);
  if (taken.is_last) return CheckBody(taken.upload);
  if (incoming.body->bytes().size() - incoming.kept >= kKeepEvery) WritePartial(incoming);
}

void Server::Impl::CheckBody(UploadNumber upload) {
  const auto found = incoming_.find(upload);
  if (found == incoming_.end()) return;
  const auto run = runs_.find(found->second.attempt.run);
  if (run == runs_.end() || !run->second.spec) return;
  const std::shared_ptr<UploadBody> whole = found->second.body;
  // A close of the round waits for the inspection; it cannot cancel what is here.
  Tell(UploadArrived{upload});
  workshop_->OnPool([this, upload, body = whole, spec = run->second.spec] {
    Inspection inspection;
    if (body->HasExpectedHash()) {
      inspection = Inspect(body->bytes(), *spec->model.layout(), spec->admission);
    } else {
      inspection = {.code = kHashMismatch, .detail = "the body has another SHA-256"};
    }
    network_->Post([this, upload, inspection] { OnChecked(upload, inspection); });
  });
}

// The body stays only if the engine wants it written.
void Server::Impl::OnChecked(UploadNumber upload, const Inspection& inspection) {
  const auto entry = incoming_.find(upload);
  if (entry == incoming_.end()) return;
  const Incoming incoming = std::move(entry->second);
  incoming_.erase(entry);
  ForgetPartial(incoming.device);
  if (inspection.code == 0) bodies_.Put(upload, incoming.attempt, incoming.body);
  Outputs outputs = engine_->Step(Time(), UploadFinished{.upload = upload,
                                                         .code = inspection.code,
                                                         .norm = inspection.norm,
                                                         .aux_norm = 0,
                                                         .detail = inspection.detail});
  const bool is_wanted = std::any_of(outputs.begin(), outputs.end(), [&](const Output& output) {
    const auto* start = std::get_if<StartJob>(&output);
    const auto* commit = start == nullptr ? nullptr : std::get_if<CommitJob>(&start->job);
    const auto* update = commit == nullptr ? nullptr : std::get_if<UpdateTx>(&commit->transaction);
    return update != nullptr && update->update.upload == upload;
  });
  if (!is_wanted) bodies_.Forget(upload);
  Execute(std::move(outputs));
}

// It is not wanted any more.
void Server::Impl::DropBody(UploadNumber upload) {
  const auto found = incoming_.find(upload);
  if (found == incoming_.end()) return;
  const DeviceId device = found->second.device;
  incoming_.erase(found);
  ForgetPartial(device);
}

void Server::Impl::WritePartial(Incoming& incoming) {
  const Bytes& bytes = incoming.body->bytes();
  if (bytes.size() == incoming.kept) return;
  Bytes piece(bytes.begin() + static_cast<std::ptrdiff_t>(incoming.kept), bytes.end());
  workshop_->OnFiles([this, device = incoming.device, begin = incoming.begin,
                      offset = incoming.kept, piece = std::move(piece)] {
    // What cannot be kept comes again.
    (void)partials_.Append(device, begin, offset, piece);
  });
  incoming.kept = bytes.size();
  partials_kept_[incoming.device] = {
      .device = incoming.device, .attempt = incoming.attempt, .bytes = incoming.kept};
}

// The rest may come on another connection.
void Server::Impl::KeepPartial(UploadNumber upload) {
  const auto found = incoming_.find(upload);
  if (found == incoming_.end()) return;
  WritePartial(found->second);
  incoming_.erase(found);
}

void Server::Impl::ForgetPartial(const DeviceId& device) {
  if (partials_kept_.erase(device) == 0) return;
  workshop_->OnFiles([this, device] { partials_.Drop(device); });
}

void Server::Impl::ForgetPartials(const AttemptKey& attempt) {
  std::vector<DeviceId> over;
  for (const auto& [device, kept] : partials_kept_) {
    if (kept.attempt == attempt) over.push_back(device);
  }
  for (const DeviceId& device : over) ForgetPartial(device);
}

}  // namespace skep::aggregator
