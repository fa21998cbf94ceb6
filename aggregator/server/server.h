// Server: a running aggregator: listeners, sessions, the round engine and its jobs, over one store.
//
// It drives the same engine as the simulator; what they do differently is transport and clock. One
// network thread has all state; work that waits or computes is done on others. Configuration files,
// keys and the store are read and judged by the caller, who also answers for signals where asked
// to. Source: Skep protocol 1.0, sections 18 and 19; docs/operations.md.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "aggregator/server/control.h"
#include "aggregator/store/sqlite_store.h"
#include "crypto/pki/authority.h"
#include "crypto/signature.h"
#include "kernels/backend.h"
#include "shared/base/log.h"
#include "shared/config/server_config.h"

namespace skep::aggregator {

struct ServerSetup {
  config::ServerConfig config;
  std::unique_ptr<SqliteStore> store;
  crypto::Certificate certificate;
  crypto::PrivateKey key;
  crypto::Certificate server_ca;
  crypto::Certificate device_ca;
  std::optional<crypto::Authority> device_authority;  // none: nobody can enrol
  crypto::SigningKey signing_key;
  std::vector<Error> warnings;  // of the inspection; shown by status
  kernels::Isa isa = kernels::Isa::kPortable;
  bool handles_signals = false;  // SIGTERM and SIGINT drain, a second one stops at once
  Log* log = nullptr;            // outlives the server
};

class Server final : public Control {
 public:
  // Recovers what the store holds, then listens: devices are answered on return. Errors of the
  // store and of listeners: SKEP-40xx, 5201, 5202, 5209.
  [[nodiscard]] static Result<std::unique_ptr<Server>> Start(ServerSetup setup);
  // Ends at once what still runs. Nothing that was acknowledged is lost.
  ~Server() override;

  // Until it has ended: 0 after a stop, 70 after a failed sync (SKEP-4005), 5 when the
  // store is damaged (SKEP-4006 to 4008), 1 otherwise. From one thread.
  [[nodiscard]] int Wait();

  enum class StopKind { kDrain, kNow };
  // Draining: no new connections and rounds; what is on its way may arrive within service.drain.
  void Stop(StopKind kind);

  // Takes over the keys that the schema calls reloadable, for sessions that are open too. The file
  // has been checked as a whole.
  [[nodiscard]] Status Reload(const config::ServerConfig& next);

  // Control.
  [[nodiscard]] Result<StatusView> GetStatus() override;
  [[nodiscard]] Status CreatePopulation(const std::string& name) override;
  [[nodiscard]] Result<std::vector<PopulationView>> Populations() override;
  [[nodiscard]] Result<std::vector<std::string>> CreateTokens(const std::string& population,
                                                              std::uint32_t count,
                                                              Nanoseconds lifetime) override;
  [[nodiscard]] Result<std::vector<TokenRow>> Tokens(const std::string& population) override;
  [[nodiscard]] Result<std::vector<DeviceView>> Devices() override;
  [[nodiscard]] Status ChangeDevice(const DeviceId& device, DeviceState state,
                                    const std::string& why) override;
  [[nodiscard]] config::Validated<StartedRun> StartRun(const StartRequest& request) override;
  [[nodiscard]] Result<std::vector<RunStatus>> Runs(bool all) override;
  [[nodiscard]] Result<RunDetail> FindRun(const std::string& run) override;
  [[nodiscard]] Status ChangeRun(const std::string& run, ControlRun::Action action) override;
  [[nodiscard]] Result<PublishedModel> Model(const std::string& run,
                                             std::optional<std::uint32_t> round) override;

 private:
  [[nodiscard]] Result<std::uint32_t> UnusedTokens(const std::string& population);

  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace skep::aggregator
