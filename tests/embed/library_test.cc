// The library itself behind skep/skep.h: whole check-ins over TLS with an application's own data.
#include <skep/skep.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client/embed/structures.h"
#include "shared/base/sha256.h"
#include "tests/embed/embedded.h"

namespace skep::embed {
namespace {

using test::AgentWorld;
using test::App;
using test::Device;
using test::Embedded;
using test::NoOutcome;
using test::Of;
using test::Peer;

TEST_CASE("an application contributes, on its own thread, and hears of it", "[unit]") {
  Device device;
  REQUIRE(device.embedded.Open() == SKEP_OK);
  CHECK(device.embedded.Run() == SKEP_OK);
  device.world.server.Stop();
  const skep_outcome& outcome = device.embedded.outcome;
  CHECK(outcome.code == 0);
  CHECK(outcome.round == 1);
  CHECK(outcome.num_examples == 16);
  CHECK(outcome.bytes_down > device.world.aggregator.model().size());
  CHECK(outcome.bytes_up > device.world.aggregator.model().size());
  REQUIRE(device.world.aggregator.updates.size() == 1);
  CHECK(device.world.aggregator.updates[0].begin.weight == 16);
  CHECK_FALSE(device.app.is_elsewhere);
  CHECK(device.app.Heard("round 1: trained 16 examples in "));
  REQUIRE(device.app.outcomes.size() == 1);
  CHECK(device.app.outcomes[0].status == SKEP_OK);
  const std::string message = device.app.outcomes[0].message;
  CHECK(message.starts_with("round 1: downloaded "));
  CHECK(message.find(", trained 16 examples in ") != std::string::npos);
  CHECK(message.find(" (loss ") != std::string::npos);
  CHECK(message.find("), uploaded ") != std::string::npos);
  const auto has = [&](std::int32_t phase) {
    return std::find(device.app.phases.begin(), device.app.phases.end(), phase) !=
           device.app.phases.end();
  };
  CHECK(has(SKEP_PHASE_CHECK_IN));
  CHECK(has(SKEP_PHASE_DOWNLOAD));
  CHECK(has(SKEP_PHASE_TRAIN));
  CHECK(has(SKEP_PHASE_UPLOAD));
  const auto history = device.embedded.Json(&skep_client_history_json);
  const auto& entries = history.at("contributions").as_array();
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].at("outcome").as_string() == "contributed");
  const auto status = device.embedded.Json(&skep_client_status_json);
  CHECK(status.at("enrolled").as_bool());
  CHECK(status.at("last").at("status").as_string() == "SKEP_OK");
}

TEST_CASE("a handle is one folder's, and the folder one handle's", "[unit]") {
  Device device;
  REQUIRE(device.embedded.Open() == SKEP_OK);
  App other;
  Embedded second(device.world, other);
  CHECK(second.Open() == SKEP_E_BUSY);
  CHECK(second.outcome.code == 4002);
  CHECK(second.client == nullptr);
  std::size_t size = 0;
  skep_outcome why = NoOutcome();
  CHECK(skep_status_json(&device.embedded.options, nullptr, &size, &why) == SKEP_E_BUFFER);
  AgentWorld elsewhere;
  elsewhere.Enrol();
  Embedded third(elsewhere, other);
  CHECK(third.Open() == SKEP_OK);
}

