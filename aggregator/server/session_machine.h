// SessionMachine: what one device connection may say when, and what is said to it.
//
// A value without I/O, clock or threads: it takes whole frames, the engine's outputs for this
// session and the time, and says what to send, what to tell the engine, what to do with a body and
// when to close. It keeps no body and no model: the driver does. Nothing that it refuses reaches
// the engine. Called by ServerSession; one thread. Source: Skep protocol 1.0, sections 6.1, 8, 12,
// 13 and 14.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "aggregator/engine/events.h"
#include "shared/wire/chunk.h"
#include "shared/wire/frame.h"

namespace skep::aggregator {

// The same for all sessions.
struct SessionRules {
  FederationId federation;
  std::uint32_t epoch = 1;
  std::string software;  // of this aggregator
  std::vector<KeyId> signing_keys;
  std::uint32_t min_minor = 0;
  std::uint32_t chunk_bytes = 256 * 1024;
  std::uint64_t progress_every = 1 << 20;
  std::uint64_t min_rate = 4096;  // bytes per second
  Nanoseconds rate_window{};
  Nanoseconds first_frame_deadline{};
  Nanoseconds header_deadline{};
  Nanoseconds ping_interval{};
  Nanoseconds ping_deadline{};
  Nanoseconds idle_limit{};
  Nanoseconds max_hold{};
  Nanoseconds progress_interval{};
  std::uint32_t messages_per_second = 50;
  std::uint32_t message_burst = 200;
};

// What a session wants done, in this order.
struct SendFrame {
  Bytes frame;
};
struct TellEngine {
  Input input;
};
// Hello is acceptable: look at the certificate, then Welcome or Refuse.
struct Greet {
  std::uint32_t minor = 0;
  std::string software;
};
// Look up a granted plan, then SendPlan.
struct FindPlan {
  Hash32 plan;
};
// Look up what is stored for the task and device, then tell the engine (UploadOffered).
struct OfferUpload {
  wire::UploadBegin begin;
};
struct TakeBody {
  UploadNumber upload = 0;
  wire::Frame frame;  // keeps `data` in place
  BytesView data;
  bool is_last = false;
};
struct DropBody {
  UploadNumber upload = 0;
};
// Look up a granted model, then BeginDownload or RefuseDownload.
struct FindModel {
  std::uint32_t transfer_id = 0;
  Hash32 model;
};
// Send the model that was found, as chunks; then DownloadSent.
struct SendModel {
  wire::Transfer transfer;
};
// Stop at a chunk boundary; then DownloadStopped.
struct StopModel {
  std::uint32_t transfer_id = 0;
};
struct RenewCertificate {
  Bytes csr;
};
// Send what is queued and close. 0: both sides are done.
struct EndSession {
  int code = 0;
};
using SessionOutput =
    std::variant<SendFrame, TellEngine, Greet, FindPlan, OfferUpload, TakeBody, DropBody, FindModel,
                 SendModel, StopModel, RenewCertificate, EndSession>;
using SessionOutputs = std::vector<SessionOutput>;

// Where the connection's decoder stands after some bytes.
struct FrameProgress {
  bool is_open = false;  // the opening message is complete
  bool is_in_header = false;
  bool is_in_body = false;
  std::uint32_t body_length = 0;
};

class SessionMachine {
 public:
  enum class State { kAwaitHello, kJoining, kReady, kHeld, kOffered, kClosing };
  enum class UploadRegion { kNone, kDeciding, kReceiving, kSettling, kDraining };
  enum class DownloadRegion { kNone, kFinding, kSending };

  // `rules` must outlive the machine.
  SessionMachine(SessionNumber number, const SessionRules& rules, Now opened);

  // What the peer does.
  [[nodiscard]] SessionOutputs OnFrame(Now now, wire::Frame frame);
  // Bytes have arrived, whole frames of them were given to OnFrame before.
  void OnBytes(Now now, const FrameProgress& progress);
  // The connection's own refusal of bytes (SKEP-3201..3205, 3301).
  [[nodiscard]] SessionOutputs OnRefused(Now now, int code);

  // What the engine and the driver do.
  [[nodiscard]] SessionOutputs Welcome(Now now, const SessionId& id, Nanoseconds reconnect_spread);
  [[nodiscard]] SessionOutputs Refuse(Now now, int code);
  // Send, Grant, AdmitUpload, RefuseUpload, CancelUpload and Disconnect; others are ignored.
  [[nodiscard]] SessionOutputs OnEngine(Now now, Output output);
  // Nothing: it is not there.
  [[nodiscard]] SessionOutputs SendPlan(Now now, const Hash32& plan,
                                        const std::optional<Bytes>& bytes);
  [[nodiscard]] SessionOutputs BeginDownload(Now now, std::uint32_t transfer_id,
                                             std::uint64_t size);
  [[nodiscard]] SessionOutputs RefuseDownload(Now now, std::uint32_t transfer_id, int code);
  void DownloadSent(Now now, std::uint32_t transfer_id);
  [[nodiscard]] SessionOutputs DownloadStopped(Now now, std::uint32_t transfer_id);
  [[nodiscard]] SessionOutputs Renewed(Now now, const Result<wire::RenewResult>& result);
  // The aggregator is about to stop: a session that nothing is going on in ends.
  [[nodiscard]] SessionOutputs Drain(Now now);

