// A client library without a network, for tests of client.hpp, skep.py and the examples.
//
// Implements skep/skep.h in memory. The aggregator is a script, given as the option `endpoint`:
// words between spaces, as `StubScript` lists them. Without any, each run finds a task of training
// that asks for one epoch. status_json repeats what arrived: "options", and the trainer's
// "capabilities".
//
// Built as a shared library with the version script of the real one, under its soname.
// Threading: as skep/skep.h promises. Source: skep/skep.h.
#pragma once

#include <skep/skep.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace skep::test {

struct StubScript {
  bool has_wait = false;  // "wait": the aggregator holds the request until the run is cancelled
  bool is_evaluation = false;     // "evaluate": a task of evaluation
  skep_status status = SKEP_OK;   // "status=-1": the run ends so, before any task
  std::int32_t code = 0;          // "code=3001": the number that goes with it
  std::uint32_t retry_s = 30;     // "retry=30"
  std::uint32_t steps = 0;        // "epochs=0 steps=5"
  std::uint32_t epochs = 1;       // "epochs=2"
  std::uint32_t classes = 10;     // "classes=10"
  std::uint32_t batch_size = 32;  // "batch=32"
};
[[nodiscard]] StubScript ParseScript(const std::string& text);

// The options with strings of its own.
struct StubOptions {
  skep_options values{};
  std::string join_string, endpoint, population, app_version, storage_dir, policy_json, device,
      proxy;
};

struct Contribution {
  std::uint64_t round;
  std::uint64_t examples;
  bool is_evaluation;
  std::vector<std::string> metrics;
};

template <class F>
struct Hook {
  F fn = nullptr;
  void* user = nullptr;
};

}  // namespace skep::test

struct skep_client {
  skep::test::StubOptions options;
  skep::test::StubScript script;
  skep_data_source data{};
  std::optional<skep_trainer> trainer;

  // Written only while no run is on.
  skep::test::Hook<skep_state_fn> on_device_state;
  skep::test::Hook<skep_progress_fn> on_progress;
  skep::test::Hook<skep_outcome_fn> on_outcome;
  skep::test::Hook<skep_log_fn> on_log;

  mutable std::mutex mutex;  // guards what follows; never held during a callback
  std::condition_variable changed;
  bool is_running = false;
  bool is_cancelled = false;
  bool is_started = false;
  bool is_stopping = false;
  bool is_forgotten = false;
  std::string name;  // from skep_client_enrol
  std::uint64_t round = 0;
  std::vector<skep::test::Contribution> history;
  skep_outcome last{};
  std::thread thread;
};

namespace skep::test {

// One run from check-in to upload, with its callbacks. The caller has set is_running.
[[nodiscard]] skep_outcome Run(skep_client& client, std::uint32_t budget_s);

// Fills in status, code and message.
void Say(skep_outcome& outcome, skep_status status, std::int32_t code, const std::string& message);

}  // namespace skep::test
