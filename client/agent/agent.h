// Agent: drives one Session over a real connection, for a real application, on a real disk.
//
// A thread of its own moves frames, timers and the session; the thread that calls Run does what
// only the application can (host.h), stores the finished update, and tells what is new. Nothing is
// decided here that the session decides; what is here is what it leaves to its driver: connecting,
// chunks, silence, storage, eligibility and caps, and what people are told. One Agent at a time for
// a storage folder.
// Source: Skep protocol 1.0, sections 6.2, 8 and 13; Skep client library, sections 6 to 8.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/agent/blob_cache.h"
#include "client/agent/caller.h"
#include "client/agent/device.h"
#include "client/agent/history.h"
#include "client/agent/host.h"
#include "client/agent/identity.h"
#include "client/agent/loop.h"
#include "client/agent/reach.h"
#include "client/agent/state.h"
#include "client/agent/storage.h"
#include "client/agent/task_gate.h"
#include "client/session.h"
#include "client/trainer.h"
#include "shared/base/log.h"
#include "shared/base/sha256.h"
#include "shared/wire/chunk.h"

namespace skep::agent {

// What this device gives at most. Source: Skep client library, section 7 (caps).
struct Caps {
  double cpu = 0.7;           // share of a core
  std::uint64_t memory = 0;   // bytes, of a run
  std::uint64_t storage = 0;  // bytes, of the storage folder
  std::uint64_t bytes_per_day = 0;
  Nanoseconds per_run{};       // of a task; 0: as long as the task allows
  Nanoseconds between_runs{};  // after a contribution
};

// How far it is.
struct AgentProgress {
  client::SessionState state{};
  wire::TaskRef task;  // round 0: there is none yet
  std::uint64_t bytes_down = 0;
  std::uint64_t bytes_up = 0;
  double fraction = -1;  // of this state; -1: unknown
};

// What a run came to, or, without `once`, a check-in of it.
struct Outcome {
  int code = 0;  // SKEP-nnnn, or 0
  std::string why{};
  bool is_late = false;          // with `once`: the budget ended before the work did
  bool was_cancelled = false;    // by Cancel
  bool has_contributed = false;  // the aggregator has stored it
  bool was_refused = false;      // an update, by the aggregator
  std::uint64_t round = 0;       // of the task; 0: there was none
  std::uint64_t examples = 0;
  std::uint64_t bytes_down = 0;
  std::uint64_t bytes_up = 0;
  Nanoseconds retry_after{};  // as the aggregator, or the back-off, says
};

struct AgentSettings {
  std::string software;    // "skep-client 0.1.0"
  std::string population;  // one of the identity's
  net::Endpoint endpoint;
  std::optional<net::Endpoint> proxy;  // an HTTP proxy to go through
  LinkLimits limits;
  Eligibility eligibility;
  Caps caps;
  bool once = false;
  std::optional<Nanoseconds> budget;
  // Both on the thread of Run; may be empty. Without `once`, `on_outcome` hears of each check-in.
  std::function<void(const AgentProgress&)> on_progress;
  std::function<void(const Outcome&)> on_outcome;
};

class Agent final : public LinkEvents {
 public:
  // All but the settings outlive the agent. `state` is saved as it changes. `log` writes on the
  // agent's own thread: hand its lines over by Tell.
  Agent(AgentSettings settings, Storage& storage, Identity& identity, State& state, Loop& loop,
        Host& host, Log& log);
  ~Agent() override;

  // Until the session is finished, Cancel, or the end of the budget. Call once. A name that is
  // being looked up then goes on being so: the destructor waits for it. SKEP-9001: the system has
  // no thread to give.
  [[nodiscard]] Outcome Run();
  // From any thread, until Run has returned.
  void Cancel();
  // Has `news` told on the thread of Run. From any thread.
  void Tell(std::function<void()> news) { caller_.Tell(std::move(news)); }

  // What it waits for, in words.
  [[nodiscard]] std::string WaitingFor() const { return session_->WaitingFor(); }

 private:
  // A model on its way.
  struct Download {
    std::uint32_t transfer_id = 0;
    wire::ChunkReceiver receiver;
    Bytes bytes;
    Sha256 hash;
    Hash32 model;
    std::size_t kept = 0;  // bytes of it that are in the file of its part
    SteadyTime told{};
  };
  // A task in the application's hands.
  struct Job {
    client::StartTraining task;
    TaskGate gate;
    std::vector<RunId> known_runs;  // whose private tensors are kept
  };
  // What is told about it once the aggregator has it.
  struct Effort {
    wire::TaskRef task;
    client::TrainReport report;
    double seconds = 0;
    std::size_t bytes = 0;  // of the update
  };
  struct Trained {
    Effort effort;
    Worked worked;
    std::vector<std::string> damaged;  // files that were removed
  };
  // What the host said of a message of the aggregator, before the session sees it.
  struct Answer {
    std::uint64_t question = 0;
    Conditions conditions;
    std::optional<Result<std::uint32_t>> examples;  // if it was asked for them
  };

