// Embedded: an application with data of its own, and the library that it has opened.
//
// The device is one of an AgentWorld, so there is a server that plays rounds. What the application
// hears is kept; what it does wrongly a test says by a function.
#pragma once

#include <skep/skep.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <boost/json/parse.hpp>

#include "tests/client/agent_world.h"
#include "tests/support/catch.h"

namespace skep::test {

// An application: 16 examples of two values and two classes, and what it hears.
struct App {
  std::vector<std::array<float, 2>> x;
  std::vector<std::int64_t> y;
  std::vector<std::string> lines;
  std::vector<std::int32_t> phases;
  std::vector<skep_outcome> outcomes;
  std::thread::id thread = std::this_thread::get_id();
  bool is_elsewhere = false;  // a callback ran on another thread
  int depth = 0;              // callbacks that are on
  // What goes wrong; null: nothing.
  std::function<std::int64_t(const skep_task*)> count;
  std::function<skep_status(skep_batch&)> change;
  std::function<skep_status(skep_task*, skep_tensor*, std::size_t, std::uint64_t*)> train;
  std::size_t at = 0;

  App() {
    for (int row = 0; row < 16; ++row) {
      x.push_back({static_cast<float>(row % 7) / 7, static_cast<float>(row % 3) / 3});
      y.push_back(row % 3 == 0 ? 1 : 0);
    }
  }
  void Enter() {
    if (std::this_thread::get_id() != thread) is_elsewhere = true;
  }
  [[nodiscard]] bool Heard(const std::string& part) const {
    for (const std::string& line : lines) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }
};

inline App& Of(void* user) {
  App& app = *static_cast<App*>(user);
  app.Enter();
  return app;
}

inline skep_data_source SourceOf(App& app) {
  return {
      .struct_size = sizeof(skep_data_source),
      .reserved = 0,
      .user = &app,
      .count = [](void* user, const skep_task* task) -> std::int64_t {
        App& own = Of(user);
        return own.count ? own.count(task) : static_cast<std::int64_t>(own.x.size());
      },
      .rewind = [](void* user, const skep_task*, std::uint64_t) -> skep_status {
        Of(user).at = 0;
        return SKEP_OK;
      },
      .next = [](void* user, const skep_task*, std::size_t most, skep_batch* out) -> skep_status {
        App& own = Of(user);
        const std::size_t rows = std::min(most, own.x.size() - own.at);
        out->x_dtype = SKEP_F32;
        out->y_dtype = SKEP_I64;
        out->x = own.x.data() + own.at;
        out->y = own.y.data() + own.at;
        out->rows = rows;
        out->x_cols = 2;
        out->y_cols = 1;
        own.at += rows;
        return own.change ? own.change(*out) : static_cast<skep_status>(SKEP_OK);
      }};
}

inline skep_trainer TrainerOf(App& app) {
  return {.struct_size = sizeof(skep_trainer),
          .capabilities = 0,
          .user = &app,
          .train = [](void* user, skep_task* task, skep_tensor* model, std::size_t count,
                      std::uint64_t* examples) -> skep_status {
            return Of(user).train(task, model, count, examples);
          },
          .evaluate = nullptr};
}

// A device of the world, opened by the application.
class Embedded {
 public:
  explicit Embedded(AgentWorld& world, App& app, bool has_trainer = false) : app_(app) {
    skep_options_init(&options, sizeof options);
    folder_ = world.StorageFolder();
    options.storage_dir = folder_.c_str();
    options.require_charging = options.require_idle = options.require_unmetered = 0;
    options.min_seconds_between_runs = 0;
    options.log_level = SKEP_LOG_DEBUG;
    options.device = "cpu:portable";
    has_trainer_ = has_trainer;
  }
  ~Embedded() { skep_client_free(client); }
  Embedded(const Embedded&) = delete;
  Embedded& operator=(const Embedded&) = delete;

  skep_status Open() {
    const skep_data_source source = SourceOf(app_);
    const skep_trainer trainer = TrainerOf(app_);
    outcome = {};
    outcome.struct_size = sizeof outcome;
    const skep_status opened =
        skep_client_new(&options, &source, has_trainer_ ? &trainer : nullptr, &client, &outcome);
    if (opened != SKEP_OK) return opened;
    skep_client_on_log(
        client,
        [](void* user, std::int32_t, const char* line) { Of(user).lines.emplace_back(line); },
        &app_);
    skep_client_on_progress(
        client,
        [](void* user, const skep_progress* progress) {
          Of(user).phases.push_back(progress->phase);
        },
        &app_);
    skep_client_on_outcome(
        client, [](void* user, const skep_outcome* one) { Of(user).outcomes.push_back(*one); },
        &app_);
    return SKEP_OK;
  }
  skep_status Run(std::uint32_t budget_s = 60) {
    outcome = {};
    outcome.struct_size = sizeof outcome;
    const skep_status status = skep_client_run_once(client, budget_s, &outcome);
    for (const std::string& line : app_.lines) UNSCOPED_INFO(line);
    UNSCOPED_INFO(outcome.message);
    return status;
  }
  [[nodiscard]] boost::json::object Json(skep_status (*get)(const skep_client*, char*,
                                                            std::size_t*)) const {
    std::size_t size = 0;
    REQUIRE(get(client, nullptr, &size) == SKEP_E_BUFFER);
    std::string text(size, '\0');
    REQUIRE(get(client, text.data(), &size) == SKEP_OK);
    text.resize(size);
    return boost::json::parse(text).as_object();
  }

  skep_options options{};
  skep_client* client = nullptr;
  skep_outcome outcome{};

 private:
  App& app_;
  std::string folder_;
  bool has_trainer_ = false;
};

inline skep_outcome NoOutcome() {
  skep_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  return outcome;
}

struct Device {
  AgentWorld world;
  App app;
  Embedded embedded;
  explicit Device(bool has_trainer = false) : embedded(world, app, has_trainer) {
    world.Enrol();
    world.server.Start();
  }
};

}  // namespace skep::test
