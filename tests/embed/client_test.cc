// The C++ layer: runs, callbacks, moves, cancellation, and what a client says of itself.
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/embed/rows.h"
#include "tests/support/catch.h"

namespace skep::test {
namespace {

static_assert(std::is_nothrow_move_constructible_v<Client>);
static_assert(std::is_nothrow_move_assignable_v<Client>);
static_assert(!std::is_copy_constructible_v<Client>);

// The status and number of the Error that f throws.
template <class F>
std::pair<Status, int> Thrown(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return {e.status, e.code};
  }
  return {SKEP_OK, 0};
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a run tells what it came to", "[unit]") {
  const auto rows = std::make_shared<Rows>(100);
  Client client(Ready("epochs=2 retry=45"), rows);
  const Outcome outcome = client.run_once(std::chrono::minutes{1});
  CHECK(outcome.contributed());
  CHECK_FALSE(outcome.failed());
  CHECK(outcome.round == 1);
  CHECK(outcome.num_examples == 100);
  CHECK(outcome.retry_after == std::chrono::seconds{45});
  CHECK(outcome.bytes_up == 1000);
  CHECK(outcome.message == "round 1 contributed to");
  REQUIRE(rows->seeds.size() == 3);  // the stub looks at one row, then come two epochs
  CHECK(rows->seeds[1] != rows->seeds[2]);
}

TEST_CASE("runs that come to nothing are results, not exceptions", "[unit]") {
  const auto rows = std::make_shared<Rows>();
  const auto run = [&](const std::string& script) {
    return Client(Ready(script), rows).run_once();
  };
  Outcome outcome = run("status=-1 code=3001 retry=15");
  CHECK(outcome.failed());
  CHECK(outcome.status == SKEP_E_NETWORK);
  CHECK(outcome.code == 3001);
  CHECK(outcome.retry_after == std::chrono::seconds{15});

  outcome = run("status=5 code=2109");
  CHECK(outcome.status == SKEP_REJECTED);
  CHECK_FALSE(outcome.failed());
  CHECK_FALSE(outcome.contributed());

  rows->rows = 0;
  outcome = run("");
  CHECK(outcome.status == SKEP_NO_WORK);
  CHECK(outcome.code == 7402);

  Client client(Ready(), rows);
  CHECK(client.run_once(std::chrono::seconds{-5}).status == SKEP_LIMIT);
}

TEST_CASE("callbacks tell of progress, outcome and log, and can be removed", "[unit]") {
  Client client(Ready(), std::make_shared<Rows>());
  std::vector<int> phases;
  std::vector<std::string> tasks;
  std::vector<Outcome> outcomes;
  std::vector<std::pair<int, std::string>> lines;
  client.on_progress([&](const Progress& p) {
    if (phases.empty() || phases.back() != p.phase) phases.push_back(p.phase);
    tasks.emplace_back(p.task_id);
  });
  client.on_outcome([&](const Outcome& o) { outcomes.push_back(o); });
  client.on_log([&](int level, std::string_view line) { lines.emplace_back(level, line); });

  const Outcome outcome = client.run_once();
  CHECK(phases == std::vector<int>{SKEP_PHASE_CHECK_IN, SKEP_PHASE_DOWNLOAD, SKEP_PHASE_TRAIN,
                                   SKEP_PHASE_ENCODE, SKEP_PHASE_UPLOAD});
  CHECK(tasks.front().empty());
  CHECK(tasks.back() == "stub-1");
  REQUIRE(outcomes.size() == 1);
  CHECK(outcomes[0].num_examples == outcome.num_examples);
  CHECK(outcomes[0].message == outcome.message);
  CHECK(lines == std::vector<std::pair<int, std::string>>{{SKEP_LOG_INFO, "checking in"}});

  client.on_progress({});
  client.on_outcome({});
  client.on_log(nullptr);
  const std::size_t before = tasks.size();
  client.run_once();
  CHECK(tasks.size() == before);
  CHECK(outcomes.size() == 1);
  CHECK(lines.size() == 1);
}

TEST_CASE("what callbacks throw is dropped", "[unit]") {
  Client client(Ready(), std::make_shared<Rows>());
  client.on_device_state([](DeviceState& state) {
    state.charging = 1;
    throw std::runtime_error("state");
  });
  client.on_progress([](const Progress&) { throw std::runtime_error("progress"); });
  client.on_outcome([](const Outcome&) { throw 1; });
  client.on_log([](int, std::string_view) { throw std::bad_alloc(); });
  CHECK(client.run_once().contributed());
}

TEST_CASE("a required condition that is unknown is named", "[unit]") {
  Options options = Ready();
  options.eligibility.charging = true;
  Client client(options, std::make_shared<Rows>());
  client.on_device_state([](DeviceState& state) { state.idle = 1; });
  Outcome outcome = client.run_once();
  CHECK(outcome.status == SKEP_NOT_ELIGIBLE);
  CHECK(outcome.code == 7401);
  CHECK(outcome.message == "charging: unknown");
  client.on_device_state([](DeviceState& state) { state.charging = 1; });
  outcome = client.run_once();
  CHECK(outcome.contributed());
}

TEST_CASE("cancel ends a run from another thread, and from a callback", "[unit]") {
  Client client(Ready("wait"), std::make_shared<Rows>());
  std::promise<void> waiting;
  client.on_progress([&](const Progress& p) {
    if (p.phase == SKEP_PHASE_WAIT) waiting.set_value();
  });
  std::thread other([&] {
    waiting.get_future().wait();
    client.cancel();
  });
  Outcome outcome = client.run_once();
  other.join();
  CHECK(outcome.status == SKEP_CANCELLED);
  CHECK(outcome.code == 7407);
  CHECK(outcome.retry_after.count() == 0);

  const auto rows = std::make_shared<Rows>();
  Client second(Ready("", "second"), rows);
  rows->before_next = [&] { second.cancel(); };
  outcome = second.run_once();
  CHECK(outcome.status == SKEP_CANCELLED);
  rows->before_next = nullptr;
  CHECK(second.run_once().contributed());  // a cancellation is over with its run
}

TEST_CASE("a started client runs by itself and is busy until stop", "[unit]") {
  Client client(Ready(), std::make_shared<Rows>());
  std::promise<Outcome> told;
  client.on_outcome([&](const Outcome& o) { told.set_value(o); });
  client.start();
  CHECK(told.get_future().get().contributed());
  CHECK(client.run_once().status == SKEP_E_BUSY);
  CHECK(Thrown([&] { client.start(); }).first == SKEP_E_BUSY);
  CHECK(Thrown([&] { client.forget(); }).first == SKEP_E_BUSY);
  CHECK(Thrown([&] { client.on_outcome({}); }).first == SKEP_E_BUSY);
  client.stop();
  client.stop();
  client.on_outcome({});
  CHECK(client.run_once().round == 2);
}

TEST_CASE("a client that goes away in the middle of a run ends it", "[unit]") {
  std::promise<void> waiting;
  std::future<void> is_waiting = waiting.get_future();
  Client client(Ready("wait"), std::make_shared<Rows>());
  client.on_progress([&](const Progress& p) {
    if (p.phase == SKEP_PHASE_WAIT) waiting.set_value();
  });
  client.start();
  is_waiting.wait();
}

TEST_CASE("within a run the client is busy", "[unit]") {
  const auto rows = std::make_shared<Rows>();
  Client client(Ready(), rows);
  Status inner = SKEP_OK;
  rows->before_rewind = [&] { inner = client.run_once().status; };
  CHECK(client.run_once().contributed());
  CHECK(inner == SKEP_E_BUSY);
  std::pair<Status, int> thrown;
  rows->before_rewind = [&] { thrown = Thrown([&] { client.on_progress({}); }); };
  CHECK(client.run_once().contributed());
  CHECK(thrown.first == SKEP_E_BUSY);
}

TEST_CASE("a moved client keeps its callbacks, and frees what it replaces", "[unit]") {
  const auto rows = std::make_shared<Rows>();
  int outcomes = 0;
  Client first(Ready(), rows);
  first.on_outcome([&](const Outcome&) { ++outcomes; });
  Client second = std::move(first);
  CHECK(second.run_once().contributed());
  CHECK(outcomes == 1);

  Client third(Ready("", "other"), rows);
  CHECK(Thrown([&] { Client(Ready("", "other"), rows); }).first == SKEP_E_BUSY);
  third = std::move(second);
  Client fourth(Ready("", "other"), rows);  // the folder is free again
  CHECK(third.run_once().round == 2);
  CHECK(outcomes == 2);
  std::vector<Client> clients;
  clients.push_back(std::move(third));
  clients.push_back(std::move(fourth));
  CHECK(clients[0].run_once().contributed());
  CHECK(outcomes == 3);
}

TEST_CASE("misuse is thrown with its number and the name of the option", "[unit]") {
  const auto rows = std::make_shared<Rows>();
  using Thrown_ = std::pair<Status, int>;
  CHECK(Thrown([] { Client(Ready(), nullptr); }) == Thrown_{SKEP_E_ARGUMENT, 7003});
  CHECK(Thrown([&] { Client(Ready("", ""), rows); }) == Thrown_{SKEP_E_ARGUMENT, 7001});
  Options options = Ready();
  options.limits.cpu = 2;
  try {
    Client client(options, rows);
    FAIL("limits.cpu = 2 was accepted");
  } catch (const std::runtime_error& e) {
    CHECK(std::string(e.what()) == "max_cpu is out of range");
  }
  Client client(Ready(), rows);
  CHECK(Thrown([&] { Client(Ready(), rows); }) == Thrown_{SKEP_E_BUSY, 4002});
}

TEST_CASE("every option arrives", "[unit]") {
  const Options options{.join_string = "skep-join:abc",
                        .endpoint = "epochs=1",
                        .population = "pump \"7\"",
                        .app_version = "2.4.1",
                        .policy_json = "{}",
                        .proxy = "http://proxy:3128",
                        .storage_dir = "device",
                        .eligibility = {.charging = false, .unmetered = false, .min_battery = 0.5F},
                        .limits = {.threads = 3,
                                   .cpu = 0.25F,
                                   .device = "cuda:1",
                                   .memory = 17U << 20,
                                   .storage = 18U << 20,
                                   .bytes_per_day = 19U << 20,
                                   .per_run = std::chrono::minutes{5},
                                   .between_runs = std::chrono::seconds{7}},
                        .log_level = SKEP_LOG_DEBUG};
  const std::string json = Client(options, std::make_shared<Rows>()).status_json();
  CHECK(
      json ==
      R"({"last":{"status":"SKEP_OK","code":0},"capabilities":null,)"
      R"("options":{"join_string":"skep-join:abc",)"
      R"("endpoint":"epochs=1","population":"pump \"7\"","app_version":"2.4.1",)"
      R"("storage_dir":"device","policy_json":"{}","device":"cuda:1","proxy":"http://proxy:3128",)"
      R"("log_level":3,"require_charging":0,"require_idle":1,"require_unmetered":0,)"
      R"("min_battery":0.5,"max_cpu":0.25,"max_threads":3,"max_memory":17825792,)"
      R"("max_storage":18874368,"max_bytes_per_day":19922944,"max_seconds_per_run":300,)"
      R"("min_seconds_between_runs":7}})");
}