TEST_CASE("what the options may not be is named, and nothing is made", "[unit]") {
  Device device;
  Embedded& embedded = device.embedded;
  const std::string fresh = device.world.StorageFolder() + "-new";
  embedded.options.storage_dir = fresh.c_str();
  const auto refused = [&](const std::string& name) {
    CHECK(embedded.Open() == SKEP_E_ARGUMENT);
    CHECK(embedded.outcome.code == 7001);
    INFO(embedded.outcome.message);
    CHECK(std::string(embedded.outcome.message).find(name) != std::string::npos);
    CHECK(embedded.client == nullptr);
    CHECK_FALSE(std::filesystem::exists(fresh));
  };
  SECTION("battery") {
    embedded.options.min_battery = std::numeric_limits<float>::quiet_NaN();
    refused("min_battery");
  }
  SECTION("cpu") {
    embedded.options.max_cpu = 1.5F;
    refused("max_cpu");
  }
  SECTION("threads") {
    embedded.options.max_threads = 0;
    refused("max_threads");
  }
  SECTION("memory") {
    embedded.options.max_memory = 1000;
    refused("max_memory");
  }
  SECTION("device") {
    embedded.options.device = "gpu";
    refused("device");
  }
  SECTION("proxy") {
    embedded.options.proxy = "https://proxy:1";
    refused("proxy");
  }
  SECTION("policy") {
    embedded.options.policy_json = "{\"privacy\":{\"epsilon\":1}}";
    refused("policy_json");
  }
  SECTION("level") {
    embedded.options.log_level = 9;
    refused("log_level");
  }
  SECTION("folder") {
    embedded.options.storage_dir = "";
    refused("storage_dir");
  }
  SECTION("size") {
    embedded.options.struct_size = 8;
    CHECK(embedded.Open() == SKEP_E_ARGUMENT);
    CHECK(embedded.outcome.code == 7002);
  }
  SECTION("join string") {
    embedded.options.join_string = "https://agg.example:8444#SKEP1-AAEC";
    CHECK(embedded.Open() == SKEP_E_AUTH);
    CHECK(embedded.outcome.code == 3116);
    CHECK_FALSE(std::filesystem::exists(fresh));
  }
}

TEST_CASE("a data source that breaks its contract ends the task with its number", "[unit]") {
  Device device;
  App& app = device.app;
  int code = 0;
  static const float kNotFinite[32] = {0, std::numeric_limits<float>::infinity()};
  static const std::vector<std::int64_t> kLabels(16, 5);
  SECTION("another width later") {
    code = 7101;
    app.change = [calls = 0](skep_batch& batch) mutable -> skep_status {
      if (calls++ > 0) batch.x_cols = 1;
      return SKEP_OK;
    };
  }
  SECTION("not finite") {
    code = 7102;
    app.change = [](skep_batch& batch) -> skep_status {
      batch.x = kNotFinite;
      return SKEP_OK;
    };
  }
  SECTION("a label out of range") {
    code = 7103;
    app.change = [](skep_batch& batch) -> skep_status {
      batch.y = kLabels.data();
      return SKEP_OK;
    };
  }
  SECTION("more rows than asked") {
    code = 7104;
    app.change = [](skep_batch& batch) -> skep_status {
      batch.rows += 1000;
      return SKEP_OK;
    };
  }
  SECTION("an error") {
    code = 7105;
    app.change = [](skep_batch&) -> skep_status { return SKEP_E_DATA; };
  }
  SECTION("an exception through C") {
    code = 7105;
    app.change = [](skep_batch&) -> skep_status { throw std::runtime_error("secret 4711"); };
  }
  SECTION("more than were counted") {
    code = 7106;
    app.count = [](const skep_task*) { return std::int64_t{5}; };
  }
  SECTION("numbers for a classifier") {
    code = 7107;
    app.change = [](skep_batch& batch) -> skep_status {
      batch.y_dtype = SKEP_F32;
      return SKEP_OK;
    };
  }
  SECTION("another width than the model's") {
    code = 7414;
    app.change = [](skep_batch& batch) -> skep_status {
      batch.x_cols = 3;
      return SKEP_OK;
    };
  }
  device.world.aggregator.before = [&](Peer&, const wire::Message& message) {
    if (std::holds_alternative<wire::TaskFailed>(message)) ++device.world.aggregator.round;
    return false;
  };
  REQUIRE(device.embedded.Open() == SKEP_OK);
  CHECK(device.embedded.Run() == SKEP_E_DATA);
  device.world.server.Stop();
  CHECK(device.embedded.outcome.code == code);
  CHECK(device.embedded.outcome.retry_after_s >= 60);
  CHECK(device.world.aggregator.updates.empty());
  const auto failed = device.world.server.Heard<wire::TaskFailed>();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].code == (code == 7414 ? 7414U : 7406U));
  CHECK_FALSE(app.Heard("secret 4711"));
}

