#include "tests/support/engine_harness.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/fixed_point.h"
#include "kernels/vector_ops.h"
#include "shared/base/check.h"
#include "shared/base/sha256.h"
#include "shared/wire/codec.h"

namespace skep::test {
namespace {

constexpr const char* kPopulation = "bees";
constexpr WallMs kFirstWall = 1'800'000'000'000;

wire::Plan SmallPlan(const model::ModelSpec& model) {
  wire::Plan plan;
  for (const auto& tensor : model.layout()->tensors()) {
    plan.layout.push_back({.name = tensor.name,
                           .dtype = wire::TensorType::kF32,
                           .shape = tensor.shape,
                           .role = wire::TensorRole::kAveraged});
  }
  plan.params.push_back({.key = "client.learning_rate", .number = 0.1, .text = {}});
  plan.metrics = {"train_loss", "accuracy", "loss"};
  return plan;
}

// Different for every client and round, and it depends on the model.
std::vector<float> DefaultUpdate(const wire::Manifest& manifest, ClientNumber client,
                                 const model::Params& model) {
  std::vector<float> update;
  for (std::size_t i = 0; i < model.values().size(); ++i) {
    const float own = static_cast<float>((client + 1) * (i + 3)) / (7.0F + float(manifest.round));
    update.push_back(0.1F * own - 0.25F * model.values()[i]);
  }
  return update;
}

}  // namespace

std::shared_ptr<const RunSpec> SmallRun(const RunOptions& options) {
  const std::uint32_t invited = options.invited == 0 ? options.clients_per_round : options.invited;
  const std::uint32_t max_weight = options.weighting == Weighting::kUniform ? 1 : 1000;
  model::ModelSpec model = model::ModelSpec::Parse({3}, {"dense 2"}).value();
  wire::Plan plan = SmallPlan(model);
  RunSpec spec{
      .id = {},
      .name = "small",
      .population = kPopulation,
      .seed = options.seed,
      .training = {.rounds = options.rounds,
                   .clients_per_round = options.clients_per_round,
                   .invited = invited,
                   .min_reports = options.min_reports == 0 ? (options.clients_per_round + 1) / 2
                                                           : options.min_reports,
                   .max_attempts = options.max_attempts,
                   .selection_window = std::chrono::minutes(2),
                   .report_deadline = std::chrono::minutes(10),
                   .min_separation = options.min_separation,
                   .weighting = options.weighting,
                   .server_learning_rate = 1.0},
      .evaluation = {.eval_every = options.eval_every,
                     .has_test_data = options.has_test_data,
                     .client_eval_every = options.client_eval_every,
                     .client_eval_clients = options.client_eval_clients},
      .stop = options.stop,
      .admission = {.max_norm = options.max_norm, .max_weight = max_weight},
      .scale = kernels::ScaleFor({.max_norm = options.max_norm,
                                  .max_weight = double(max_weight),
                                  .max_reports = invited})
                   .value(),
      .model = std::move(model),
      .initial_model = SmallModel().ModelHash(),
      .plan = std::move(plan),
      .learning_rates = options.learning_rates};
  spec.id.bytes[0] = 0xA1;
  return std::make_shared<const RunSpec>(std::move(spec));
}

model::Params SmallModel() {
  const model::ModelSpec model = model::ModelSpec::Parse({3}, {"dense 2"}).value();
  model::Params params(model.layout());
  for (std::size_t i = 0; i < params.values().size(); ++i) {
    params.values()[i] = 0.125F * static_cast<float>(i) - 0.4F;
  }
  return params;
}

EngineConfig SmallConfig() {
  EngineConfig config;
  config.federation.bytes[0] = 0xFE;
  config.absent_after = std::chrono::seconds(90);
  config.offer_ttl = std::chrono::seconds(60);
  config.progress_lease = std::chrono::minutes(5);
  config.max_hold = std::chrono::minutes(10);
  config.min_return = std::chrono::seconds(30);
  config.max_return = std::chrono::hours(6);
  config.overload_return = std::chrono::minutes(2);
  config.max_update_bytes = 1 << 20;
  config.max_model_bytes = 1 << 20;
  return config;
}

DeviceId DeviceOf(ClientNumber client) {
  DeviceId id;
  id.bytes[0] = 0xD0;
  StoreLittle(client, id.bytes.data() + 8);
  return id;
}

std::unique_ptr<EngineHarness> World(const RunOptions& options, std::uint32_t clients) {
  auto harness = std::make_unique<EngineHarness>(
      SmallRun(options), std::make_shared<MemoryStore>(SmallConfig().federation));
  for (ClientNumber client = 0; client < clients; ++client) harness->Join(client);
  return harness;
}

EngineHarness::EngineHarness(std::shared_ptr<const RunSpec> spec,
                             std::shared_ptr<MemoryStore> store, EngineConfig config)
    : train(DefaultUpdate), spec_(std::move(spec)), store_(std::move(store)) {
  now.wall = kFirstWall;
  shelf_ = std::make_shared<HarnessShelf>(store_, spec_->model.layout());
  runner_ = std::make_unique<JobRunner>(*shelf_, *shelf_);
  runner_->AddRun(spec_, nullptr);
  const model::Params initial = SmallModel();
  SKEP_CHECK(store_->PutModel(initial.ModelHash(), AsBytes(initial.values())).has_value());
  EngineSnapshot snapshot;
  snapshot.store = store_->Load().value();
  snapshot.specs = {spec_};
  current_ =
      snapshot.store.runs.empty() ? spec_->initial_model : snapshot.store.runs.front().run.model;
  engine_ = std::make_unique<RoundEngine>(std::move(config), std::move(snapshot));
  Queue(engine_->Resume(now));
}

void EngineHarness::Queue(Outputs outputs) {
  for (Output& output : outputs) {
    trace += Describe(output);
    if (const auto* grant = std::get_if<Grant>(&output)) grants.push_back(*grant);
    outputs_.push_back(std::move(output));
  }
}

void EngineHarness::Step(Input input) {
  if (is_dead_) return;
  log.emplace_back(now, input);
  Queue(engine_->Step(now, std::move(input)));
  Pump();
}

void EngineHarness::Pump() {
  while (!outputs_.empty() && !is_dead_) {
    const Output output = std::move(outputs_.front());
    outputs_.pop_front();
    Do(output);
  }
}

void EngineHarness::Join(ClientNumber client, bool polls) {
  const SessionNumber session = next_session_++;
  sessions_[client] = session;
  offers_.erase(client);
  Step(ClientJoined{session, DeviceOf(client), {{kPopulation, client}}, 0});
  if (polls && trained_.count(client) == 0) Poll(client);
  if (trained_.count(client) != 0) Upload(client);
}

void EngineHarness::Leave(ClientNumber client) {
  const SessionNumber session = sessions_.at(client);
  sessions_.erase(client);
  Step(ClientLeft{session, 0});
}

void EngineHarness::Poll(ClientNumber client, std::uint32_t hold_ms) {
  wire::Poll poll;
  poll.population = kPopulation;
  poll.hold_ms = hold_ms;
  poll.max_model_bytes = 1 << 20;
  poll.max_update_bytes = 1 << 20;
  poll.encodings = {wire::Encoding::kF32};
  poll.task_kinds = {wire::TaskKind::kTrain, wire::TaskKind::kEvaluate};
  Step(ClientMessage{sessions_.at(client), std::move(poll)});
}

void EngineHarness::MeetSimulated(const std::vector<ClientNumber>& clients) {
  for (const ClientNumber client : clients) {
    sessions_[client] = RoundEngine::SimulatedSession(client);
  }
  Step(Eligible{kPopulation, clients});
}

DeviceId EngineHarness::DeviceBehind(SessionNumber session, ClientNumber client) {
  const bool is_simulated = session == RoundEngine::SimulatedSession(client);
  return is_simulated ? RoundEngine::SimulatedDevice(client) : DeviceOf(client);
}

void EngineHarness::Start() {
  Step(StartRun{spec_, "", "key"});
}

void EngineHarness::Control(ControlRun::Action action) {
  Step(ControlRun{spec_->id, action});
}

void EngineHarness::Work() {
  if (order_seed && !order_) {
    order_.emplace(*order_seed, RandomStream::Counter{.purpose = Purpose::kSimulatedEntropy});
  }
  Pump();
  while (!work_.empty() && !is_dead_) {
    const std::size_t at = order_ ? static_cast<std::size_t>(order_->Below(work_.size())) : 0;
    std::function<void()> next = std::move(work_[at]);
    work_.erase(work_.begin() + static_cast<std::ptrdiff_t>(at));
    next();
  }
}

bool EngineHarness::Tick() {
  if (timers_.empty() || is_dead_) return false;
  const auto next = std::min_element(timers_.begin(), timers_.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  const TimerId timer = next->first;
  if (next->second > now.steady) {
    now.wall += static_cast<WallMs>(
        std::chrono::duration_cast<Milliseconds>(next->second - now.steady).count());
    now.steady = next->second;
  }
  timers_.erase(next);
  Step(TimerFired{timer});
  for (const ClientNumber client : std::exchange(later_, {})) {
    work_.push_back([this, client] { Upload(client); });
  }
  return true;
}

void EngineHarness::Advance(Nanoseconds duration) {
  const SteadyTime until = now.steady + duration;
  const WallMs wall =
      now.wall + static_cast<WallMs>(std::chrono::duration_cast<Milliseconds>(duration).count());
  const auto is_due = [&] {
    return std::any_of(timers_.begin(), timers_.end(),
                       [&](const auto& timer) { return timer.second <= until; });
  };
  while (is_due() && Tick()) {
  }
  now = {until, wall};
}

ClientNumber EngineHarness::ClientOf(SessionNumber session) const {
  for (const auto& [client, number] : sessions_) {
    if (number == session) return client;
  }
  return kNone;
}

std::string EngineHarness::Digest() const {
  std::string text;
  for (const RunView& view : engine_->Runs()) {
    const AttemptCounts& counts = view.counts;
    text += fmt::format("{} {} {} {} {} {} {} {} {}/{} {} {} {} {} {} {} {} {}\n", view.id.Hex(),
                        int(view.state), view.code, view.reason, view.phase, view.waiting_for,
                        view.attempt.round, view.attempt.attempt, view.reports_wanted,
                        view.min_reports, counts.invited, counts.declined, counts.started,
                        counts.ok, counts.rejected, counts.failed, counts.dropped, counts.late);
    text += view.model.Hex();
  }
  const StoreSnapshot stored = store_->Load().value();
  for (const RunSnapshot& run : stored.runs) {
    for (const OpenRound& open : run.open_rounds) {
      text +=
          fmt::format("{} updates stored, {} assigned\n", open.updates.size(), open.cohort.size());
    }
  }
  return text + fmt::format("seq {}", stored.next_seq);
}

}  // namespace skep::test