  // Time that passes while the driver does not read does not count against the peer.
  void SetReading(Now now, bool is_reading);
  // When OnDeadline is due; SteadyTime::max() if never.
  [[nodiscard]] SteadyTime NextDeadline() const;
  [[nodiscard]] SessionOutputs OnDeadline(Now now);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] UploadRegion upload() const { return upload_; }
  [[nodiscard]] DownloadRegion download() const { return download_; }
  // What is being received or settled, for the end of the session.
  [[nodiscard]] std::optional<UploadNumber> receiving() const;
  [[nodiscard]] const std::string& held_population() const { return held_population_; }

 private:
  struct Task {
    wire::TaskRef ref;
    Hash32 plan;
    Hash32 model;
  };

  // session_machine.cc
  SessionOutputs Take();
  void Send(const wire::Message& message);
  void SendError(int code, wire::MessageId in_reply_to);
  void Fail(int code);
  void Close(int code);
  void OnMessage(wire::MessageId id, wire::Message message);
  bool TakeToken();
  void OnHello(const wire::Hello& hello);
  void OnPoll(wire::Poll poll);
  void OnAnswer(wire::MessageId id, wire::Message message, const wire::TaskRef& task);
  void OnPlanRequest(const wire::PlanRequest& request);
  void OnPong(const wire::Pong& pong);
  void ForwardToEngine(wire::Message message);
  void SendFromEngine(wire::Message message);
  void EndTask(const wire::TaskRef& ref);
  [[nodiscard]] const Task* FindGrant(const Hash32& plan) const;
  [[nodiscard]] bool IsBusy() const;
  [[nodiscard]] SteadyTime HelloDeadline() const;
  [[nodiscard]] SteadyTime FrameDeadline() const;
  [[nodiscard]] SteadyTime PingDeadline() const;
  [[nodiscard]] SteadyTime IdleDeadline() const;
  void CheckPing();
  void EndIdle(wire::GoodbyeReason reason, wire::ComeBackReason come_back);

  // session_transfers.cc
  void OnChunk(wire::Frame frame);
  void DrainChunk(const wire::Frame& frame);
  void OnUploadBegin(wire::UploadBegin begin);
  void OnTransferCancel(const wire::TransferCancel& cancel);
  void OnDownloadRequest(const wire::DownloadRequest& request);
  [[nodiscard]] bool OpenTransfer(std::uint32_t transfer_id);
  void Admit(const AdmitUpload& admit);
  void SendRefusal(const RefuseUpload& refuse);
  void Cancel(const CancelUpload& cancel);
  void BeginDraining();
  void EndUpload();
  void ReportProgress();
  [[nodiscard]] SteadyTime TransferDeadline() const;
  void CheckTransfers();

  SessionNumber number_;
  const SessionRules& rules_;
  Now now_;
  SessionOutputs out_;

  State state_ = State::kAwaitHello;
  std::uint32_t minor_ = 0;
  SteadyTime opened_;
  SteadyTime last_message_;  // other than Ping, Pong and Error
  SteadyTime last_received_;
  std::optional<SteadyTime> frame_began_;
  FrameProgress progress_;
  std::optional<SteadyTime> paused_since_;
  double tokens_;
  SteadyTime tokens_at_;
  std::uint64_t open_nonce_ = 1;      // of the Pong that comes next
  std::uint64_t next_nonce_ = 1;      // of our next Ping; equal: no Ping is open
  std::optional<SteadyTime> pinged_;  // nothing has come since
  bool is_renewing_ = false;

  std::string held_population_;
  std::optional<Grant> grant_;  // of the offer that comes next, or of a task of an earlier session
  std::vector<Task> tasks_;     // live assignments that were offered here
  std::optional<wire::TaskRef> offer_;
  std::optional<wire::RoundClosed> ended_offer_;

  std::uint32_t last_transfer_ = 0;
  UploadRegion upload_ = UploadRegion::kNone;
  wire::UploadBegin begin_;  // of the upload region, while busy
  std::optional<UploadNumber> upload_number_;
  std::optional<wire::ChunkReceiver> receiver_;
  SteadyTime window_began_{};
  std::uint64_t window_bytes_ = 0;
  SteadyTime progress_at_{};
  std::uint64_t progress_bytes_ = 0;
  SteadyTime draining_until_{};
  std::uint64_t drained_bytes_ = 0;

  DownloadRegion download_ = DownloadRegion::kNone;
  std::uint32_t download_id_ = 0;
  std::uint64_t download_offset_ = 0;
  // Stopped by the client: our answer follows the last chunk that was on its way.
  struct Stopping {
    std::uint32_t transfer_id = 0;
    std::uint32_t code = 0;
  };
  std::optional<Stopping> stopping_;
};

// The message Error for a code, with the catalogue's text and retry class.
[[nodiscard]] wire::PeerError ErrorMessage(int code, wire::MessageId in_reply_to,
                                           std::uint32_t retry_after_ms);
// The class of a code as it travels.
[[nodiscard]] wire::RetryClass RetryClassOf(int code);

}  // namespace skep::aggregator
