// Doctor: each step by name, up to the one that fails, with its number and remedy.
#include "client/agent/doctor.h"

#include <sys/stat.h>

#include "client/agent/conditions.h"
#include "shared/base/file.h"
#include "tests/client/agent_world.h"
#include "tests/support/catch.h"

namespace skep::agent {
namespace {

using test::AgentWorld;
using test::Peer;

struct Findings {
  std::vector<Step> steps;
  Status status = Ok();

  [[nodiscard]] const Step& last() const { return steps.back(); }
  [[nodiscard]] std::string Names() const {
    std::string names;
    for (const Step& step : steps) names += (names.empty() ? "" : " ") + step.name;
    return names;
  }
};

Findings Look(AgentWorld& world) {
  DoctorSettings settings{
      .config = world.settings.config, .software = "skep-client test", .limits = {}};
  settings.config.storage_dir = world.StorageFolder();
  settings.limits = world.settings.limits;
  Findings findings;
  Loop loop;
  findings.status =
      Examine(settings, loop, [&](const Step& step) { findings.steps.push_back(step); });
  return findings;
}

Findings LookAtServer(AgentWorld& world) {
  world.Enrol();
  world.server.Start();
  Findings findings = Look(world);
  world.server.Stop();
  return findings;
}

void CheckIll(const Findings& findings, const std::string& step, int code) {
  INFO(findings.Names());
  REQUIRE(findings.last().problem.has_value());
  CHECK(findings.last().name == step);
  CHECK(findings.last().problem->code == code);
  CHECK(findings.status.error().code == code);
}

TEST_CASE("a healthy device passes every step", "[unit]") {
  AgentWorld world;
  const Findings findings = LookAtServer(world);
  CHECK(findings.status.has_value());
  CHECK(findings.Names() ==
        "configuration folder disk clock proxy name tcp tls certificate data traffic device "
        "eligibility");
  CHECK(findings.steps[9].text == "16 examples to train on, 4 held out");
  CHECK(world.server.Heard<wire::Goodbye>().size() == 1);
  CHECK(world.server.Heard<wire::Poll>().empty());  // no task is asked for
}

TEST_CASE("a day's limit that an experiment will exceed is warned of before the first round",
          "[unit]") {
  AgentWorld world;
  std::string table = "a,b,y\n";
  for (int row = 0; row < 20; ++row)
    table +=
        std::to_string(row) + ",1." + std::to_string(row) + (row % 2 == 0 ? ",no\n" : ",yes\n");
  (void)world.folder.Write("own.csv", table);
  // mlp 2-1000-2: 5,002 values, 20 kB each way; each of the two clients is asked every round.
  world.settings.config.experiment =
      world.folder
          .Write("e.toml",
                 "[data]\npath = \"own.csv\"\nnum_clients = 2\npartition = \"iid\"\n"
                 "[model]\narchitecture = \"mlp\"\nhidden = [1000]\n"
                 "[training]\nrounds = 100\nclients_per_round = 2\n")
          .string();
  world.settings.config.data.path.clear();
  const bool is_tight = GENERATE(true, false);
  world.settings.config.limits.bytes_per_day = is_tight ? 1'000'000 : 5'000'000;
  const Findings findings = LookAtServer(world);
  INFO(findings.Names());
  CHECK(findings.status.has_value());
  REQUIRE(findings.steps.size() == 13);
  const std::string& text = findings.steps[10].text;
  INFO(text);
  CHECK(text.starts_with("warning: ") == is_tight);
  CHECK(text.find("a task takes about 40 KB, which leaves ") != std::string::npos);
  CHECK((text.find("about 100 for each client (4.0 MB)") != std::string::npos) == is_tight);
}

TEST_CASE("a device that is not enrolled fails at its folder", "[unit]") {
  AgentWorld world;
  CheckIll(Look(world), "folder", 4004);
  REQUIRE(Storage::Create(world.StorageFolder()).has_value());
  const Findings findings = Look(world);
  CheckIll(findings, "folder", 4004);
  CHECK(findings.last().problem->hint == "skep-client join --join-file FILE");
}

TEST_CASE("a folder that is open to others fails with its remedy", "[unit]") {
  AgentWorld world;
  world.Enrol();
  REQUIRE(::chmod(world.StorageFolder().c_str(), 0755) == 0);
  const Findings findings = Look(world);
  CheckIll(findings, "folder", 4004);
  CHECK(findings.last().problem->hint == "chmod 0700 " + world.StorageFolder());
}

TEST_CASE("wildcard, refused, timed out and wrong name have texts of their own", "[unit]") {
  SECTION("wildcard") {
    AgentWorld world;
    world.host = "0.0.0.0";
    world.Enrol();
    const Findings findings = Look(world);
    CheckIll(findings, "name", 3001);
    CHECK(findings.last().problem->message.find("0.0.0.0 is an address to listen on") !=
          std::string::npos);
    CHECK(findings.last().problem->hint.find("127.0.0.1") != std::string::npos);
  }
  SECTION("refused") {
    AgentWorld world;
    world.Enrol();
    world.server.Start();
    world.server.Stop();  // nobody listens there any more
    const Findings findings = Look(world);
    CheckIll(findings, "tcp", 3001);
    CHECK(findings.last().problem->message.ends_with(": connection refused"));
    CHECK(findings.last().problem->hint.find("is the aggregator running") != std::string::npos);
  }
  SECTION("timed out") {
    AgentWorld world;
    world.settings.limits.handshake = Milliseconds(50);
    world.Enrol();
    const Findings findings = Look(world);  // the socket listens, and nobody answers
    CheckIll(findings, "tcp", 3001);
    CHECK(findings.last().problem->message.find("not completed in time") != std::string::npos);
  }
  SECTION("wrong name") {
    AgentWorld world;
    world.server.certificate = world.server.pki().Server({"agg.example"});
    const Findings findings = LookAtServer(world);
    CheckIll(findings, "tls", 3112);
    CHECK(findings.last().problem->message.find("agg.example") != std::string::npos);
  }
}

TEST_CASE("a name that does not exist fails at its own step", "[unit]") {
  AgentWorld world;
  world.host = "nowhere.invalid";
  world.Enrol();
  CheckIll(Look(world), "name", 3002);
}

TEST_CASE("an aggregator of another authority fails at TLS", "[unit]") {
  AgentWorld world;
  const test::Pki other;
  world.server.certificate = other.Server();
  CheckIll(LookAtServer(world), "tls", 3113);
}

TEST_CASE("a device that was revoked fails at its certificate", "[unit]") {
  AgentWorld world;
  world.aggregator.before = [](Peer& peer, const wire::Message& message) {
    if (!std::holds_alternative<wire::Hello>(message)) return false;
    peer.Send(wire::PeerError{3105, wire::RetryClass::kRejoin, 0, 0x10, "device revoked"});
    return true;
  };
  CheckIll(LookAtServer(world), "certificate", 3105);
}

TEST_CASE("a certificate that has ended is named without a connection", "[unit]") {
  AgentWorld world;
  world.validity = crypto::Validity{1'600'000'000'000, 1'700'000'000'000};
  CheckIll(LookAtServer(world), "certificate", 3102);
  CHECK(world.server.connections == 0);
}

TEST_CASE("an endpoint that is not the enrolment's is 3103", "[unit]") {
  AgentWorld world;
  world.settings.config.endpoint = "elsewhere.example:8443";
  CheckIll(LookAtServer(world), "name", 3103);
  CHECK(world.server.connections == 0);
}

TEST_CASE("while another process is connected its session is left alone", "[unit]") {
  AgentWorld world;
  world.Enrol();
  const Storage held = Storage::Open(world.StorageFolder()).value();
  world.server.Start();
  const Findings findings = Look(world);
  world.server.Stop();
  CHECK(findings.status.has_value());
  CHECK(world.server.Heard<wire::Hello>().empty());
  CHECK(findings.steps[8].text.find("is connected with it") != std::string::npos);
}

TEST_CASE("missing data fail at their step, with the path", "[unit]") {
  AgentWorld world;
  world.settings.config.data.path += ".gone";
  const Findings findings = LookAtServer(world);
  CheckIll(findings, "data", 1201);
  CHECK(findings.last().problem->message.find(world.settings.config.data.path) !=
        std::string::npos);
}

TEST_CASE("a condition that is not met fails last and is named", "[unit]") {
  AgentWorld world;
  world.settings.config.eligibility.unmetered = true;
  // Whether it is met is the machine's; where no NetworkManager runs it is unknown.
  const Status fit = CheckEligible({.unmetered = true}, ProbeConditions());
  const Findings findings = LookAtServer(world);
  if (fit.has_value()) {
    CHECK(findings.last().name == "eligibility");
    CHECK_FALSE(findings.last().problem.has_value());
    return;
  }
  CheckIll(findings, "eligibility", 7401);
  CHECK(findings.last().problem->message == fit.error().message);
}

}  // namespace
}  // namespace skep::agent
