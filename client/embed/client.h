// Client: one enrolled device of an application: its folder, its runs, its own thread if it asked
// for one.
//
// Behind the handle of skep/skep.h, which says what may be called when and from where. What the
// application calls at the same time (Cancel, the JSON texts) is guarded by one mutex, which is
// never held during a callback. Source: Skep client library, sections 2 to 5.
#pragma once

#include <skep/skep.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "client/agent/agent.h"
#include "client/agent/identity.h"
#include "client/agent/loop.h"
#include "client/agent/state.h"
#include "client/agent/storage.h"
#include "client/embed/app_host.h"
#include "client/embed/options.h"
#include "shared/base/log.h"
#include "shared/base/result.h"

namespace skep::embed {

class Client {
 public:
  // Takes the folder. Errors as skep_client_new says.
  [[nodiscard]] static Result<std::unique_ptr<Client>> Open(Options options,
                                                            const skep_data_source& data,
                                                            const skep_trainer* trainer);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // SKEP_E_BUSY, SKEP_E_ARGUMENT (forgotten) or SKEP_OK.
  skep_status SetDeviceState(Hook<skep_state_fn> hook);
  skep_status SetProgress(Hook<skep_progress_fn> hook);
  skep_status SetOutcome(Hook<skep_outcome_fn> hook);
  skep_status SetLog(Hook<skep_log_fn> hook);

  [[nodiscard]] skep_outcome Enrol(const std::string& name);
  [[nodiscard]] skep_outcome RunOnce(std::uint32_t budget_s);
  skep_status Start();
  void Stop();
  void Cancel();
  [[nodiscard]] skep_outcome Forget();

  // Nothing once it has been forgotten.
  [[nodiscard]] std::optional<std::string> Status() const;
  [[nodiscard]] std::optional<std::string> History() const;

 private:
  // The connection of a run, kept until the next one: a name may still be looked up.
  struct Connection {
    agent::Loop loop;
    std::unique_ptr<agent::Agent> agent;
  };

  Client(Options options, agent::Storage storage, const skep_data_source& data,
         const skep_trainer* trainer);
  [[nodiscard]] skep::Status Load();

  // What may go on at a time. Begin: SKEP-7004 or 4002 where it may not.
  enum class Activity { kNone, kRunning, kStarted };
  [[nodiscard]] skep::Status Begin(Activity activity);
  [[nodiscard]] skep::Status CheckIdle() const;  // with the mutex held
  void End(const skep_outcome& outcome);
  template <class F>
  skep_status SetHook(Hook<F>& slot, Hook<F> hook);

  template <class F>
  [[nodiscard]] auto WithMemory(F&& work) -> decltype(work());
  [[nodiscard]] Result<agent::Outcome> Run(bool once, std::uint32_t budget_s);
  [[nodiscard]] Result<agent::Outcome> RunHere(bool once, std::uint32_t budget_s);
  [[nodiscard]] Result<agent::AgentSettings> SettingsOf(bool once, std::uint32_t budget_s);
  [[nodiscard]] skep::Status Join(const std::string& name);
  [[nodiscard]] std::optional<agent::Outcome> TooSoon() const;
  void RunOnAndOn();
  [[nodiscard]] bool RestsFor(std::uint32_t seconds);

  void WriteLine(LogLevel level, const std::string& line);
  void TellProgress(const agent::AgentProgress& progress);
  void TellTraining(const skep_task& task, double fraction, double loss);
  void TellOutcome(const skep_outcome& outcome);

  Options options_;
  agent::Storage storage_;
  std::optional<agent::Identity> identity_;
  agent::State state_;
  Log log_;
  AppHost host_;
  Hook<skep_progress_fn> on_progress_;
  Hook<skep_outcome_fn> on_outcome_;
  Hook<skep_log_fn> on_log_;
  SteadyTime told_at_{};  // of the last progress of training
  std::unique_ptr<Connection> connection_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  Activity activity_ = Activity::kNone;
  bool is_cancelled_ = false;
  bool is_stopping_ = false;
  bool is_forgotten_ = false;
  agent::Agent* agent_ = nullptr;     // that is at work
  agent::Loop* enrolling_ = nullptr;  // likewise
  std::optional<skep_outcome> last_;
  std::thread thread_;
};

}  // namespace skep::embed
