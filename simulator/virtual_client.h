// VirtualClient: one simulated client's turn = the real client Session with a device made of
// counter-based draws.
//
// Made when the engine offers a task and dropped when the turn is over, so that a population costs
// memory only for its partition. One thread (the simulation's); training happens elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/session.h"
#include "client/trainer.h"

namespace skep::simulator {

// What all clients of a round share, so that nobody decodes or copies it per client.
struct SharedRound {
  Hash32 plan_hash;
  std::shared_ptr<const wire::Plan> plan;
  client::Body model;
};

class VirtualClient final : public client::Device {
 public:
  struct Identity {
    ClientNumber number = 0;
    std::uint64_t run_seed = 0;
    std::uint32_t round = 0;
    std::uint32_t attempt = 0;
  };
  // `data` and `shared` must outlive the client.
  VirtualClient(const Identity& identity, const std::string& population,
                const client::LocalData& data, const SharedRound& shared);

  [[nodiscard]] client::Session& session() { return session_; }
  [[nodiscard]] const client::LocalData& data() const { return data_; }
  [[nodiscard]] ClientNumber number() const { return identity_.number; }

  [[nodiscard]] Status Verify(const wire::SignedManifest& manifest) override;
  [[nodiscard]] Result<std::uint32_t> CountExamples(const wire::Plan& plan,
                                                    wire::TaskKind kind) override;
  [[nodiscard]] UpdateId NewUpdateId() override;
  [[nodiscard]] double Uniform() override;
  [[nodiscard]] std::shared_ptr<const wire::Plan> CachedPlan(const Hash32& sha256) override;
  void KeepPlan(const Hash32& sha256, std::shared_ptr<const wire::Plan> plan) override;
  [[nodiscard]] std::optional<client::Body> CachedModel(const Hash32& sha256) override;

 private:
  Identity identity_;
  const client::LocalData& data_;
  const SharedRound& shared_;
  std::uint32_t pacing_draws_ = 0;
  client::Session session_;
};

}  // namespace skep::simulator
