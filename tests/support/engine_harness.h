// EngineHarness: a RoundEngine in memory with a real store, real sums and scripted clients.
//
// Does what a driver does, at once and in one thread: jobs run inline, timers fire when the test
// moves the clock, clients answer by script. Work of clients waits in a list from which it is taken
// in order or by a seeded draw, so that arrival orders can be tried. For tests only.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/engine/job_runner.h"
#include "aggregator/engine/round_engine.h"
#include "aggregator/store/memory_store.h"
#include "shared/base/rng.h"

namespace skep::test {

using namespace skep::aggregator;

// A run over the softmax model 3 -> 2 (8 values): small enough to reason about.
struct RunOptions {
  std::uint32_t rounds = 3;
  std::uint32_t clients_per_round = 8;
  std::uint32_t invited = 0;      // 0: clients_per_round
  std::uint32_t min_reports = 0;  // 0: half of clients_per_round
  std::uint32_t max_attempts = 3;
  Weighting weighting = Weighting::kExamples;
  std::uint64_t seed = 42;
  bool has_test_data = false;
  std::uint32_t eval_every = 1;
  std::uint32_t client_eval_every = 0;
  std::uint32_t client_eval_clients = 200;
  StopRules stop{};
  Nanoseconds min_separation{};
  double max_norm = 100;
  std::vector<double> learning_rates{};
};
[[nodiscard]] std::shared_ptr<const RunSpec> SmallRun(const RunOptions& options);
[[nodiscard]] model::Params SmallModel();
[[nodiscard]] EngineConfig SmallConfig();
[[nodiscard]] DeviceId DeviceOf(ClientNumber client);

// What a client does with its next task.
enum class Script {
  kTrain,    // accepts, trains, uploads
  kDecline,  // 7401
  kFail,     // accepts, then TaskFailed 7406
  kSilent,   // accepts, then nothing
  kIgnore,   // does not even answer
};

struct Sent {
  SessionNumber session = 0;
  wire::Message message;
};

// Models and bodies of the driver; both survive in the store.
class HarnessShelf final : public ModelSource, public BodySource {
 public:
  HarnessShelf(std::shared_ptr<MemoryStore> store, model::LayoutPtr layout)
      : store_(std::move(store)), layout_(std::move(layout)) {}

  Result<model::ParamsPtr> Model(const Hash32& hash) override {
    Result<Bytes> bytes = store_->GetModel(hash);
    if (!bytes) return std::move(bytes).error();
    auto params = std::make_shared<model::Params>(layout_);
    std::memcpy(params->values().data(), bytes.value().data(), bytes.value().size());
    return model::ParamsPtr(params);
  }
  Status Keep(model::ParamsPtr params, const Hash32& hash) override {
    return store_->PutModel(hash, AsBytes(params->values()));
  }
  std::shared_ptr<const Bytes> Body(UploadNumber upload) override {
    const auto found = bodies.find(upload);
    if (found != bodies.end()) return found->second;
    Result<Bytes> stored = store_->UpdateBody(upload);
    if (!stored) return nullptr;
    return std::make_shared<const Bytes>(std::move(stored).value());
  }

  std::map<UploadNumber, std::shared_ptr<const Bytes>> bodies;

 private:
  std::shared_ptr<MemoryStore> store_;
  model::LayoutPtr layout_;
};

class EngineHarness {
 public:
  EngineHarness(std::shared_ptr<const RunSpec> spec, std::shared_ptr<MemoryStore> store,
                EngineConfig config = SmallConfig());

