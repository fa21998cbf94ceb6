// DeviceTrainer: local work on a device (kernels/cuda), one client or many at once.
//
// Every client is a lane of one network in the device's memory; all lanes step together, and a
// client with fewer batches rests at the end. Batches, shuffles and step keys are those of the
// built-in trainer, so that the two agree but for rounding. What a client
// gives does not depend on who trains beside it, nor on how many. A data set goes to the device
// once and stays until another one comes. Held-out rows are evaluated by the built-in trainer on
// the CPU: a single pass over few rows is over before they would be on a device.
//
// A call of the device that fails ends all tasks of the call (SKEP-7406, with the device's own
// number and text): their parameters are worth nothing. `failure` then says what happened; whether
// to go on elsewhere is the caller's to decide.
//
// Called like any Trainer, by the agent with one lane and by the simulator with many. One thread at
// a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/batches.h"
#include "client/trainer.h"
#include "kernels/cuda/device_api.h"
#include "kernels/cuda/lane_data.h"
#include "kernels/cuda/lane_network.h"

namespace skep::client {

// The share of a device's free memory that is taken where nobody says how much.
inline constexpr double kShareOfDeviceMemory = 0.8;

// SKEP-7202, 7203.
[[nodiscard]] Result<std::uint64_t> DeviceBudget(kernels::DeviceApi& device);

struct LaneNeeds {
  const data::Dataset& dataset;
  std::size_t most_rows = 0;   // of one client
  std::uint32_t clients = 1;   // to be trained together, if they fit
  std::uint64_t budget_bytes;  // of the device, for everything
};
struct LanePlan {
  std::uint32_t lanes = 0;
  std::uint64_t bytes = 0;  // of the device, the data set included
};
// As many lanes as fit, but no more than are needed to train the clients in that number of groups.
// SKEP-1401 if the data and a single lane do not fit.
[[nodiscard]] Result<LanePlan> PlanLanes(const TrainingPlan& plan, const LaneNeeds& needs);

struct DeviceTrainerSetup {
  std::shared_ptr<kernels::DeviceApi> device{};
  std::uint64_t budget_bytes = 0;
  std::uint32_t clients = 1;  // at once, if they fit
  // Rows of the largest client there is: what a lane holds must not follow from who trains beside
  // it. 0: the only client's own.
  std::size_t most_rows = 0;
  kernels::Isa isa = kernels::Isa::kPortable;  // of evaluation
};

struct LaneTask {
  TaskIdentity task;
  const LocalData* data = nullptr;
  std::span<float> params;  // trained in place
  // Ends of epochs that lie in order in the data set (Batches::BeginListed); empty: data->train is
  // shuffled.
  std::span<const std::uint32_t> ends{};
};

class DeviceTrainer final : public Trainer {
 public:
  explicit DeviceTrainer(DeviceTrainerSetup setup);
  ~DeviceTrainer() override;

  Result<TrainReport> Train(const TrainingPlan& plan, const TaskIdentity& task,
                            const LocalData& data, std::span<float> params,
                            BatchGate* gate) override;
  Result<EvaluationReport> Evaluate(const TrainingPlan& plan, const LocalData& data,
                                    std::span<const float> params, BatchGate* gate) override;
  // What `source` gives for all epochs goes to memory first, then to the device.
  Result<TrainReport> TrainFrom(const TrainingPlan& plan, const TaskIdentity& task,
                                ExampleSource& source, std::span<float> params,
                                BatchGate* gate) override;
  Result<EvaluationReport> EvaluateFrom(const TrainingPlan& plan, const TaskIdentity& task,
                                        ExampleSource& source, std::span<const float> params,
                                        BatchGate* gate) override;
  // Trains all of them, as many at once as there are lanes; a result a task, errors as Train's. All
  // have the same data set.
  [[nodiscard]] std::vector<Result<TrainReport>> TrainMany(const TrainingPlan& plan,
                                                           std::span<const LaneTask> tasks,
                                                           BatchGate* gate);

  // What the device failed with, if it did.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }

 private:
  struct Lane;
  // What network_ was made for.
  struct Made {
    std::vector<std::uint32_t> input;
    std::vector<std::string> lines;
    kernels::LossKind loss;
    kernels::OptimiserStep step;
    std::size_t rows;
  };

  [[nodiscard]] bool Fits(const TrainingPlan& plan, std::size_t rows) const;
  [[nodiscard]] Status Prepare(const TrainingPlan& plan,
                               const std::shared_ptr<const data::Dataset>& dataset,
                               std::size_t most_rows);
  [[nodiscard]] Status Upload(std::shared_ptr<const data::Dataset> dataset);
  [[nodiscard]] Status CheckRow(const TrainingPlan& plan, std::uint32_t row);
  void FillPiece(const TrainingPlan& plan, std::span<Lane> lanes, std::uint32_t steps);
  [[nodiscard]] Status TrainPieces(const TrainingPlan& plan, std::span<Lane> lanes,
                                   BatchGate* gate);
  [[nodiscard]] Status RunLanes(const TrainingPlan& plan, std::span<Lane> lanes, BatchGate* gate);
  [[nodiscard]] Status TrainAll(const TrainingPlan& plan, std::span<Lane> lanes, BatchGate* gate);
  [[nodiscard]] Error Explain(const Error& error);
  void LetGo();

  DeviceTrainerSetup setup_;
  std::unique_ptr<Trainer> evaluator_;
  std::optional<Error> failure_;

  std::optional<Made> made_;
  std::unique_ptr<kernels::LaneNetwork> network_;
  std::shared_ptr<const data::Dataset> dataset_;  // that data_ was made of
  std::unique_ptr<kernels::Arena> arena_;         // of data_
  std::optional<kernels::LaneData> data_;
  std::vector<bool> checked_;  // rows that suit the model

  std::vector<Batches> batches_;  // one a lane, kept for their memory
  std::vector<std::uint32_t> order_;
  std::vector<std::uint64_t> keys_;
  std::vector<double> losses_;  // a copy may be under way here until the network is let go
  std::vector<float> x_;        // of a row that is checked
  std::vector<std::int32_t> y_;
};

}  // namespace skep::client
