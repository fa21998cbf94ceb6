// ServerSession: one device's session: its state machine, its link, and what the machine asks for.
//
// Lives from the handshake to the end of the link; owned by Server. Network thread only. Source:
// Skep protocol 1.0, sections 6.1 and 18.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "aggregator/server/network.h"
#include "aggregator/server/session_machine.h"

namespace skep::aggregator {

class ServerSession;

// What a session needs of the server.
class SessionHost {
 public:
  virtual ~SessionHost() = default;
  [[nodiscard]] virtual Now Time() = 0;
  virtual void Tell(Input input) = 0;
  virtual void Join(ServerSession& session, const Greet& greet) = 0;
  virtual void FindPlan(ServerSession& session, const Hash32& plan) = 0;
  virtual void FindModel(ServerSession& session, const aggregator::FindModel& wanted) = 0;
  virtual void Offer(ServerSession& session, wire::UploadBegin begin) = 0;
  virtual void TakeBody(ServerSession& session, aggregator::TakeBody body) = 0;
  virtual void DropBody(UploadNumber upload) = 0;
  virtual void Renew(ServerSession& session, Bytes csr) = 0;
  // Something may have changed: deadline, regions, state.
  virtual void Changed(ServerSession& session) = 0;
  // The last call.
  virtual void Ended(ServerSession& session, const Error& why) = 0;
};

class ServerSession final : public LinkUser {
 public:
  ServerSession(SessionNumber number, SessionHost& host, Link& link, Visitor visitor,
                const SessionRules& rules);

  // Link.
  void OnFrame(wire::Frame frame) override;
  void OnBytes(const FrameProgress& progress) override;
  void OnRefused(int code) override;
  void OnReading(bool is_reading) override;
  void OnModelSent(std::uint32_t transfer_id) override;
  void OnModelStopped(std::uint32_t transfer_id) override;
  void OnEnded(const Error& why) override;

  // Server. Each may end in calls of the host.
  void FromEngine(Output output);
  void Welcome(const SessionId& id, Nanoseconds reconnect_spread);
  void Refuse(int code);
  void PlanFound(const Hash32& plan, const std::optional<Bytes>& bytes);
  // Null: the code says why not.
  void ModelFound(std::uint32_t transfer_id, const model::ParamsPtr& params, int code);
  void Renewed(const Result<wire::RenewResult>& result);
  void Drain();
  void OnDeadline();

  [[nodiscard]] SessionNumber number() const { return number_; }
  [[nodiscard]] const Visitor& visitor() const { return visitor_; }
  [[nodiscard]] const SessionMachine& machine() const { return machine_; }
  [[nodiscard]] const std::string& software() const { return software_; }
  [[nodiscard]] bool is_joined() const { return is_joined_; }
  [[nodiscard]] int end_code() const { return end_code_; }

  // The host's notes on the session.
  std::optional<SteadyTime> alarm;
  bool counts_as_upload = false;
  bool counts_as_download = false;

 private:
  void Do(SessionOutputs outputs);
  void DoOne(SessionOutput& output);

  SessionNumber number_;
  SessionHost& host_;
  Link& link_;
  Visitor visitor_;
  SessionMachine machine_;
  std::string software_;
  bool is_joined_ = false;
  bool has_ended_ = false;
  int end_code_ = 0;
  std::map<std::uint32_t, ModelBytes> found_;  // models about to be sent
};

}  // namespace skep::aggregator
