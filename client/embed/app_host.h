// AppHost: the application of an embedded client, behind the callbacks that it gave.
//
// One call at a time, on the application's thread. Whatever a callback does, an error with a number
// comes of it; what it throws ends here. Source: Skep client library, sections 5 to 7.
#pragma once

#include <skep/skep.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/agent/host.h"
#include "client/agent/local_trainer.h"
#include "client/embed/options.h"
#include "client/embed/task.h"
#include "shared/base/log.h"
#include "shared/model/params.h"

namespace skep::embed {

template <class F>
struct Hook {
  F fn = nullptr;
  void* user = nullptr;
};

class AppHost final : public agent::Host {
 public:
  // `options` and `log` outlive it; so does what `data` and `trainer` point to.
  AppHost(const Options& options, const skep_data_source& data, const skep_trainer* trainer,
          Log& log);

  // Where the built-in trainer works: opened at the first run. SKEP-72xx.
  [[nodiscard]] Status ChooseDevice();
  void UseDevice(agent::TrainingDevice device) {
    built_in_.emplace(std::move(device), options_.isa);
  }

  // Between runs.
  void OnDeviceState(Hook<skep_state_fn> hook) { on_state_ = hook; }
  // Told about training: share of the work, and the loss or NaN.
  void OnTraining(std::function<void(const skep_task&, double fraction, double loss)> told) {
    on_training_ = std::move(told);
  }

  [[nodiscard]] agent::Conditions Look() override;
  [[nodiscard]] Result<std::uint32_t> Count(const agent::OfferedTask& task) override;
  [[nodiscard]] agent::Worked Work(const client::StartTraining& task,
                                   client::BatchGate& gate) override;
  void Rest() override;

 private:
  [[nodiscard]] agent::Conditions AskForState();
  [[nodiscard]] Result<std::size_t> CountRows(const skep_task& task);
  [[nodiscard]] Status CheckPolicy(const wire::Manifest& manifest) const;
  [[nodiscard]] Status CheckAbility(const agent::OfferedTask& task,
                                    const client::TrainingPlan& plan, std::size_t rows) const;
  void WorkBuiltIn(const client::StartTraining& start, skep_task& task, AppSource& source,
                   agent::Worked& worked);
  void WorkOwn(const client::StartTraining& start, skep_task& task, agent::Worked& worked);
  [[nodiscard]] Result<client::PendingUpdate> TrainOwn(const client::StartTraining& start,
                                                       skep_task& task, agent::Worked& worked);
  void TellFailure(const skep_task& task);

  const Options& options_;
  skep_data_source data_;
  std::optional<skep_trainer> trainer_;
  Log& log_;
  Hook<skep_state_fn> on_state_;
  std::function<void(const skep_task&, double, double)> on_training_;
  std::optional<agent::Conditions> seen_;  // at
  SteadyTime seen_at_{};
  std::optional<agent::LocalTrainer> built_in_;
  model::FloatVector scratch_;
};

}  // namespace skep::embed