TEST_CASE("a source that has nothing, or whose data do not suit the plan, sits the task out",
          "[unit]") {
  Device device;
  const bool is_empty = GENERATE(true, false);
  device.app.count = [is_empty](const skep_task* task) -> std::int64_t {
    if (is_empty) return 0;
    CHECK(std::string(skep_task_text(task, "data.spec", "")).find("\"label\":\"y\"") !=
          std::string::npos);
    CHECK(skep_task_number(task, "client.batch_size", 0) == 4);
    CHECK(skep_task_number(task, "client.number", 0) == 3);
    CHECK(std::string(skep_task_text(task, "model.input", "")) == "2");
    CHECK(std::string(skep_task_text(task, "model.layer.0002", "")) == "relu");
    CHECK(skep_task_text(task, "no.such", nullptr) == nullptr);
    skep_task_fail(task, "column \"b\" is missing");
    return SKEP_E_DATA;
  };
  REQUIRE(device.embedded.Open() == SKEP_OK);
  CHECK(device.embedded.Run() == (is_empty ? SKEP_NO_WORK : SKEP_E_DATA));
  device.world.server.Stop();
  const std::uint32_t code = is_empty ? 7402 : 7414;
  CHECK(device.embedded.outcome.code == static_cast<std::int32_t>(code));
  const auto declined = device.world.server.Heard<wire::TaskDecline>();
  REQUIRE(declined.size() == 1);
  CHECK(declined[0].code == code);
  // The application's words stay in its own log, at debug level.
  CHECK(device.app.Heard("column \"b\" is missing") == !is_empty);
  CHECK(std::string(device.embedded.outcome.message).find("column") == std::string::npos);
}

TEST_CASE("an application's own trainer changes the tensors, and the library the rest", "[unit]") {
  Device device(true);
  std::vector<std::string> names;
  device.app.train = [&](skep_task* task, skep_tensor* model, std::size_t count,
                         std::uint64_t* examples) -> skep_status {
    CHECK(skep_task_kind(task) == SKEP_TASK_TRAIN);
    CHECK(skep_task_rewind(task, skep_task_seed(task, 0)) == SKEP_OK);
    skep_batch batch{};
    batch.struct_size = sizeof batch;
    std::uint64_t rows = 0;
    while (skep_task_next(task, 5, &batch) == SKEP_OK && batch.rows > 0) rows += batch.rows;
    for (std::size_t i = 0; i < count; ++i) {
      names.emplace_back(model[i].name);
      CHECK(model[i].dtype == SKEP_F32);
    }
    static_cast<float*>(model[0].data)[0] += 1;
    skep_task_progress(task, 0.5, 0.25);
    CHECK(skep_task_metric(task, "accuracy", 0.75) == SKEP_OK);
    CHECK(skep_task_metric(task, "private thoughts", 1) == SKEP_OK);
    *examples = rows;
    return SKEP_OK;
  };
  REQUIRE(device.embedded.Open() == SKEP_OK);
  CHECK(device.embedded.Run() == SKEP_OK);
  device.world.server.Stop();
  REQUIRE(device.world.aggregator.updates.size() == 1);
  const auto& update = device.world.aggregator.updates[0];
  CHECK(update.begin.weight == 16);
  REQUIRE(update.begin.metrics.size() == 1);  // only what the plan lists leaves the device
  CHECK(update.begin.metrics[0].value == 0.75);
  float first = 0;
  std::memcpy(&first, update.body.data(), sizeof first);
  CHECK(first > 0.999F);
  CHECK(first < 1.001F);
  CHECK(std::count(update.body.begin() + sizeof first, update.body.end(), 0) ==
        static_cast<std::ptrdiff_t>(update.body.size() - sizeof first));
  CHECK(names.size() == 4);
}

