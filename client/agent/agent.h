// Agent: drives one Session over a real connection, with real data, on a real disk.
//
// The loop's thread moves frames, timers and the session; one worker thread reads data, trains and
// stores the finished update. Nothing is decided here that the session decides; what is here is
// what it leaves to its driver: connecting, chunks, silence, storage, eligibility and caps, and
// what people are told. One Agent a process and storage folder.
// Source: Skep protocol 1.0, sections 6.2, 8 and 13; Skep client library, sections 6 to 8.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/agent/device.h"
#include "client/agent/duty_gate.h"
#include "client/agent/history.h"
#include "client/agent/identity.h"
#include "client/agent/loop.h"
#include "client/agent/reach.h"
#include "client/agent/state.h"
#include "client/agent/storage.h"
#include "client/device_trainer.h"
#include "client/session.h"
#include "client/trainer.h"
#include "kernels/backend.h"
#include "shared/base/executor.h"
#include "shared/base/log.h"
#include "shared/base/sha256.h"
#include "shared/config/client_config.h"
#include "shared/wire/chunk.h"

namespace skep::agent {

// Where it trains.
struct TrainingDevice {
  std::shared_ptr<kernels::DeviceApi> api{};  // null: the CPU
  std::uint64_t budget_bytes = 0;
  // Whether it must be this one: the process ends when it fails. Otherwise the task fails and later
  // ones are trained on the CPU.
  bool is_required = false;
};

struct AgentSettings {
  std::string software;    // "skep-client 0.1.0"
  std::string population;  // one of the identity's
  net::Endpoint endpoint;
  LinkLimits limits;
  config::ClientConfig config;  // data, eligibility, limits
  kernels::Isa isa = kernels::Isa::kPortable;
  TrainingDevice device;
  bool once = false;
  std::optional<Nanoseconds> budget;
};

struct Outcome {
  int code = 0;  // SKEP-nnnn, or 0
  std::string why;
  int signal = 0;        // that ended it, or 0
  bool is_late = false;  // with `once`: the budget ended before the work did
};

class Agent final : public LinkEvents {
 public:
  // All but the settings outlive the agent. `state` is saved as it changes.
  Agent(AgentSettings settings, Storage& storage, Identity& identity, State& state, Loop& loop,
        Log& log);
  ~Agent() override;

  // Until the session is finished, a signal, or the end of the budget. Call once.
  [[nodiscard]] Outcome Run();

  // What it waits for, in words.
  [[nodiscard]] std::string WaitingFor() const { return session_->WaitingFor(); }

 private:
  // A model on its way.
  struct Download {
    std::uint32_t transfer_id = 0;
    wire::ChunkReceiver receiver;
    Bytes bytes;
    Sha256 hash;
    Hash32 model;
    std::size_t kept = 0;  // bytes of it that are in the file of its part
    SteadyTime told{};
  };
  // A task in the worker's hands.
  struct Job {
    explicit Job(double share) : gate(share) {}
    client::StartTraining task;
    DutyGate gate;
    std::vector<RunId> known_runs;  // whose private tensors are kept
  };
  // What is told about it once the aggregator has it.
  struct Effort {
    wire::TaskRef task;
    client::TrainReport report;
    double seconds = 0;
    std::size_t bytes = 0;  // of the update
  };
  struct Trained {
    Effort effort;
    Result<client::PendingUpdate> update;
    std::optional<Error> device_failure;
    std::vector<std::string> damaged;  // files that were removed
  };

  // agent.cc: the life of the connection.
  void Begin();
  void Connect();
  [[nodiscard]] Status CheckBeforeConnecting() const;
  void OnOpen() override;
  void OnMessage(wire::Message message) override;
  [[nodiscard]] Status OnChunk(BytesView payload) override;
  void OnBodySent(std::uint32_t transfer_id) override;
  void OnClosed(const Error& why) override;
  void OnHello(const wire::HelloAck& ack);
  void OnFirst(const wire::Message& message);
  void OnSignal(int number);
  [[nodiscard]] Status MakeTls();
  void Renew(bool is_asked);
  void OnRenewed(const wire::RenewResult& issued);
  [[nodiscard]] bool IsAboutRenewal(const wire::Message& message);
  void CutOff(const Error& why);
  void Postpone(const Error& why);
  void Conclude(Outcome outcome);
  void DropUnwanted(std::uint32_t transfer_id);
  void KeepDownload();
  void FinishDownload();

