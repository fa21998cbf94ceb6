// The parts of Simulation that its .cc files share. Nobody else includes this.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "aggregator/engine/job_runner.h"
#include "aggregator/engine/round_engine.h"
#include "aggregator/evaluator.h"
#include "shared/base/executor.h"
#include "simulator/event_queue.h"
#include "simulator/simulation.h"
#include "simulator/virtual_client.h"

namespace skep::simulator {

// Models in memory: the current one and the one that is being made.
class ModelShelf final : public aggregator::ModelSource {
 public:
  [[nodiscard]] Result<model::ParamsPtr> Model(const Hash32& hash) override;
  [[nodiscard]] Status Keep(model::ParamsPtr params, const Hash32& hash) override;
  void ForgetAllBut(const Hash32& hash);

 private:
  std::map<Hash32, model::ParamsPtr> models_;
};

// Update bodies between admission and the end of their attempt's sum.
class BodyShelf final : public aggregator::BodySource {
 public:
  [[nodiscard]] std::shared_ptr<const Bytes> Body(aggregator::UploadNumber upload) override;
  void Put(aggregator::UploadNumber upload, std::shared_ptr<const Bytes> body);
  void Forget(aggregator::UploadNumber upload);

 private:
  std::unordered_map<aggregator::UploadNumber, std::shared_ptr<const Bytes>> bodies_;
};

class Simulation::Impl {
 public:
  Impl(SimulationSetup setup, Recorder& recorder, CheckpointWriter& checkpoints,
       const StopRequest& stop);
  ~Impl();

  RunEnd Run(model::ParamsPtr* final_model);

 private:
  // What is known of one client's turn.
  struct Turn {
    std::unique_ptr<VirtualClient> client;
    aggregator::AttemptKey key;
    std::optional<EventKey> training;
    std::optional<DropOut> drop_out;
    SteadyTime started{};
    TaskResult result;
    std::map<client::TimerId, EventKey> timers;
    std::uint64_t bytes_up = 0;
    std::uint64_t bytes_down = 0;
    std::optional<aggregator::UploadNumber> upload;
    std::string problem;  // what the client says is wrong; only its number travels
  };
  // What a client keeps between its turns: tensors of its own.
  struct Own {
    client::PrivateHistory states;
    std::optional<UpdateId> included;  // in the latest published model with an update of it
  };
  struct UploadInFlight {
    ClientNumber client = 0;
    std::uint32_t transfer_id = 0;
    EventKey arrival;
  };
  struct TrainingDue {
    ClientNumber client = 0;
  };
  struct UploadDue {
    aggregator::UploadNumber upload = 0;
  };
  struct VanishDue {
    ClientNumber client = 0;
  };
  struct EngineTimer {
    aggregator::TimerId timer = 0;
  };
  struct ClientTimer {
    ClientNumber client = 0;
    client::TimerId timer = 0;
  };
  using Payload = std::variant<TrainingDue, UploadDue, VanishDue, EngineTimer, ClientTimer>;

  // The loop (simulation.cc).
  void StepEngine(aggregator::Input input);
  void Drain();
  void Happen(const EventKey& key, const Payload& payload);
  bool Tick(ClientNumber waiting_for);
  void Fail(int code, std::string text);
  RunEnd Finish(model::ParamsPtr* final_model);

  // The engine's outputs (simulation_engine.cc).
  void Do(aggregator::Send& send);
  void Do(aggregator::Grant&) {}
  void Do(aggregator::AdmitUpload& admit);
  void Do(aggregator::RefuseUpload& refuse);
  void Do(aggregator::CancelUpload& cancel);
  void Do(aggregator::Disconnect& disconnect);
  void Do(aggregator::ArmTimer& arm);
  void Do(aggregator::CancelTimer& cancel);
  void Do(aggregator::StartJob& start);
  void Do(aggregator::RoundPublished& published);
  void Do(aggregator::EngineFailed& failed);
  void Do(aggregator::Emit& emit);
  aggregator::JobResult RunJob(const aggregator::Job& job);
  void OnEvent(const aggregator::ClientOutcome& outcome);
  void OnEvent(const aggregator::AttemptEnded& ended);
  void OnEvent(const aggregator::CentralEvaluated& evaluated);
  void OnEvent(const aggregator::SelectionOpened& opened);
  void OnEvent(const aggregator::RunEnded& ended);
  // Simulated clients are not quarantined: what a bad one does round after round is what people
  // want to see.
  void OnEvent(const aggregator::DeviceStruck&) {}
  // Its store is memory, which takes every write.
  void OnEvent(const aggregator::StoreWaiting&) {}
  void CompleteRound();
  void CheckFirstAttempt(const aggregator::AttemptEnded& ended);
  bool IsBudgetSpent(const RoundRecord& record);
  [[nodiscard]] OwnStates IncludedStates() const;

  // The clients (simulation_client.cc).
  Turn& StartTurn(ClientNumber client, const wire::TaskOffer& offer);
  void StepClient(Turn& turn, client::Input input);
  void Do(Turn& turn, client::Send& send);
  void Do(Turn& turn, client::StartTraining& start);
  void Do(Turn& turn, client::SendBody& send);
  void Do(Turn& turn, client::ArmTimer& arm);
  void Do(Turn& turn, client::StopTraining&);
  void EndTurn(ClientNumber client);
  void EndTurnsOf(const aggregator::AttemptKey& key);
  void OnTrainingDue(ClientNumber client);
  void OnUploadDue(aggregator::UploadNumber upload);
  [[nodiscard]] SharedRound& Shared(const wire::TaskOffer& offer);

  SimulationSetup setup_;
  Recorder& recorder_;
  CheckpointWriter& checkpoints_;
  const StopRequest& stop_;

  std::vector<client::LocalData> local_;  // by client number
  std::map<ClientNumber, Own> own_;       // of those that have trained, where the model has such
  std::map<ClientNumber, UpdateId> acknowledged_;  // of the attempt that is open
  ThreadPool threads_;
  TaskPool tasks_;
  ModelShelf models_;
  BodyShelf bodies_;
  std::unique_ptr<aggregator::Evaluator> evaluator_;
  aggregator::JobRunner jobs_;
  std::unique_ptr<aggregator::RoundEngine> engine_;
  DeviceModel devices_;
  RoundLog log_;

  Now now_;
  EventQueue<Payload> events_;
  std::deque<aggregator::Output> pending_;
  std::unordered_map<ClientNumber, Turn> turns_;
  std::unordered_map<aggregator::UploadNumber, UploadInFlight> uploads_;
  std::unordered_map<aggregator::TimerId, EventKey> timers_;
  SharedRound shared_;
  std::uint64_t next_seq_ = 1;
  Hash32 current_model_;
  std::uint64_t bytes_total_ = 0;

  SteadyTime started_{};  // of the process' clock, not virtual
  SteadyTime phase_started_{};
  std::map<int, std::uint32_t> first_attempt_codes_;
  std::string first_failure_;
  std::optional<RunEnd> end_;
};

}  // namespace skep::simulator
