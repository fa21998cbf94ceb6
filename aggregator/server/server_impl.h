// The parts of Server that its .cc files share. Nobody else includes this.
#pragma once

#include <deque>
#include <future>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "aggregator/engine/round_engine.h"
#include "aggregator/inspector.h"
#include "aggregator/server/certificate_service.h"
#include "aggregator/server/model_shelf.h"
#include "aggregator/server/network.h"
#include "aggregator/server/run_loader.h"
#include "aggregator/server/server.h"
#include "aggregator/server/server_session.h"
#include "aggregator/server/upload_body.h"
#include "aggregator/server/workshop.h"
#include "aggregator/store/partial_uploads.h"

namespace skep::aggregator {

class Server::Impl final : public NetworkUser, public SessionHost {
 public:
  explicit Impl(ServerSetup setup);
  ~Impl() override;

  // server_start.cc
  [[nodiscard]] Status Start();

  // server.cc: the loop and the engine's outputs.
  [[nodiscard]] int Wait();
  void Stop(StopKind kind);
  // Nobody waits for the network's thread any more: SKEP-5401, or why the server ended.
  void EndQuestions();

  // NetworkUser.
  LinkUser& OnDevice(Link& link, Visitor visitor) override;
  void OnEnrolment(const std::string& address, wire::EnrolRequest request, Answer answer) override;
  void OnAlarm() override;
  void OnSignal() override;
  bool IsCongested() override { return workshop_->IsCongested(); }

  // SessionHost (server_sessions.cc).
  Now Time() override { return ReadClock(); }
  void Tell(Input input) override;
  void Join(ServerSession& session, const Greet& greet) override;
  void FindPlan(ServerSession& session, const Hash32& plan) override;
  void FindModel(ServerSession& session, const aggregator::FindModel& wanted) override;
  void Offer(ServerSession& session, wire::UploadBegin begin) override;
  void TakeBody(ServerSession& session, aggregator::TakeBody body) override;
  void DropBody(UploadNumber upload) override;
  void Renew(ServerSession& session, Bytes csr) override;
  void Changed(ServerSession& session) override;
  void Ended(ServerSession& session, const Error& why) override;

  // How an operator's question is answered, once.
  template <class T>
  using Reply = std::function<void(Result<T>)>;

  // What is known of a run, over or not.
  struct RunInfo {
    std::shared_ptr<const RunSpec> spec;  // null: over, or not to be restored
    RunRow row;                           // as stored at the start, or as it began
    bool was_over = false;                // at the start of the server
    std::uint64_t order = 0;              // in which runs were started
    bool is_stored = true;                // false: its first transaction is on its way
    std::uint32_t changes = 0;            // of its state that are on their way to the store
    bool is_put_off = false;              // the store has not taken the latest; it is tried again
    std::vector<Reply<Done>> waiting;     // for those changes
    std::optional<std::uint32_t> rounds;  // of one that was over; read when first asked for
  };
  struct KnownDevice {
    DeviceState state = DeviceState::kActive;
    std::vector<Membership> memberships;
  };

  // server_control.cc: runs `ask` on the network's thread and waits. SKEP-5401 after the end, or
  // the error that ended the server.
  template <class T>
  [[nodiscard]] Result<T> Ask(std::function<Result<T>()> ask);
  // The same where the answer comes later, from that thread too.
  template <class T>
  [[nodiscard]] Result<T> AskLater(std::function<void(Reply<T>)> ask);
  [[nodiscard]] Result<RunStatus> FindStatus(const std::string& run);
  [[nodiscard]] std::vector<RunStatus> Statuses();
  [[nodiscard]] std::uint64_t OrderOf(const RunId& run) const;
  [[nodiscard]] StatusView MakeStatus() const;
  // What speaks against a start, as far as this server knows: `--dry-run` and a start ask both.
  [[nodiscard]] Status CheckLaunch(const RunSpec& spec, std::uint32_t unused_tokens) const;
  void Launch(PreparedRun run, const std::string& request_key, std::uint32_t unused_tokens,
              const Reply<StartedRun>& reply);
  // Answers once the run's row is stored; its error if it is not to be.
  void AnswerStored(const StartedRun& started, const Reply<StartedRun>& reply);
  [[nodiscard]] std::optional<StartedRun> FindStarted(const std::string& request_key) const;
  void Change(const std::string& run, ControlRun::Action action, const Reply<Done>& reply);
  // Answers once the run goes on no more and the store has it.
  void AnswerAtRest(const RunId& run, const Reply<Done>& reply);
  // Answers those who wait for the run's changes if none is on its way.
  void AnswerChanged(const RunId& run);
  // True if the run's first transaction was refused: then it never was.
  bool ForgetUnstored(const RunId& run, const Error& error);
  void TakeOver(const config::ServerConfig& next);
  // What a change is answered with that the engine goes on trying to write.
  [[nodiscard]] static Error PutOff(Error error);
  // A registry that failed for good ends the server, too.
  [[nodiscard]] Status Checked(Status status);
  // SKEP-2103: model or update is larger than this server takes.
  [[nodiscard]] Status CheckSizes(const StartedRun& run) const;
  [[nodiscard]] bool IsNameInUse(const std::string& name) const;
  [[nodiscard]] std::uint32_t ActiveDevices(const std::string& population) const;
  void CountPopulations(std::vector<PopulationView>& populations) const;

