// AgentDevice: what a Session asks of a real device: keys, data, and unpredictable numbers.
//
// Keeps the last plan and the last model while they are of use, and finds earlier ones on disk.
// What the application knows takes long to find out, so it is put here before the session asks
// (agent.h). The agent's thread. Source: Skep protocol 1.0, section 6.2.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "client/agent/blob_cache.h"
#include "client/agent/identity.h"
#include "client/session.h"

namespace skep::agent {

class AgentDevice final : public client::Device {
 public:
  // `identity` and `cache` outlive the device; `clock` tells the wall time.
  AgentDevice(const Identity& identity, BlobCache& cache, std::function<WallMs()> clock)
      : identity_(identity), cache_(cache), clock_(std::move(clock)) {}

  // How many examples there are for the task that is offered; or why there are none.
  void Give(Result<std::uint32_t> examples) { examples_ = std::move(examples); }
  // Why the next task is not to be worked on (7401, 7408, 7409), or nothing.
  void Refuse(std::optional<Error> why) { refusal_ = std::move(why); }
  void Keep(client::Body model) { model_ = std::move(model); }
  // Before a long rest.
  void ForgetAll();

  [[nodiscard]] Status Verify(const wire::SignedManifest& manifest) override;
  [[nodiscard]] Result<std::uint32_t> CountExamples(const wire::Plan& plan,
                                                    wire::TaskKind kind) override;
  [[nodiscard]] UpdateId NewUpdateId() override;
  [[nodiscard]] double Uniform() override;
  [[nodiscard]] std::shared_ptr<const wire::Plan> CachedPlan(const Hash32& sha256) override;
  void KeepPlan(const Hash32& sha256, std::shared_ptr<const wire::Plan> plan) override;
  [[nodiscard]] std::optional<client::Body> CachedModel(const Hash32& sha256) override;
  [[nodiscard]] std::uint64_t HeldOf(const Hash32& model) override { return cache_.Held(model); }
  void DropHeld(const Hash32&) override { cache_.DropParts(); }

 private:
  const Identity& identity_;
  BlobCache& cache_;
  std::function<WallMs()> clock_;
  Result<std::uint32_t> examples_ = Error{7402, "nobody was asked", ""};
  std::optional<Error> refusal_;
  std::optional<client::Body> model_;
  Hash32 plan_hash_;
  std::shared_ptr<const wire::Plan> plan_;
};

}  // namespace skep::agent
