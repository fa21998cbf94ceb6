// The C++ layer: what data sources and trainers get, return and throw.
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/embed/rows.h"
#include "tests/support/catch.h"

namespace skep::test {
namespace {

// Runs once and keeps the log.
struct Logged {
  Outcome outcome;
  std::vector<std::string> debug_lines;
};
Logged RunLogged(const std::shared_ptr<DataSource>& data,
                 std::shared_ptr<Trainer> trainer = nullptr, const std::string& script = "") {
  Logged logged;
  Client client(Ready(script), data, std::move(trainer));
  client.on_log([&](int level, std::string_view line) {
    if (level == SKEP_LOG_DEBUG) logged.debug_lines.emplace_back(line);
  });
  logged.outcome = client.run_once();
  return logged;
}

struct Scripted : Trainer {
  std::function<Status(Task&, std::span<Tensor>, std::uint64_t&)> on_train;
  std::function<Status(Task&, std::span<const Tensor>, std::uint64_t&)> on_evaluate;

  [[nodiscard]] std::uint32_t capabilities() const override { return SKEP_CAN_PARTIAL; }
  Status train(Task& task, std::span<Tensor> model, std::uint64_t& num_examples) override {
    return on_train(task, model, num_examples);
  }
  Status evaluate(Task& task, std::span<const Tensor> model, std::uint64_t& num_examples) override {
    return on_evaluate(task, model, num_examples);
  }
};

TEST_CASE("what a data source throws ends the run, and its text stays in the debug log", "[unit]") {
  const auto rows = std::make_shared<Rows>();
  const auto complain = [] { throw std::runtime_error("disk of row 7 unreadable"); };
  SECTION("count") {
    rows->before_count = [&](TaskView) { complain(); };
  }
  SECTION("rewind") {
    rows->before_rewind = complain;
  }
  SECTION("next") {
    rows->before_next = complain;
  }
  const Logged logged = RunLogged(rows);
  CHECK(logged.outcome.status == SKEP_E_DATA);
  CHECK(logged.outcome.code == 7406);
  CHECK(logged.outcome.message == "the task ended early");
  CHECK(logged.debug_lines == std::vector<std::string>{"disk of row 7 unreadable"});
}

TEST_CASE("memory that runs out in a callback is told apart", "[unit]") {
  const auto rows = std::make_shared<Rows>();
  rows->before_next = [] { throw std::bad_alloc(); };
  CHECK(RunLogged(rows).outcome.status == SKEP_E_MEMORY);
}

TEST_CASE("anything can be thrown", "[unit]") {
  const auto rows = std::make_shared<Rows>();
  rows->before_count = [](TaskView) { throw 42; };
  const Logged logged = RunLogged(rows);
  CHECK(logged.outcome.status == SKEP_E_DATA);
  CHECK(logged.debug_lines == std::vector<std::string>{"an exception that is no std::exception"});
}

TEST_CASE("a data source sees the task", "[unit]") {
  const auto rows = std::make_shared<Rows>();
  bool is_evaluating = false;
  rows->before_count = [&](TaskView task) {
    CHECK(task.id() == "stub-1");
    CHECK(task.round() == 1);
    CHECK(task.text("model.loss") == "cross-entropy");
    CHECK(task.text("data.spec").empty());
    CHECK(task.text("data.spec", "none") == "none");
    CHECK(task.number("client.num_classes", 0) == 10);
    CHECK(task.number("training.unheard_of", -1) == -1);
    is_evaluating = task.evaluating();
  };
  CHECK(RunLogged(rows).outcome.contributed());
  CHECK_FALSE(is_evaluating);
  RunLogged(rows, nullptr, "evaluate");
  CHECK(is_evaluating);
}

TEST_CASE("batches that break the contract are refused by number", "[unit]") {
  struct Broken : Rows {
    std::function<void(Batch&)> spoil;
    void next(TaskView task, std::size_t max_rows, Batch& out) override {
      Rows::next(task, max_rows, out);
      if (out.rows > 1) spoil(out);  // the stub's first look at one row passes
    }
  };
  const auto rows = std::make_shared<Broken>();
  const auto code_after = [&](std::function<void(Batch&)> spoil) {
    rows->spoil = std::move(spoil);
    const Outcome outcome = RunLogged(rows).outcome;
    CHECK(outcome.status == SKEP_E_DATA);
    return outcome.code;
  };
  CHECK(code_after([](Batch& b) { b.x_cols = 1; }) == 7101);
  CHECK(code_after([&](Batch&) { rows->x[1] = std::numeric_limits<float>::infinity(); }) == 7102);
  CHECK(code_after([&](Batch&) { rows->y[0] = 10; }) == 7103);
  CHECK(code_after([](Batch& b) { b.rows = 33; }) == 7104);
}

TEST_CASE("a trainer gets named tensors, batches by epoch, and reports", "[unit]") {
  const auto rows = std::make_shared<Rows>(50);
  const auto trainer = std::make_shared<Scripted>();
  std::map<std::string, std::vector<std::int64_t>> shapes;
  float sum = 0;
  trainer->on_train = [&](Task& task, std::span<Tensor> model, std::uint64_t& num_examples) {
    for (Tensor& tensor : model) {
      const auto extents = shape(tensor);
      shapes[tensor.name] = {extents.begin(), extents.end()};
      for (float& value : floats(tensor)) value *= 2;
    }
    const Tensor& first = model[0];
    sum = std::accumulate(floats(first).begin(), floats(first).end(), 0.0F);
    Batch batch{};
    Status status = task.rewind(task.seed(0));
    while (status == SKEP_OK) {
      status = task.next(16, batch);
      if (batch.rows == 0) break;
      num_examples += batch.rows;
      task.progress(static_cast<double>(num_examples) / 50, 0.25);
    }
    return status;
  };
  double loss = 0;
  Client client(Ready(), rows, trainer);
  client.on_progress([&](const Progress& p) {
    if (p.phase == SKEP_PHASE_TRAIN) loss = p.loss;
  });
  const Outcome outcome = client.run_once();
  CHECK(outcome.contributed());
  CHECK(outcome.num_examples == 50);
  CHECK(shapes["weight"] == std::vector<std::int64_t>{10, 2});
  CHECK(shapes["bias"] == std::vector<std::int64_t>{10});
  CHECK(sum == 20.0F);  // 20 values of 0.5, doubled
  CHECK(loss == 0.25);
  CHECK(client.status_json().find(R"("capabilities":2)") != std::string::npos);
}

TEST_CASE("a trainer evaluates by metrics, of which there are at most 32", "[unit]") {
  const auto trainer = std::make_shared<Scripted>();
  Status last = SKEP_OK;
  trainer->on_evaluate = [&](Task& task, std::span<const Tensor>, std::uint64_t& num_examples) {
    for (int i = 0; i < 33; ++i) last = task.metric(("m" + std::to_string(i)).c_str(), 0.5);
    CHECK(task.metric("m0", 0.75) == SKEP_OK);
    num_examples = 8;
    return task.check();
  };
  Client client(Ready("evaluate"), std::make_shared<Rows>(), trainer);
  CHECK(client.run_once().contributed());
  CHECK(last == SKEP_E_ARGUMENT);
  CHECK(client.history_json().find(R"("kind":"evaluate","examples":8,"metrics":["m0",)") !=
        std::string::npos);
}

TEST_CASE("what a trainer throws or returns ends the run", "[unit]") {
  const auto rows = std::make_shared<Rows>();
  const auto trainer = std::make_shared<Scripted>();
  trainer->on_train = [](Task&, std::span<Tensor>, std::uint64_t&) -> Status {
    throw std::runtime_error("loss is NaN");
  };
  Logged logged = RunLogged(rows, trainer);
  CHECK(logged.outcome.status == SKEP_E_TRAINER);
  CHECK(logged.debug_lines == std::vector<std::string>{"loss is NaN"});

  trainer->on_train = [](Task&, std::span<Tensor>, std::uint64_t&) -> Status { return SKEP_LIMIT; };
  CHECK(RunLogged(rows, trainer).outcome.status == SKEP_LIMIT);

  trainer->on_train = [](Task&, std::span<Tensor>, std::uint64_t&) -> Status { return SKEP_OK; };
  logged = RunLogged(rows, trainer);
  CHECK(logged.outcome.status == SKEP_E_TRAINER);  // num_examples stayed 0
  CHECK(logged.outcome.code == 7402);
}

TEST_CASE("an error of the data source comes through the trainer unchanged", "[unit]") {
  const auto rows = std::make_shared<Rows>();
  const auto trainer = std::make_shared<Scripted>();
  trainer->on_train = [&](Task& task, std::span<Tensor>, std::uint64_t&) {
    rows->before_next = [] { throw std::runtime_error("gone"); };
    Batch batch{};
    return task.next(16, batch);
  };
  CHECK(RunLogged(rows, trainer).outcome.status == SKEP_E_DATA);
}

TEST_CASE("elements of another type than float are not mistaken for it", "[unit]") {
  std::int64_t step = 3;
  Tensor tensor{"step", &step, nullptr, sizeof step, SKEP_I64, 0};
  CHECK_THROWS_WITH(floats(tensor), "step is not of type F32");
  CHECK(shape(tensor).empty());
}

}  // namespace
}  // namespace skep::test