  // Constant after Start, or thread-safe.
  ServerSetup setup_;
  SqliteStore& store_;
  Log& log_;
  SteadyTime started_;
  wire::CountingBudget memory_;       // of all transfers
  wire::CountingBudget body_memory_;  // of bodies: leaves the decoders room to receive them
  BodyShelf bodies_;
  ModelShelf models_;
  std::string advertised_devices_;
  std::string advertised_enrol_;
  std::vector<ListenerView> listeners_;
  EvaluationMeans means_;

  // The network's thread only, from Run on.
  std::unordered_map<DeviceId, KnownDevice> devices_;
  std::map<RunId, RunInfo> runs_;
  std::map<AttemptKey, AttemptCounts> counts_;  // of ended attempts
  bool is_draining_ = false;

 private:
  // A body that is being received or checked.
  struct Incoming {
    SessionNumber session = 0;
    AttemptKey attempt;
    DeviceId device;
    wire::UploadBegin begin;
    std::shared_ptr<UploadBody> body;
    std::uint64_t kept = 0;   // bytes of it that are in the file of partial uploads
    bool is_loading = false;  // the thread for files has the body
    int cancelled = 0;        // meanwhile, with this code
  };
  struct Allowance {
    AttemptKey attempt;
    DeviceId device;
    friend auto operator<=>(const Allowance&, const Allowance&) = default;
  };

  // server_start.cc
  [[nodiscard]] Result<EngineSnapshot> Recover();
  [[nodiscard]] Status RestoreRuns(EngineSnapshot& snapshot);
  void RecoverPartials(WallMs now);
  [[nodiscard]] Status HaltStored(const RunRow& row, const Error& why);
  [[nodiscard]] Status OpenListeners();
  [[nodiscard]] Status Admit(const crypto::DeviceIdentity& identity) const;
  [[nodiscard]] EngineConfig MakeEngineConfig() const;
  [[nodiscard]] SessionRules MakeSessionRules() const;
  [[nodiscard]] NetworkRules MakeNetworkRules() const;
  [[nodiscard]] EnrolmentRules MakeEnrolmentRules() const;

  // server.cc
  void Execute(Outputs outputs);
  void Pump();
  void Do(aggregator::Send& send) {
    const SessionNumber session = send.session;
    ToSession(session, std::move(send));
  }
  void Do(Grant& grant) { ToSession(grant.session, grant); }
  void Do(AdmitUpload& admit);
  void Do(RefuseUpload& refuse) { ToSession(refuse.session, refuse); }
  void Do(CancelUpload& cancel);
  void Do(Disconnect& disconnect) { ToSession(disconnect.session, disconnect); }
  void Do(ArmTimer& arm);
  void Do(CancelTimer& cancel);
  void Do(StartJob& start);
  void BeginChange(const std::optional<RunId>& run);
  void EndChange(const std::optional<RunId>& run, const std::optional<Error>& error);
  void Do(RoundPublished&) {}  // AttemptEnded says it, with the counts
  void Do(EngineFailed& failed);
  void Do(Emit& emit);
  void ToSession(SessionNumber session, Output output);
  void FireEngineTimers(SteadyTime now);
  void FireSessions(SteadyTime now);
  void ReleaseQuarantines(const Now& now);
  void ArmAlarm();
  void BeginDrain();
  void EndDrain();
  void Fail(const Error& error);

