// Training in lanes of the emulated device, against the built-in trainer.
#include "client/device_trainer.h"

#include <cmath>
#include <memory>

#include "client/row_source.h"
#include "shared/base/rng.h"
#include "tests/emulator/host_device.h"
#include "tests/support/catch.h"

namespace skep::client {
namespace {

constexpr std::size_t kInputs = 6;
constexpr std::size_t kClasses = 3;
constexpr std::size_t kRows = 90;
constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20U;

std::shared_ptr<data::Dataset> MakeData() {
  auto dataset = std::make_shared<data::Dataset>();
  dataset->input_shape = {kInputs};
  dataset->rows = kRows;
  dataset->values = kInputs;
  RandomStream stream(3, {.purpose = Purpose::kSyntheticData});
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t i = 0; i < kInputs; ++i) {
      dataset->floats.push_back(static_cast<float>(stream.Normal()));
    }
    dataset->labels.push_back(static_cast<std::int32_t>(stream.Below(kClasses)));
  }
  return dataset;
}

// Clients of 3, 7, 11, ... rows.
std::vector<LocalData> MakeClients(const std::shared_ptr<data::Dataset>& dataset,
                                   std::size_t count) {
  std::vector<LocalData> clients(count);
  for (std::size_t i = 0; i < count; ++i) {
    clients[i].dataset = dataset;
    for (std::size_t r = 0; r < 3 + 4 * i; ++r) {
      clients[i].train.push_back(static_cast<std::uint32_t>((i * 13 + r * 7) % kRows));
    }
    clients[i].test = {1, 2, 5, 8};
  }
  return clients;
}

TrainingPlan MakePlan() {
  TrainingPlan plan{.model =
                        model::ModelSpec::Parse({kInputs}, {"dense 7", "relu", "dense 3"}).value()};
  plan.learning_rate = 0.1;
  plan.batch_size = 5;
  plan.local_epochs = 3;
  return plan;
}

std::vector<float> Start(const TrainingPlan& plan) {
  const model::Params params = model::InitialParams(plan.model, model::Initialiser::kFanIn, 5);
  return {params.values().begin(), params.values().end()};
}

TaskIdentity TaskOf(std::size_t client) {
  return {RoundSeed(42, 4), 4, static_cast<ClientNumber>(client)};
}

struct Trained {
  std::vector<std::vector<float>> params;
  std::vector<Result<TrainReport>> reports;
};

Trained OnDevice(DeviceTrainer& trainer, const TrainingPlan& plan,
                 const std::vector<LocalData>& clients) {
  Trained trained;
  trained.params.assign(clients.size(), Start(plan));
  std::vector<LaneTask> tasks;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    tasks.push_back({.task = TaskOf(i), .data = &clients[i], .params = trained.params[i]});
  }
  trained.reports = trainer.TrainMany(plan, tasks, nullptr);
  return trained;
}

Trained OnCpu(const TrainingPlan& plan, const std::vector<LocalData>& clients) {
  Trained trained;
  const auto trainer = MakeBuiltInTrainer(kernels::Isa::kPortable);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    trained.params.push_back(Start(plan));
    trained.reports.push_back(
        trainer->Train(plan, TaskOf(i), clients[i], trained.params.back(), nullptr));
  }
  return trained;
}

void CheckAlike(const Trained& device, const Trained& cpu) {
  REQUIRE(device.params.size() == cpu.params.size());
  for (std::size_t i = 0; i < cpu.params.size(); ++i) {
    INFO("client " << i);
    REQUIRE(device.reports[i].has_value());
    REQUIRE(cpu.reports[i].has_value());
    CHECK(device.reports[i]->examples == cpu.reports[i]->examples);
    CHECK(device.reports[i]->steps == cpu.reports[i]->steps);
    CHECK(device.reports[i]->loss == Approx(cpu.reports[i]->loss).epsilon(1e-4));
    double largest = 0;
    for (std::size_t k = 0; k < cpu.params[i].size(); ++k) {
      largest = std::max(largest, std::abs(static_cast<double>(device.params[i][k]) -
                                           static_cast<double>(cpu.params[i][k])));
    }
    CHECK(largest < 1e-5);
  }
}

void CheckSameBits(const Trained& a, const Trained& b) {
  REQUIRE(a.params.size() == b.params.size());
  for (std::size_t i = 0; i < a.params.size(); ++i) {
    INFO("client " << i);
    CHECK(a.params[i] == b.params[i]);
    CHECK(a.reports[i].value().loss == b.reports[i].value().loss);
  }
}

