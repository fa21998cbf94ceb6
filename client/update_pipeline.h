// The client's half of an update's way: from trained parameters to the bytes that are sent.
//
// Called on the worker thread that trained. Both sides build the list of stages from the same plan;
// in this version it is the difference and the plain float encoding. Pure functions. Source: Skep
// protocol 1.0, section 9.1.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/example_source.h"
#include "client/session.h"
#include "client/trainer.h"

namespace skep::client {

// Runs the task that a StartTraining describes and makes its update (or its evaluation report):
// trained - received as encoding 1, weight, metrics in the plan's numbering; private tensors are
// put in before and taken out after. `scratch` is the worker's copy of the parameters, reused
// between tasks. SKEP-7413 more examples than the manifest's max_weight; 7406 private tensors that
// are not finite; errors of the trainer pass through.
[[nodiscard]] Result<PendingUpdate> RunTask(const StartTraining& task, const LocalData& data,
                                            Trainer& trainer, model::FloatVector& scratch,
                                            BatchGate* gate, TrainReport* report);

// The same on what `source` gives: its held-out examples where the task is to evaluate.
[[nodiscard]] Result<PendingUpdate> RunTaskFrom(const StartTraining& task, ExampleSource& source,
                                                Trainer& trainer, model::FloatVector& scratch,
                                                BatchGate* gate, TrainReport* report);

// Metrics by name. Those that the plan does not list, and values that are not finite, stay here.
using NamedMetrics = std::vector<std::pair<std::string, double>>;

// The parts of RunTask, for work that others do or that several tasks share. The model as received,
// with the client's private tensors; 2218.
[[nodiscard]] Status ReadModel(const StartTraining& task, std::span<float> params);
// `trained` becomes the difference to `received`. Errors of RunTask.
[[nodiscard]] Result<PendingUpdate> MakeUpdate(const StartTraining& task, const TrainReport& report,
                                               std::span<const float> received,
                                               std::span<float> trained);
// The report of an evaluation. SKEP-7413.
[[nodiscard]] Result<PendingUpdate> MakeEvaluation(const StartTraining& task,
                                                   std::uint32_t examples);
void AddMetrics(const StartTraining& task, const NamedMetrics& metrics, PendingUpdate& update);

}  // namespace skep::client
