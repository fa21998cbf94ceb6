// Host: the application around an Agent: its data, its training, the state of its device.
//
// The agent decides and moves bytes on a thread of its own; what only the application can do is
// asked here, always on the thread that runs the agent (Agent::Run), one call at a time. Source:
// Skep client library, sections 5 to 7.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/agent/conditions.h"
#include "client/session.h"
#include "client/trainer.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"
#include "shared/wire/plan.h"

namespace skep::agent {

// A task that was offered and may be accepted.
struct OfferedTask {
  wire::Manifest manifest;
  ClientNumber client = 0;
  std::shared_ptr<const wire::Plan> plan;
};

// What work on a task came to.
struct Worked {
  // Without id; errors are those of client::RunTask, and the application's own.
  Result<client::PendingUpdate> update = Error{7406, "not trained", ""};
  client::TrainReport report{};
  // The GPU that it was trained on, which cannot be used any more; whether no other will do.
  std::optional<Error> device_failure{};
  bool is_device_required = false;
};

class Host {
 public:
  virtual ~Host() = default;
  // The device now. Cheap: asked before connections, at offers, and once a second at work.
  [[nodiscard]] virtual Conditions Look() = 0;
  // How many examples there are for the task. SKEP-7402 none, 7404 too large for this device, 7414
  // the data do not suit the plan, 2219 nobody here can train it.
  [[nodiscard]] virtual Result<std::uint32_t> Count(const OfferedTask& task) = 0;
  // Trains or evaluates; passes `gate` before each batch and ends with its error.
  [[nodiscard]] virtual Worked Work(const client::StartTraining& task, client::BatchGate& gate) = 0;
  // Nothing is to be done for a while: memory may go back to the system.
  virtual void Rest() = 0;
};

}  // namespace skep::agent