  // agent_outputs.cc: what the session wants done.
  void Feed(client::Input input);
  void Execute(client::Outputs outputs);
  void Do(client::Send& send);
  void Do(client::SendBody& body);
  void Do(client::ReceiveBody& body);
  void Do(client::StartTraining& task);
  void Do(client::StopTraining&);
  void Do(client::ArmTimer& timer);
  void Do(client::Persist& persist);
  void Do(client::Reconnect& reconnect);
  void Do(client::Note& note);
  void Do(client::Finished& finished);
  void CountTraffic();
  void Save();
  void SaveNow();
  void Report(const client::Note& note);
  void TellContribution(std::optional<Nanoseconds> next);
  [[nodiscard]] bool GivesUp();
  void Rest();
  void GiveBack();

  // agent_task.cc: data and training, on the worker.
  void Offer(wire::TaskOffer& offer);
  [[nodiscard]] std::optional<Error> Refusal(const wire::Manifest& manifest) const;
  [[nodiscard]] bool WaitsForData(const wire::Message& message);
  void LoadData(const wire::Plan& plan);
  void OnLoaded(AgentDevice::Data data);
  [[nodiscard]] ThreadPool& Worker();
  [[nodiscard]] Trained Work(Job& job, const LocalData& data);
  [[nodiscard]] Status FetchPrivate(Job& job, std::vector<std::string>& damaged);
  [[nodiscard]] Status StoreWork(const Job& job, const client::PendingUpdate& update);
  void MakeTrainer();
  void OnTrained(Trained trained);
  void OnDeviceFailed(const Error& failure);

  AgentSettings settings_;
  Storage& storage_;
  Identity& identity_;
  State& state_;
  Loop& loop_;
  Log& log_;
  ModelPart part_;
  AgentDevice device_;
  net::TlsContext::Shared tls_;
  std::optional<client::Session> session_;
  std::uint64_t saved_revision_ = 0;
  std::deque<client::Input> inputs_;
  bool is_stepping_ = false;

  std::unique_ptr<Link> link_;
  bool is_attached_ = false;           // HelloAck came on this link
  bool was_attached_ = false;          // on some link of this process
  std::optional<Error> last_failure_;  // of the link that just ended
  std::uint32_t failed_in_a_row_ = 0;
  Reach reach_;
  std::optional<Download> download_;
  std::set<std::uint32_t> unwanted_;  // downloads of this link that nobody waits for
  wire::HelloAck ack_;

  std::shared_ptr<const LocalData> task_rows_;  // of the task that was accepted
  std::shared_ptr<Job> job_;
  bool is_loading_ = false;
  ClientNumber offered_as_ = 0;
  std::deque<wire::Message> held_;  // messages behind the one that waits for data
  std::optional<UpdateId> kept_;    // stored, and taken over by the session
  std::optional<Effort> last_effort_;
  std::optional<wire::TaskRef> contributed_;  // in this step: told with what follows it
  Link::Traffic since_entry_;                 // bytes since the last line of the history
  WallMs last_work_ = 0;
  int last_trouble_ = 0;  // how the last task ended, 0: well
  std::string last_trouble_text_;
  WallMs renews_at_ = 0;
  std::optional<SteadyTime> deadline_;

  std::optional<Error> broken_device_;  // that was required: why this process ends
  std::optional<Outcome> outcome_;
  int signal_ = 0;
  bool is_late_ = false;

  // The worker's alone.
  std::unique_ptr<client::Trainer> trainer_;
  client::DeviceTrainer* device_trainer_ = nullptr;  // trainer_, if it is one
  bool is_device_lost_ = false;
  model::FloatVector scratch_;
  // Last: joined before what its tasks use goes away.
  std::unique_ptr<ThreadPool> worker_;
};

}  // namespace skep::agent
