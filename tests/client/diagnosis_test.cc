// Diagnosis: each step by name, up to the one that fails, with its number and remedy.
#include "client/embed/diagnosis.h"

#include <sys/stat.h>

#include "client/agent/conditions.h"
#include "client/embed/result.h"
#include "shared/base/file.h"
#include "tests/client/agent_world.h"
#include "tests/support/catch.h"

namespace skep::embed {
namespace {

using test::AgentWorld;
using test::Peer;

struct Step {
  std::string name;
  std::string text;
  std::optional<Error> problem;
};

struct Findings {
  std::vector<Step> steps;
  skep_status status = SKEP_OK;

  [[nodiscard]] const Step& last() const { return steps.back(); }
  [[nodiscard]] std::string Names() const {
    std::string names;
    for (const Step& step : steps) names += (names.empty() ? "" : " ") + step.name;
    return names;
  }
};

Findings Look(AgentWorld& world) {
  Options options;
  options.storage_dir = world.StorageFolder();
  options.endpoint = world.config.endpoint;
  options.eligibility = world.settings.eligibility;
  options.caps = world.settings.caps;
  options.limits = world.settings.limits;
  Findings findings;
  const auto hear = [](void* user, const char* name, std::int32_t code, const char* found,
                       const char* advice) {
    Step step{.name = name, .text = found, .problem = {}};
    if (code != 0) step.problem = Error{code, found, advice};
    static_cast<Findings*>(user)->steps.push_back(std::move(step));
  };
  findings.status = Diagnose(options, {hear, &findings});
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
  CHECK(findings.status == StatusOfCode(code));
}

TEST_CASE("a healthy device passes every step", "[unit]") {
  AgentWorld world;
  const Findings findings = LookAtServer(world);
  CHECK(findings.status == SKEP_OK);
  CHECK(findings.Names() ==
        "configuration folder disk clock proxy name tcp tls certificate device eligibility");
  CHECK(world.server.Heard<wire::Goodbye>().size() == 1);
  CHECK(world.server.Heard<wire::Poll>().empty());  // no task is asked for
}

TEST_CASE("a device that is not enrolled fails at its folder", "[unit]") {
  AgentWorld world;
  CheckIll(Look(world), "folder", 4004);
  REQUIRE(agent::Storage::Create(world.StorageFolder()).has_value());
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
  world.config.endpoint = "elsewhere.example:8443";
  CheckIll(LookAtServer(world), "name", 3103);
  CHECK(world.server.connections == 0);
}

TEST_CASE("while another process is connected its session is left alone", "[unit]") {
  AgentWorld world;
  world.Enrol();
  const agent::Storage held = agent::Storage::Open(world.StorageFolder()).value();
  world.server.Start();
  const Findings findings = Look(world);
  world.server.Stop();
  CHECK(findings.status == SKEP_OK);
  CHECK(world.server.Heard<wire::Hello>().empty());
  CHECK(findings.steps[8].text.find("is connected with it") != std::string::npos);
}

TEST_CASE("a condition that is not met fails last and is named", "[unit]") {
  AgentWorld world;
  world.settings.eligibility.unmetered = true;
  // Whether it is met is the machine's; where no NetworkManager runs it is unknown.
  const Status fit = agent::CheckEligible({.unmetered = true}, agent::ProbeConditions());
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
}  // namespace skep::embed