// An emulated device, and a trainer on it for so many clients at once.
struct World {
  explicit World(std::uint32_t clients, std::uint64_t budget = 64 * kMebibyte,
                 std::optional<std::uint64_t> fail_at = std::nullopt)
      : device(std::make_shared<emulator::HostDevice>(
            emulator::HostDevice::Options{.fail_at = fail_at})) {
    trainer.emplace(DeviceTrainerSetup{.device = device,
                                       .budget_bytes = budget,
                                       .clients = clients,
                                       .most_rows = 27,
                                       .isa = kernels::Isa::kPortable});
  }
  std::shared_ptr<emulator::HostDevice> device;
  std::optional<DeviceTrainer> trainer;
};

TEST_CASE("what a source gives is trained in the order in which it comes", "[unit]") {
  const auto dataset = MakeData();
  const std::vector<LocalData> client = {MakeClients(dataset, 4).back()};
  TrainingPlan by_steps = MakePlan();
  by_steps.local_epochs = 0;
  by_steps.local_steps = 4;
  World world(1);
  for (const TrainingPlan& plan : {MakePlan(), by_steps}) {
    const Trained from_rows = OnDevice(*world.trainer, plan, client);
    std::vector<float> params = Start(plan);
    RowSource source;
    source.Open(plan, *dataset, client[0].train, RowSource::Order::kShuffled);
    const TrainReport report =
        world.trainer->TrainFrom(plan, TaskOf(0), source, params, nullptr).value();
    CHECK(params == from_rows.params[0]);
    CHECK(report.steps == from_rows.reports[0]->steps);
    CHECK(report.examples == from_rows.reports[0]->examples);
    CHECK(report.loss == from_rows.reports[0]->loss);
  }
  CHECK(world.device->TakeFaults().empty());
}

TEST_CASE("clients in lanes train as the built-in trainer trains each", "[unit]") {
  const auto clients = MakeClients(MakeData(), 7);
  std::vector<TrainingPlan> plans(6, MakePlan());
  plans[1].merge_tail = true;
  plans[2].local_epochs = 0;
  plans[2].local_steps = 8;
  plans[3].batch_size = 0;
  plans[4].rule = kernels::Rule::kAdam;
  plans[4].learning_rate = 0.01;
  plans[5].momentum = 0.9;
  plans[5].gradient_clip = 0.5;
  World world(7);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    INFO("plan " << i);
    CheckAlike(OnDevice(*world.trainer, plans[i], clients), OnCpu(plans[i], clients));
  }
  CHECK(world.device->TakeFaults().empty());
}

TEST_CASE("what a client gives does not depend on who trains beside it", "[unit]") {
  const auto clients = MakeClients(MakeData(), 7);
  TrainingPlan plan = MakePlan();
  plan.momentum = 0.5;
  World alone(1);
  World three(3);
  World all(7);
  const Trained one = OnDevice(*alone.trainer, plan, clients);
  CheckSameBits(one, OnDevice(*three.trainer, plan, clients));
  CheckSameBits(one, OnDevice(*all.trainer, plan, clients));
}

TEST_CASE("the examples go to the device once, and the network stays", "[unit]") {
  const auto clients = MakeClients(MakeData(), 4);
  World world(4);
  TrainingPlan plan = MakePlan();
  (void)OnDevice(*world.trainer, plan, clients);
  const std::uint64_t allocations = world.device->allocations();
  plan.learning_rate = 0.05;  // of a later round
  (void)OnDevice(*world.trainer, plan, clients);
  CHECK(world.device->allocations() == allocations);
}

TEST_CASE("other data of the same shape are trained on, not those of before", "[unit]") {
  World world(3);
  const TrainingPlan plan = MakePlan();
  (void)OnDevice(*world.trainer, plan, MakeClients(MakeData(), 3));
  const auto other = MakeData();
  for (float& value : other->floats) value = -value;
  const auto clients = MakeClients(other, 3);
  CheckAlike(OnDevice(*world.trainer, plan, clients), OnCpu(plan, clients));
}

TEST_CASE("a client whose class is not in the plan fails alone", "[unit]") {
  const auto dataset = MakeData();
  auto clients = MakeClients(dataset, 3);
  clients[1].train = {0, 1, 2};
  clients[0].train = {10, 11, 12};
  clients[2].train = {20, 21, 22};
  dataset->labels[1] = kClasses;
  World world(3);
  const Trained trained = OnDevice(*world.trainer, MakePlan(), clients);
  REQUIRE_FALSE(trained.reports[1].has_value());
  CHECK(trained.reports[1].error().code == 7406);
  CHECK(trained.reports[1].error().message == "the class of row 1 is not in the plan");
  CHECK(trained.reports[0].has_value());
  CHECK(trained.reports[2].has_value());
  CHECK_FALSE(world.trainer->failure());
  CHECK(world.device->TakeFaults().empty());
}

