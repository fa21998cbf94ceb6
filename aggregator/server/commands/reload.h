// Reload: SIGHUP, or what a running aggregator takes over of a server.toml that has changed.
//
// All or nothing: a file with any error, or beside keys that do not fit, leaves every value as it
// was, and the log has the errors that `check` prints. Keys that cannot change while the aggregator
// runs are named in the log; the reference says which can. Source: docs/operations.md.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "aggregator/server/commands/console.h"
#include "aggregator/server/server.h"
#include "shared/base/log.h"
#include "shared/config/effective.h"

namespace skep::aggregator {

class Reload {
 public:
  // From here on SIGHUP waits; construct it before any thread is started. `log` outlives it.
  Reload(const GlobalOptions& options, config::Effective current, Log& log);
  // Ends its thread; the server must still be there.
  ~Reload();
  Reload(const Reload&) = delete;
  Reload& operator=(const Reload&) = delete;

  // Answers every SIGHUP from now on, and one that came before.
  void Begin(Server& server);

 private:
  void Wait();
  void Again();
  void Reject(int code, const std::string& message);
  // Both lists end up in the log; the running values are noted.
  void TakeOver(const config::Effective& next, std::string& taken, std::string& restart);

  const GlobalOptions& options_;
  config::Effective current_;  // as the server runs
  Log& log_;
  Server* server_ = nullptr;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace skep::aggregator