  // --- the world outside
  void Join(ClientNumber client, bool polls = true);
  void Leave(ClientNumber client);
  void Poll(ClientNumber client, std::uint32_t hold_ms = 60'000);
  // Answers an opened selection as a simulator does; these clients then work by script.
  void MeetSimulated(const std::vector<ClientNumber>& clients);
  void Start();  // StartRun
  void Control(ControlRun::Action action);
  void Step(Input input);  // anything, and what follows at once
  // Runs clients' work until none is left; nothing waits but timers then.
  void Work();
  // Moves the clock to the engine's next timer and fires it; false without one.
  bool Tick();
  void Advance(Nanoseconds duration);  // fires what falls due

  // --- scripts
  std::map<ClientNumber, Script> scripts;  // else kTrain
  std::function<void(ClientNumber, wire::UploadBegin&)> tamper;
  std::function<void(ClientNumber, UploadFinished&)> inspect;  // changes the verdict
  std::optional<std::uint64_t> order_seed;                     // draws the order of clients' work
  bool holds_uploads = false;  // an admitted upload arrives only with FinishUpload
  bool holds_commits = false;  // commits end only with FinishCommits
  std::optional<std::uint64_t> cut_after_commits;  // the process dies after so many
  std::function<std::optional<Error>(const Job&)> fail_job;
  std::function<Evaluated(const EvaluateJob&)> evaluate;
  // The values of a client's update in a round, from the model it got.
  std::function<std::vector<float>(const wire::Manifest&, ClientNumber, const model::Params&)>
      train;

  void ArriveUpload(ClientNumber client);  // the whole body is here, its inspection is not
  void FinishUpload(ClientNumber client);
  void FinishCommits();

  // --- what was seen
  [[nodiscard]] bool is_dead() const { return is_dead_; }
  [[nodiscard]] RunView View() const { return engine_->Runs().front(); }
  [[nodiscard]] const Hash32& model() const { return current_; }
  [[nodiscard]] std::string Digest() const;  // of every run's view
  template <class T>
  [[nodiscard]] std::vector<T> Events() const {
    std::vector<T> found;
    for (const Event& event : events) {
      if (const auto* one = std::get_if<T>(&event)) found.push_back(*one);
    }
    return found;
  }
  template <class T>
  [[nodiscard]] std::vector<T> MessagesTo(SessionNumber session) const {
    std::vector<T> found;
    for (const Sent& one : sent) {
      if (one.session != session) continue;
      if (const auto* message = std::get_if<T>(&one.message)) found.push_back(*message);
    }
    return found;
  }
  [[nodiscard]] SessionNumber SessionOf(ClientNumber client) const { return sessions_.at(client); }
  // The offer a client holds.
  [[nodiscard]] wire::Manifest ManifestOf(ClientNumber client) const;
  // A correct UploadBegin for it.
  [[nodiscard]] wire::UploadBegin BeginOf(ClientNumber client);

  std::vector<Event> events;
  std::vector<Sent> sent;
  std::vector<RefuseUpload> refusals;
  std::vector<CancelUpload> cancels;
  std::vector<Disconnect> disconnects;
  std::vector<Grant> grants;
  std::vector<RoundPublished> published;
  std::vector<EngineFailed> failures;
  std::vector<std::pair<Now, Input>> log;  // every input, for a replay
  std::string trace;                       // every output as text
  std::uint64_t commits = 0;
  Now now{};

 private:
  struct Body {
    std::shared_ptr<const Bytes> bytes;
    double norm = 0;
  };

  void Queue(Outputs outputs);
  void Pump();
  void Do(const Output& output);
  void OnMessage(SessionNumber session, const wire::Message& message);
  void OnOffer(ClientNumber client, const wire::TaskOffer& offer);
  void Upload(ClientNumber client);
  void Repoll(ClientNumber client);
  [[nodiscard]] static DeviceId DeviceBehind(SessionNumber session, ClientNumber client);
  void Admitted(const AdmitUpload& admit);
  [[nodiscard]] JobResult RunJob(const Job& job);
  [[nodiscard]] ClientNumber ClientOf(SessionNumber session) const;

  std::shared_ptr<const RunSpec> spec_;
  std::shared_ptr<MemoryStore> store_;
  std::shared_ptr<HarnessShelf> shelf_;
  std::unique_ptr<JobRunner> runner_;
  std::unique_ptr<RoundEngine> engine_;
  std::deque<Output> outputs_;
  std::deque<std::function<void()>> work_;
  std::vector<ClientNumber> later_;  // were told to send again later: after the next timer
  std::deque<std::pair<JobId, Job>> held_commits_;
  std::map<TimerId, SteadyTime> timers_;
  std::map<ClientNumber, SessionNumber> sessions_;
  std::map<ClientNumber, wire::TaskOffer> offers_;
  std::map<ClientNumber, Body> trained_;
  std::map<ClientNumber, UploadNumber> uploading_;
  std::optional<RandomStream> order_;
  SessionNumber next_session_ = 1;
  std::uint32_t next_transfer_ = 1;
  Hash32 current_;
  bool is_dead_ = false;
};

// A harness over a store of its own with clients 0 .. clients - 1 joined and held.
[[nodiscard]] std::unique_ptr<EngineHarness> World(const RunOptions& options,
                                                   std::uint32_t clients);

// One output as text: equal texts are equal outputs.
[[nodiscard]] std::string Describe(const Output& output);

}  // namespace skep::test
