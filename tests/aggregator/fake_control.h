// FakeControl: a Control whose answers a test sets and whose questions a test can look at.
//
// One question at a time; what a test changes while a command asks goes through `find_run`, which
// locks for itself.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/server/control.h"
#include "shared/model/params.h"

namespace skep::test {

using namespace skep::aggregator;

class FakeControl final : public Control {
 public:
  std::vector<std::string> calls;  // "CreatePopulation pump"
  std::optional<Error> failure;    // the answer to everything, if set
  RunState state = RunState::kRunning;
  std::optional<std::vector<config::Problem>> problems;  // of StartRun
  StartRequest started;
  std::vector<config::Note> notes;      // of StartRun
  std::function<RunDetail()> find_run;  // the answer of FindRun, if set
  model::ParamsPtr model;

  [[nodiscard]] Result<StatusView> GetStatus() override {
    calls.emplace_back("GetStatus");
    if (failure) return Error(*failure);
    StatusView view;
    view.listeners = {{"devices", "127.0.0.1:8443"}, {"enrol", "127.0.0.1:8444"}};
    view.store = "/store";
    view.problems = {{5108, "pki/server.crt ends in 3 d", "sign a new one, then restart"}};
    view.uptime = std::chrono::seconds(12);
    return view;
  }
  [[nodiscard]] Status CreatePopulation(const std::string& name) override {
    calls.push_back("CreatePopulation " + name);
    if (failure) return Error(*failure);
    return Ok();
  }
  [[nodiscard]] Result<std::vector<PopulationView>> Populations() override {
    if (failure) return Error(*failure);
    PopulationView view;
    view.row.name = "pump";
    view.held = 3;
    return std::vector<PopulationView>{view};
  }
  [[nodiscard]] Result<std::vector<std::string>> CreateTokens(const std::string& population,
                                                              std::uint32_t count,
                                                              Nanoseconds lifetime) override {
    calls.push_back("CreateTokens " + population + " " + std::to_string(count) + " " +
                    std::to_string(lifetime.count()));
    if (failure) return Error(*failure);
    return std::vector<std::string>(count, "https://join");
  }
  [[nodiscard]] Result<std::vector<TokenRow>> Tokens(const std::string& population) override {
    calls.push_back("Tokens " + population);
    if (failure) return Error(*failure);
    TokenRow row;
    row.population = population;
    return std::vector<TokenRow>{row};
  }
  [[nodiscard]] Result<std::vector<DeviceView>> Devices() override {
    if (failure) return Error(*failure);
    std::vector<DeviceView> devices(3);
    devices[0].row.memberships = {{"pump", 0}};
    devices[1].row.memberships = {{"pump", 1}};
    devices[1].row.state = DeviceState::kRevoked;
    devices[2].row.memberships = {{"valve", 0}};
    return devices;
  }
  [[nodiscard]] Status ChangeDevice(const DeviceId&, DeviceState, const std::string&) override {
    calls.emplace_back("ChangeDevice");
    return Ok();
  }
  [[nodiscard]] config::Validated<StartedRun> StartRun(const StartRequest& request) override {
    calls.emplace_back("StartRun");
    started = request;
    if (problems) return *problems;
    StartedRun run;
    if (!request.is_dry_run) run.id.bytes[0] = 0x7f;
    run.name = "pump";
    run.seed = 42;
    run.population = "pump";
    run.plan_bytes = 671;
    run.model_bytes = 460;
    run.update_bytes = 460;
    run.invited = 8;
    run.notes = notes;
    return run;
  }
  [[nodiscard]] Result<std::vector<RunStatus>> Runs(bool all) override {
    calls.emplace_back(all ? "Runs all" : "Runs");
    return std::vector<RunStatus>{OneRun()};
  }
  [[nodiscard]] Result<RunDetail> FindRun(const std::string& run) override {
    calls.push_back("FindRun " + run);
    if (failure) return Error(*failure);
    if (find_run) return find_run();
    return RunDetail{OneRun(), "seed = 42\n", {}};
  }
  [[nodiscard]] Status ChangeRun(const std::string&, ControlRun::Action action) override {
    calls.push_back("ChangeRun " + std::to_string(static_cast<int>(action)));
    if (failure) return Error(*failure);
    if (action != ControlRun::Action::kResume) state = RunState::kStopped;
    return Ok();
  }
  [[nodiscard]] Result<PublishedModel> Model(const std::string&,
                                             std::optional<std::uint32_t> round) override {
    calls.push_back("Model " + (round ? std::to_string(*round) : "current"));
    if (!model) return Error{5403, "no model of that round", ""};
    return PublishedModel{round.value_or(7), model->ModelHash(), model};
  }

  [[nodiscard]] RunStatus OneRun() const {
    RunStatus run;
    run.view.name = "pump";
    run.view.state = state;
    run.view.attempt.round = 2;
    run.view.rounds = 3;
    run.view.waiting_for = "waiting for devices: 3 of 10 held";
    run.waiting = std::chrono::seconds(40);
    run.seed = 42;
    return run;
  }
};

}  // namespace skep::test
