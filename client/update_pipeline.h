// The client's half of an update's way: from trained parameters to the bytes that are sent.
//
// Called on the worker thread that trained. Both sides build the list of stages from the same plan;
// in this version it is the difference and the plain float encoding. Pure functions. Source: Skep
// protocol 1.0, section 9.1.
#pragma once

#include <span>

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

// The two halves of RunTask for a training that several tasks share. The model as received, with
// the client's private tensors; 2218.
[[nodiscard]] Status ReadModel(const StartTraining& task, std::span<float> params);
// `trained` becomes the difference to `received`. Errors of RunTask.
[[nodiscard]] Result<PendingUpdate> MakeUpdate(const StartTraining& task, const TrainReport& report,
                                               std::span<const float> received,
                                               std::span<float> trained);

}  // namespace skep::client
