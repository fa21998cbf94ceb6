#include "tests/parity/federation.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>

#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>

#include "aggregator/server/admin_socket.h"
#include "tests/support/catch.h"

namespace skep::test {
namespace {

namespace json = boost::json;
using aggregator::AdminRequest;

const std::string kPrograms = SKEP_BINARY_DIR "/bin/";
constexpr Milliseconds kPatience{120'000};
constexpr Milliseconds kBetweenLooks{3};

// Small, with unequal parts, a fixed split, a pinned instruction set and no GPU, so that only what
// a test sets can make a difference.
constexpr const char* kExperiment = R"(schema = 1
name = "parity"
population = "example"
seed = 42

[data]
path = "pumps.csv"
label = "state"
normalize = "standard"
num_clients = 8
partition = "dirichlet"
dirichlet_alpha = 0.5
partition_seed = 7

[model]
architecture = "mlp"
hidden = [16]

[training]
rounds = 3
clients_per_round = 8
client_eval_every = 0

[client]
local_epochs = 2
batch_size = 10
learning_rate = 0.1

[run]
isa = "portable"
device = "cpu"
)";

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Tail(const std::string& text) {
  constexpr std::size_t kShown = 1500;
  return text.size() <= kShown ? text : "..." + text.substr(text.size() - kShown);
}

}  // namespace

std::string TextOf(const json::object& run, const char* key) {
  const json::value* found = run.if_contains(key);
  return found != nullptr && found->is_string() ? json::value_to<std::string>(*found) : "";
}

std::int64_t NumberOf(const json::object& run, const char* key) {
  const json::value* found = run.if_contains(key);
  return found != nullptr && found->is_int64() ? found->get_int64() : 0;
}

std::int64_t Reported(const json::object& run) {
  return NumberOf(run.at("counts").as_object(), "ok");
}

Federation::Federation(const FederationSetup& setup) {
  std::string text = kExperiment;
  text.insert(text.find("path = "), setup.data_lines);
  (void)folder_.Write("run.toml", text);
  std::filesystem::copy_file(SKEP_SOURCE_DIR "/examples/loopback/pumps.csv",
                             folder_.path() / "pumps.csv");
  const Outcome made =
      RunToEnd({.words = {kPrograms + "skep-aggregator", "--allow-root", "init", "--name",
                          "127.0.0.1", "--dir", (folder_.path() / "agg").string(), "--devices-port",
                          "0", "--enrol-port", "0"}});
  INFO(made.err);
  REQUIRE(made.code == 0);
  // Between two runs the devices come back at once.
  std::ofstream(folder_.path() / "agg" / "server.toml", std::ios::app)
      << "[pace]\nmin_return = \"1s\"\n"
      << setup.server_lines << "\n";
  Serve();
  (void)Ask("POST", "/api/v1/populations", R"({"name":"example"})");
  const json::value tokens =
      Ask("POST", "/api/v1/tokens",
          R"({"population":"example","count":)" + std::to_string(setup.devices) + "}");
  std::vector<std::size_t> order = setup.joining;
  if (order.empty()) {
    order.resize(setup.devices);
    std::iota(order.begin(), order.end(), std::size_t{0});
  }
  for (const std::size_t number : order) {
    Join(number, json::value_to<std::string>(tokens.at("join_strings").at(number)));
  }
  for (const std::size_t number : order) StartDevice(number);
  WaitHeld(setup.devices);
}

std::string Federation::DeviceFolder(std::size_t number) const {
  return (folder_.path() / ("device-" + std::to_string(number))).string();
}

std::vector<std::string> Federation::Aggregator(std::vector<std::string> words) const {
  words.insert(words.begin(), {kPrograms + "skep-aggregator", "--allow-root", "--config",
                               (folder_.path() / "agg" / "server.toml").string()});
  return words;
}

void Federation::Serve() {
  const auto log = folder_.path() / ("serve-" + std::to_string(served_++) + ".err");
  server_ = std::make_unique<Process>(Command{.words = Aggregator({"serve"})}, log.string());
  const auto ready = server_->ReadLine(kPatience);
  INFO(server_->Errors());
  REQUIRE(ready.has_value());
}

void Federation::KillServer() {
  server_->Signal(SIGKILL);
  REQUIRE(server_->WaitFor(kPatience) == 128 + SIGKILL);
}

void Federation::Join(std::size_t number, const std::string& join_string) {
  const Outcome joined = RunToEnd(
      {.words = {kPrograms + "skep-client", "--storage", DeviceFolder(number), "join", "-"},
       .input = join_string + "\n"});
  INFO(joined.out << joined.err);
  REQUIRE(joined.code == 0);
}

void Federation::StartDevice(std::size_t number) {
  // The part is not given: it is the client number that the token carries.
  devices_[number] = std::make_unique<Process>(
      Command{.words = {kPrograms + "skep-client", "--storage", DeviceFolder(number), "run",
                        "--data-experiment", experiment(), "--set", "limits.device=cpu"}},
      DeviceFolder(number) + ".err");
}

void Federation::KillDevice(std::size_t number) {
  device(number).Signal(SIGKILL);
  REQUIRE(device(number).WaitFor(kPatience) == 128 + SIGKILL);
}

json::value Federation::Ask(const std::string& method, const std::string& path,
                            const std::string& body) {
  return Answer({.method = method, .path = path, .body = body});
}

json::value Federation::Answer(const AdminRequest& request) {
  const auto answer =
      aggregator::CallAdmin((folder_.path() / "agg" / "admin.sock").string(), request, kPatience);
  if (!answer) FAIL(answer.error().message << "\n" << Logs());
  if (answer->status != 200) FAIL(request.path << ": " << answer->body);
  return json::parse(answer->body).at("data");
}

void Federation::WaitHeld(std::size_t count) {
  const SteadyTime until = ReadClock().steady + kPatience;
  std::int64_t held = -1;
  while (held != static_cast<std::int64_t>(count)) {
    held = Ask("GET", "/api/v1/populations").at(0).at("held").to_number<std::int64_t>();
    if (ReadClock().steady > until) FAIL(held << " of " << count << " held\n" << Logs());
    if (server_->WaitFor(kBetweenLooks)) FAIL("the server ended\n" << Logs());
  }
}

std::string Federation::StartRun(const std::vector<std::string>& sets) {
  json::array values;
  for (const std::string& set : sets) values.emplace_back(set);
  const json::object body{{"text", ReadText(experiment())},
                          {"path", "run.toml"},
                          {"folder", folder_.path().string()},
                          {"sets", std::move(values)}};
  // Without a key of its own the same start would give the run of before.
  const json::value started = Answer({.method = "POST",
                                      .path = "/api/v1/runs",
                                      .idempotency_key = "run-" + std::to_string(++started_),
                                      .body = json::serialize(body)});
  CHECK(started.at("existed") == false);
  return json::value_to<std::string>(started.at("id"));
}

json::object Federation::WaitUntil(const std::string& run, const std::string& what,
                                   const Condition& is_so) {
  const SteadyTime until = ReadClock().steady + kPatience;
  while (true) {
    json::object found = Ask("GET", "/api/v1/runs/" + run).as_object();
    if (is_so(found)) return found;
    found.erase("experiment");
    if (ReadClock().steady > until) {
      FAIL("no " << what << ": " << json::serialize(found) << "\n" << Logs());
    }
    if (server_->WaitFor(kBetweenLooks)) FAIL("the server ended\n" << Logs());
  }
}

json::object Federation::WaitOver(const std::string& run) {
  return WaitUntil(run, "end of the run",
                   [](const json::object& found) { return TextOf(found, "state") != "running"; });
}

std::string Federation::Deployed(const std::vector<std::string>& sets) {
  const json::object run = WaitOver(StartRun(sets));
  INFO(TextOf(run, "reason"));
  CHECK(TextOf(run, "state") == "finished");
  return TextOf(run, "model_sha256");
}

std::string Federation::Simulated(const std::vector<std::string>& sets) {
  const std::string output =
      (folder_.path() / ("simulated-" + std::to_string(simulated_++))).string();
  Command command{.words = {kPrograms + "skep-simulator", "run", experiment(), "--quiet",
                            "--no-report", "--output", output}};
  for (const std::string& set : sets) {
    command.words.emplace_back("--set");
    command.words.push_back(set);
  }
  const Outcome outcome = RunToEnd(command);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  std::istringstream lines(ReadText(output + "/metrics.jsonl"));
  std::string hash;
  for (std::string line; std::getline(lines, line);) {
    const json::object record = json::parse(line).as_object();
    if (TextOf(record, "event") == "round") hash = TextOf(record, "model_sha256");
  }
  REQUIRE(hash.size() == 64);
  return hash;
}

std::string Federation::Logs() const {
  std::string text;
  for (int i = 0; i < served_; ++i) {
    text +=
        "--- server\n" + Tail(ReadText(folder_.path() / ("serve-" + std::to_string(i) + ".err")));
  }
  for (const auto& [number, process] : devices_) {
    text += "--- device " + std::to_string(number) + "\n" + Tail(process->Errors());
  }
  return text;
}

}  // namespace skep::test