TEST_CASE("a trainer that fails, uses nothing or leaves no numbers contributes nothing", "[unit]") {
  Device device(true);
  int code = 0;
  SECTION("fails") {
    code = 7151;
    device.app.train = [](skep_task*, skep_tensor*, std::size_t, std::uint64_t*) {
      return skep_status{SKEP_E_TRAINER};
    };
  }
  SECTION("throws") {
    code = 7151;
    device.app.train = [](skep_task*, skep_tensor*, std::size_t, std::uint64_t*) -> skep_status {
      throw 42;
    };
  }
  SECTION("uses nothing") {
    code = 7402;
    device.app.train = [](skep_task*, skep_tensor*, std::size_t, std::uint64_t*) {
      return skep_status{SKEP_OK};
    };
  }
  SECTION("leaves no numbers") {
    code = 7152;
    device.app.train = [](skep_task*, skep_tensor* model, std::size_t, std::uint64_t* examples) {
      static_cast<float*>(model[1].data)[0] = std::nanf("");
      *examples = 1;
      return skep_status{SKEP_OK};
    };
  }
  device.world.aggregator.before = [&](Peer&, const wire::Message& message) {
    if (std::holds_alternative<wire::TaskFailed>(message)) ++device.world.aggregator.round;
    return false;
  };
  REQUIRE(device.embedded.Open() == SKEP_OK);
  CHECK(device.embedded.Run() == (code == 7402 ? SKEP_NO_WORK : SKEP_E_TRAINER));
  device.world.server.Stop();
  CHECK(device.embedded.outcome.code == code);
  CHECK(device.world.aggregator.updates.empty());
}

TEST_CASE("cancel ends a run that waits, one that works, and only that one", "[unit]") {
  Device device(true);
  const bool is_working = GENERATE(true, false);
  device.app.train = [&](skep_task* task, skep_tensor*, std::size_t,
                         std::uint64_t* examples) -> skep_status {
    if (is_working) skep_client_cancel(device.embedded.client);
    skep_status go_on = SKEP_OK;
    // Until the library says so, however long that takes.
    while (is_working && go_on == SKEP_OK) go_on = skep_task_check(task);
    *examples = 1;
    return go_on;
  };
  bool has_polled = false;
  device.world.aggregator.before = [&](Peer&, const wire::Message& message) {
    const bool is_held = !is_working && !has_polled && std::holds_alternative<wire::Poll>(message);
    if (!is_held) return false;
    has_polled = true;
    skep_client_cancel(device.embedded.client);  // from another thread; nobody answers
    return true;
  };
  REQUIRE(device.embedded.Open() == SKEP_OK);
  CHECK(device.embedded.Run() == SKEP_CANCELLED);
  CHECK(device.embedded.outcome.code == 7407);
  CHECK(device.embedded.outcome.retry_after_s == 0);
  skep_client_cancel(device.embedded.client);  // nothing is on: nothing happens
  device.app.train = [](skep_task*, skep_tensor*, std::size_t, std::uint64_t* examples) {
    *examples = 1;
    return skep_status{SKEP_OK};
  };
  if (is_working) device.world.aggregator.round = 2;
  device.world.aggregator.rounds = 2;
  CHECK(device.embedded.Run() == SKEP_OK);
  device.world.server.Stop();
}

TEST_CASE("a device that may not work says why and touches no network", "[unit]") {
  Device device;
  REQUIRE(device.embedded.Open() == SKEP_OK);
  skep_client_free(device.embedded.client);
  device.embedded.client = nullptr;
  device.embedded.options.require_charging = 1;
  REQUIRE(device.embedded.Open() == SKEP_OK);
  skep_client_on_device_state(
      device.embedded.client,
      [](void* user, skep_device_state* state) {
        Of(user);
        CHECK(state->charging == -1);
        state->charging = 0;
        state->battery_level = 0.9F;
      },
      &device.app);
  CHECK(device.embedded.Run() == SKEP_NOT_ELIGIBLE);
  CHECK(device.embedded.outcome.code == 7401);
  CHECK(std::string(device.embedded.outcome.message).find("charging: no") != std::string::npos);
  CHECK(device.embedded.outcome.retry_after_s >= 60);
  device.world.server.Stop();
  CHECK(device.world.server.connections == 0);
}

TEST_CASE("a call that comes too soon does nothing", "[unit]") {
  Device device;
  device.world.aggregator.rounds = 0;
  device.world.aggregator.come_back = {
      .earliest_ms = 50'000, .latest_ms = 60'000, .reason = wire::ComeBackReason::kNoWork};
  REQUIRE(device.embedded.Open() == SKEP_OK);
  CHECK(device.embedded.Run() == SKEP_NO_WORK);
  const std::uint32_t wait = device.embedded.outcome.retry_after_s;
  CHECK((wait >= 50 && wait <= 60));
  CHECK(device.embedded.Run() == SKEP_NO_WORK);
  CHECK(device.embedded.outcome.retry_after_s <= wait);
  device.world.server.Stop();
  CHECK(device.world.server.connections == 1);
}