  // agent.cc: the life of the connection.
  void RunLoop();
  [[nodiscard]] bool RunCaller();
  void Begin();
  void Connect();
  void ConnectIn(const Conditions& conditions);
  [[nodiscard]] Status CheckBeforeConnecting(const Conditions& conditions) const;
  void OnOpen() override;
  void OnMessage(wire::Message message) override;
  void Take(wire::Message message);
  [[nodiscard]] Status OnChunk(BytesView payload) override;
  void OnBodySent(std::uint32_t transfer_id) override;
  void OnClosed(const Error& why) override;
  void OnHello(const wire::HelloAck& ack);
  void OnFirst(const wire::Message& message);
  [[nodiscard]] Status MakeTls();
  void Renew(bool is_asked);
  void OnRenewed(const wire::RenewResult& issued);
  [[nodiscard]] bool IsAboutRenewal(const wire::Message& message);
  void CutOff(const Error& why);
  void Postpone(const Error& why);
  [[nodiscard]] Nanoseconds RestAfter(const Error& why) const;
  void Conclude(int code, std::string why);
  [[nodiscard]] Outcome TakeOutcome(int code, std::string why, Nanoseconds retry_after);
  void DropUnwanted(std::uint32_t transfer_id);
  void KeepDownload();
  void FinishDownload();

  // agent_outputs.cc: what the session wants done.
  void Feed(client::Input input);
  void Execute(client::Outputs outputs);
  void Do(client::Send& send);
  void Do(client::SendBody& body);
  void Do(client::ReceiveBody& body);
  void Do(client::StartTraining& task);
  void Do(client::StopTraining&);
  void Do(client::ArmTimer& timer);
  void Do(client::Persist& persist);
  void Do(client::Reconnect& reconnect);
  void Do(client::Note& note);
  void Do(client::Finished& finished);
  void CountTraffic();
  void Save();
  void SaveNow();
  void Report(const client::Note& note);
  [[nodiscard]] std::string ContributionText(const wire::TaskRef& task,
                                             const std::string& before) const;
  void TellContribution(std::optional<Nanoseconds> next);
  void TellProgress(double fraction = -1);
  void TellOutcome(int code, std::string why, Nanoseconds retry_after);
  [[nodiscard]] bool GivesUp(Nanoseconds next);
  void Rest();

  // agent_task.cc: what the application is asked, and does.
  void Look(std::function<void(const Conditions&)> then);
  void Watch();
  void Leave(const Error& why);
  [[nodiscard]] bool AsksHost(const wire::Message& message);
  void Ask(OfferedTask task);
  void OnAnswer(const Answer& answer);
  [[nodiscard]] std::optional<Error> Refusal(const wire::Manifest& manifest,
                                             const Conditions& conditions);
  [[nodiscard]] Trained Work(Job& job);
  [[nodiscard]] Status FetchPrivate(Job& job, std::vector<std::string>& damaged);
  [[nodiscard]] Status StoreWork(const Job& job, const client::PendingUpdate& update);
  void OnTrained(Trained trained);
  void OnDeviceFailed(const Error& failure, bool is_required);

  AgentSettings settings_;
  Storage& storage_;
  Identity& identity_;
  State& state_;
  Loop& loop_;
  Host& host_;
  Log& log_;
  Caller caller_;
  BlobCache cache_;
  AgentDevice device_;
  net::TlsContext::Shared tls_;
  std::optional<client::Session> session_;
  std::uint64_t saved_revision_ = 0;
  std::deque<client::Input> inputs_;
  bool is_stepping_ = false;

  std::unique_ptr<Link> link_;
  bool is_attached_ = false;           // HelloAck came on this link
  bool was_attached_ = false;          // on some link of this process
  std::optional<Error> last_failure_;  // of the link that just ended
  std::uint32_t failed_in_a_row_ = 0;
  Reach reach_;
  std::optional<Download> download_;
  std::set<std::uint32_t> unwanted_;  // downloads of this link that nobody waits for
  wire::HelloAck ack_;

  std::shared_ptr<Job> job_;
  OfferedTask offered_;             // the last one, without its plan
  std::uint64_t question_ = 0;      // the last one to the host
  std::deque<wire::Message> held_;  // first the one that the host is asked about
  bool is_watching_ = false;
  std::optional<UpdateId> kept_;  // stored, and taken over by the session
  std::optional<Effort> last_effort_;
  std::optional<wire::TaskRef> contributed_;  // in this step: told with what follows it
  std::string contribution_text_;             // for the outcome that has it
  Link::Traffic since_entry_;                 // bytes since the last line of the history
  client::SessionState told_state_{};         // of the last progress
  WallMs last_work_ = 0;
  int last_trouble_ = 0;  // how the last task ended, 0: well
  std::string last_trouble_text_;
  WallMs renews_at_ = 0;
  std::optional<SteadyTime> deadline_;

  std::optional<Error> broken_device_;  // that was required: why this process ends
  std::optional<Outcome> outcome_;
  Outcome so_far_;  // what it has come to until now
  bool is_late_ = false;
  bool was_cancelled_ = false;
  std::atomic<bool> is_short_of_memory_{false};  // on the application's thread
  std::thread network_;                          // last: it uses all of the above
};

}  // namespace skep::agent