TEST_CASE("the defaults of both layers agree", "[unit]") {
  const auto rows = std::make_shared<Rows>();
  const Options untouched{.storage_dir = "device"};
  const std::string from_cpp = Client(untouched, rows).status_json();

  skep_options options{};
  skep_options_init(&options, sizeof options);
  options.storage_dir = "device";
  const skep_data_source data{
      sizeof data,
      0,
      nullptr,
      [](void*, const skep_task*) -> std::int64_t { return 0; },
      [](void*, const skep_task*, std::uint64_t) { return Status{}; },
      [](void*, const skep_task*, std::size_t, Batch*) { return Status{}; }};
  skep_client* client = nullptr;
  REQUIRE(skep_client_new(&options, &data, nullptr, &client, nullptr) == SKEP_OK);
  std::string from_c(from_cpp.size(), '\0');
  std::size_t size = from_c.size() + 1;
  REQUIRE(skep_client_status_json(client, from_c.data(), &size) == SKEP_OK);
  skep_client_free(client);
  CHECK(from_c == from_cpp);
}

TEST_CASE("history grows, and is gone after forget", "[unit]") {
  Client client(Ready(), std::make_shared<Rows>(20));
  CHECK(client.history_json() == R"({"contributions":[]})");
  client.run_once();
  client.run_once();
  CHECK(client.history_json() ==
        R"({"contributions":[{"round":2,"kind":"train","examples":20,"metrics":[]},)"
        R"({"round":1,"kind":"train","examples":20,"metrics":[]}]})");
  client.forget();
  const Outcome outcome = client.run_once();
  CHECK(outcome.status == SKEP_E_ARGUMENT);
  CHECK(outcome.code == 7004);
  CHECK(Thrown([&] { static_cast<void>(client.history_json()); }).first == SKEP_E_ARGUMENT);
}

TEST_CASE("status can be read from another thread while a run is on", "[unit]") {
  Client client(Ready("wait"), std::make_shared<Rows>());
  std::promise<void> waiting;
  client.on_progress([&](const Progress& p) {
    if (p.phase == SKEP_PHASE_WAIT) waiting.set_value();
  });
  std::string status;
  std::thread other([&] {
    waiting.get_future().wait();
    status = client.status_json();
    client.cancel();
  });
  client.run_once();
  other.join();
  CHECK(Has(status, "\"last\""));
}

}  // namespace
}  // namespace skep::test