TEST_CASE("a policy that the run does not meet declines its tasks", "[unit]") {
  Device device;
  device.embedded.options.policy_json = "{\"privacy\":{\"mechanism\":\"central\"}}";
  REQUIRE(device.embedded.Open() == SKEP_OK);
  CHECK(device.embedded.Run() == SKEP_NO_WORK);
  device.world.server.Stop();
  CHECK(device.embedded.outcome.code == 6203);
  const auto declined = device.world.server.Heard<wire::TaskDecline>();
  REQUIRE(declined.size() == 1);
  CHECK(declined[0].code == 6203);
}

TEST_CASE("a started client works by itself until it is stopped", "[unit]") {
  Device device;
  device.world.aggregator.rounds = 3;
  REQUIRE(device.embedded.Open() == SKEP_OK);
  device.app.thread = {};  // its thread is another one
  std::atomic<int> contributed{0};
  skep_client_on_outcome(
      device.embedded.client,
      [](void* user, const skep_outcome* outcome) {
        if (outcome->status == SKEP_OK) ++*static_cast<std::atomic<int>*>(user);
      },
      &contributed);
  REQUIRE(skep_client_start(device.embedded.client) == SKEP_OK);
  CHECK(skep_client_start(device.embedded.client) == SKEP_E_BUSY);
  CHECK(skep_client_on_log(device.embedded.client, nullptr, nullptr) == SKEP_E_BUSY);
  CHECK(skep_client_forget(device.embedded.client) == SKEP_E_BUSY);
  skep_outcome busy = NoOutcome();
  CHECK(skep_client_run_once(device.embedded.client, 10, &busy) == SKEP_E_BUSY);
  while (contributed < 3) std::this_thread::yield();
  skep_client_stop(device.embedded.client);
  skep_client_stop(device.embedded.client);  // once more does no harm
  device.world.server.Stop();
  CHECK(device.world.aggregator.updates.size() == 3);
  CHECK(device.world.server.connections == 1);
}

TEST_CASE("a device that was forgotten is none, and its client does nothing more", "[unit]") {
  Device device;
  REQUIRE(device.embedded.Open() == SKEP_OK);
  CHECK(skep_client_forget(device.embedded.client) == SKEP_OK);
  CHECK(device.embedded.Run() == SKEP_E_ARGUMENT);
  CHECK(device.embedded.outcome.code == 7004);
  std::size_t size = 0;
  CHECK(skep_client_status_json(device.embedded.client, nullptr, &size) == SKEP_E_ARGUMENT);
  device.world.server.Stop();
  CHECK_FALSE(std::filesystem::exists(device.world.StorageFolder() + "/identity/key.pem"));
}

TEST_CASE("an older caller's structures are read and written only as far as they go", "[unit]") {
  std::array<unsigned char, sizeof(skep_outcome)> raw{};
  raw.fill(0xEE);
  auto* outcome = reinterpret_cast<skep_outcome*>(raw.data());
  outcome->struct_size = 16;
  skep_outcome full = NoOutcome();
  full.status = SKEP_LIMIT;
  full.code = 7410;
  Write(full, outcome);
  CHECK(outcome->struct_size == 16);
  CHECK(outcome->status == SKEP_LIMIT);
  CHECK(raw[16] == 0xEE);
  std::array<unsigned char, sizeof(skep_options)> options{};
  options.fill(0xEE);
  skep_options_init(reinterpret_cast<skep_options*>(options.data()), 24);
  CHECK(options[24] == 0xEE);
}

TEST_CASE("names and texts of the library are its own for ever", "[unit]") {
  CHECK(skep_abi_version() == SKEP_ABI_VERSION);
  CHECK(std::string(skep_status_name(SKEP_E_TRAINER)) == "SKEP_E_TRAINER");
  CHECK(std::string(skep_status_name(77)) == "SKEP_UNKNOWN");
  const char* text = skep_explain(7401);
  REQUIRE(text != nullptr);
  CHECK(std::string(text).starts_with("SKEP-7401"));
  CHECK(skep_explain(7401) == text);
  CHECK(skep_explain(1999) == nullptr);
}

}  // namespace
}  // namespace skep::embed