  // server_uploads.cc
  [[nodiscard]] int RefusalOf(const AdmitUpload& admit, const DeviceId& device);
  [[nodiscard]] std::uint64_t KeptOf(const DeviceId& device, const AttemptKey& attempt) const;
  void LoadPartial(const AdmitUpload& admit);
  void OnPartialLoaded(AdmitUpload admit);
  void WritePartial(Incoming& incoming);
  void KeepPartial(UploadNumber upload);
  void ForgetPartial(const DeviceId& device);
  void ForgetPartials(const AttemptKey& attempt);
  void CheckBody(UploadNumber upload);
  void OnChecked(UploadNumber upload, const Inspection& inspection);

  // server_events.cc
  void OnEvent(const ClientOutcome& outcome);
  void OnEvent(const AttemptEnded& ended);
  void OnEvent(const CentralEvaluated& evaluated);
  void OnEvent(const SelectionOpened& opened);
  void OnEvent(const RunEnded& ended);
  void OnEvent(const DeviceStruck& struck);
  void OnEvent(const StoreWaiting& waiting);
  [[nodiscard]] std::string NameOf(const RunId& run) const;
  [[nodiscard]] std::string LoggedAddress(const std::string& address) const;

  // server_sessions.cc
  [[nodiscard]] ServerSession* FindSession(SessionNumber number);
  void NoteStoreFault(const Error& error);
  void OnCertificateJudged(SessionNumber number, const Status& judged, std::uint32_t minor);
  void OnEnrolled(const NewDevice& made);
  [[nodiscard]] bool TakeEnrolmentToken(const std::string& address);
  void Enlist(const DeviceId& device, DeviceState state);
  // A store that failed for good ends the server.
  void CheckStore(const Status& status);

  friend class Server;

  SessionRules session_rules_;
  std::unique_ptr<RoundEngine> engine_;
  std::deque<Output> pending_;
  bool is_pumping_ = false;
  std::unordered_map<SessionNumber, std::unique_ptr<ServerSession>> sessions_;
  SessionNumber next_session_ = 1;
  std::map<TimerId, SteadyTime> timers_;
  std::set<std::pair<SteadyTime, TimerId>> timers_by_time_;
  std::set<std::pair<SteadyTime, SessionNumber>> session_alarms_;
  std::map<DeviceId, SteadyTime> quarantines_;  // until
  std::optional<SteadyTime> armed_;
  std::optional<SteadyTime> drain_until_;
  std::unordered_map<UploadNumber, Incoming> incoming_;
  std::map<Allowance, std::uint64_t> allowances_;  // bytes announced
  std::map<DeviceId, PartialUploads::Kept> partials_kept_;
  std::map<Hash32, Bytes> plans_;
  std::deque<Hash32> plans_in_order_;
  std::unordered_map<std::string, std::deque<SteadyTime>> enrolments_;  // attempts by address
  std::uint32_t uploads_ = 0;
  std::uint32_t downloads_ = 0;
  std::optional<Error> outage_;  // why the store takes no writes for now
  bool has_failed_ = false;
  int exit_code_ = 0;

  std::mutex end_mutex_;  // guards has_ended_, its reason and the questions that wait
  bool has_ended_ = false;
  Error end_{5401, "the aggregator has ended", ""};
  std::uint64_t next_question_ = 1;
  std::map<std::uint64_t, std::function<void(const Error&)>> questions_;  // how to give up each

  // In the order in which they depend on each other: the workshop's threads end first.
  std::unique_ptr<CertificateService> certificates_;  // the store's thread only
  std::unique_ptr<Network> network_;
  PartialUploads partials_;  // the workshop's thread for files, from Run on
  std::unique_ptr<Workshop> workshop_;
  std::thread thread_;
};

template <class T>
Result<T> Server::Impl::AskLater(std::function<void(Reply<T>)> ask) {
  const auto promise = std::make_shared<std::promise<Result<T>>>();
  std::future<Result<T>> answer = promise->get_future();
  {
    const std::scoped_lock lock(end_mutex_);
    if (has_ended_) return Error(end_);
    const std::uint64_t question = next_question_++;
    questions_[question] = [promise](const Error& why) { promise->set_value(Error(why)); };
    const Reply<T> reply = [this, promise, question](Result<T> result) {
      {
        const std::scoped_lock answering(end_mutex_);
        if (questions_.erase(question) == 0) return;
      }
      promise->set_value(std::move(result));
    };
    network_->Post([ask = std::move(ask), reply] { ask(reply); });
  }
  return answer.get();
}

template <class T>
Result<T> Server::Impl::Ask(std::function<Result<T>()> ask) {
  return AskLater<T>([ask = std::move(ask)](const Reply<T>& reply) { reply(ask()); });
}

}  // namespace skep::aggregator