TEST_CASE("a client without examples fails alone", "[unit]") {
  auto clients = MakeClients(MakeData(), 2);
  clients[0].train.clear();
  World world(2);
  const Trained trained = OnDevice(*world.trainer, MakePlan(), clients);
  CHECK(trained.reports[0].error().code == 7402);
  CHECK(trained.reports[1].has_value());
}

TEST_CASE("each call of the device that fails ends the tasks, and nothing is left behind",
          "[unit]") {
  const auto clients = MakeClients(MakeData(), 2);
  TrainingPlan plan = MakePlan();
  plan.local_epochs = 1;
  std::uint64_t calls = 0;
  {
    World world(2);
    (void)OnDevice(*world.trainer, plan, clients);
    calls = world.device->calls();
  }
  for (std::uint64_t n = 0; n < calls; ++n) {
    INFO("call " << n << " of " << calls);
    World world(2, 64 * kMebibyte, n);
    const Trained trained = OnDevice(*world.trainer, plan, clients);
    for (const Result<TrainReport>& report : trained.reports) {
      REQUIRE_FALSE(report.has_value());
      CHECK(report.error().code == 7406);
      CHECK(report.error().message.find("SKEP-720") != std::string::npos);
    }
    REQUIRE(world.trainer->failure().has_value());
    world.trainer.reset();
    CHECK(world.device->Leaks().empty());
  }
}

TEST_CASE("a stop ends the task and the device goes on", "[unit]") {
  const auto clients = MakeClients(MakeData(), 1);
  World world(1);
  const TrainingPlan plan = MakePlan();
  std::vector<float> params = Start(plan);
  StopGate gate;
  gate.Stop();
  const auto stopped = world.trainer->Train(plan, TaskOf(0), clients[0], params, &gate);
  REQUIRE_FALSE(stopped.has_value());
  CHECK(stopped.error().code == 7407);
  CHECK_FALSE(world.trainer->failure());
  params = Start(plan);
  CHECK(world.trainer->Train(plan, TaskOf(0), clients[0], params, nullptr).has_value());
}

TEST_CASE("held-out rows are evaluated as by the built-in trainer", "[unit]") {
  const auto clients = MakeClients(MakeData(), 1);
  World world(1);
  const TrainingPlan plan = MakePlan();
  const std::vector<float> params = Start(plan);
  const auto here = world.trainer->Evaluate(plan, clients[0], params, nullptr).value();
  const auto there = MakeBuiltInTrainer(kernels::Isa::kPortable)
                         ->Evaluate(plan, clients[0], params, nullptr)
                         .value();
  CHECK(here.loss == there.loss);
  CHECK(here.accuracy == there.accuracy);
}

TEST_CASE("lanes are planned within the budget, and groups are of one size", "[unit]") {
  const auto dataset = MakeData();
  const TrainingPlan plan = MakePlan();
  const auto lanes_for = [&](std::uint32_t clients, std::uint64_t budget) {
    return PlanLanes(
        plan, {.dataset = *dataset, .most_rows = 27, .clients = clients, .budget_bytes = budget});
  };
  const LanePlan all = lanes_for(10, 64 * kMebibyte).value();
  CHECK(all.lanes == 10);
  const LanePlan nine = lanes_for(9, 64 * kMebibyte).value();
  CHECK(nine.bytes < all.bytes);
  // One byte less than ten need: two groups of five, not nine and one.
  CHECK(lanes_for(10, all.bytes - 1).value().lanes == 5);
  CHECK(lanes_for(10, all.bytes).value().lanes == 10);
  const std::uint64_t one = lanes_for(1, 64 * kMebibyte).value().bytes;
  CHECK(lanes_for(10, one).value().lanes == 1);
  const auto none = lanes_for(10, one - 1);
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == 1401);
  CHECK(none.error().message.find(std::to_string(one - 1)) != std::string::npos);
}

TEST_CASE("a budget that does not suffice is a task's error, with its numbers", "[unit]") {
  World world(2, 1000);
  const Trained trained = OnDevice(*world.trainer, MakePlan(), MakeClients(MakeData(), 2));
  REQUIRE_FALSE(trained.reports[0].has_value());
  CHECK(trained.reports[0].error().code == 7406);
  CHECK(trained.reports[0].error().message.find("SKEP-1401") != std::string::npos);
  CHECK(world.trainer->failure()->code == 1401);
}

}  // namespace
}  // namespace skep::client
