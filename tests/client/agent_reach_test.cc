// An aggregator that cannot be reached, and one that cannot be trusted: two things, told apart.
#include "client/agent/reach.h"

#include <sys/socket.h>

#include <netinet/in.h>
#include <unistd.h>

#include "client/agent/state.h"
#include "tests/client/agent_world.h"
#include "tests/support/catch.h"

namespace skep::agent {
namespace {

using std::chrono::seconds;
using test::AgentWorld;
using test::Peer;

// A port of loopback on which connections are not answered: the queue of this listener is full.
class DeafPort {
 public:
  DeafPort() {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    socklen_t size = sizeof(address);
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~DeafPort() { ::close(listener_); }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Accepts TCP, says nothing.
  void Listen() const { REQUIRE(::listen(listener_, 4) == 0); }

 private:
  int listener_ = -1;
  std::uint16_t port_ = 0;
};

// One check-in at HOST:PORT in place of the server's own.
Outcome RunAt(AgentWorld& world, const std::string& host, std::uint16_t port) {
  world.Enrol();
  return world.RunAgentAt({host, port});
}

TEST_CASE("a refused connection says so and is unreachable", "[unit]") {
  AgentWorld world;
  const DeafPort nobody;
  const Outcome outcome = RunAt(world, "127.0.0.1", nobody.port());
  CHECK(outcome.code == 3001);
  CHECK(outcome.why ==
        "cannot reach 127.0.0.1:" + std::to_string(nobody.port()) + ": connection refused");
}

TEST_CASE("an address to listen on is not one to connect to", "[unit]") {
  for (const char* host : {"0.0.0.0", "::"}) {
    AgentWorld world;
    const Outcome outcome = RunAt(world, host, 8443);
    CHECK(outcome.code == 3001);
    CHECK(outcome.why.find("is an address to listen on, not one to connect to") !=
          std::string::npos);
  }
}

TEST_CASE("a name that does not exist is not found", "[unit]") {
  AgentWorld world;
  const Outcome outcome = RunAt(world, "nowhere.invalid", 8443);
  CHECK(outcome.code == 3002);
  CHECK(outcome.why.starts_with("name not found: nowhere.invalid: "));
}

TEST_CASE("an aggregator that accepts and stays silent timed out, and is not untrusted", "[unit]") {
  AgentWorld world;
  world.settings.limits.handshake = Milliseconds(50);
  const DeafPort silent;
  silent.Listen();
  const Outcome outcome = RunAt(world, "127.0.0.1", silent.port());
  CHECK(outcome.code == 3001);
  CHECK(outcome.why.find("handshake not completed in time") != std::string::npos);
}

TEST_CASE("an aggregator under another name is not trusted, by name", "[unit]") {
  AgentWorld world;
  world.server.certificate = world.server.pki().Server({"agg.example"});
  world.Enrol();
  const Outcome outcome = world.RunToEnd();
  CHECK(outcome.code == 3112);
  CHECK(outcome.why.find("agg.example") != std::string::npos);
  CHECK(outcome.why.find("127.0.0.1") != std::string::npos);
}

TEST_CASE("an aggregator of another authority is not trusted; both certificates are named",
          "[unit]") {
  AgentWorld world;
  const test::Pki other;
  world.server.certificate = other.Server();
  world.Enrol();
  const Outcome outcome = world.RunToEnd();
  CHECK(outcome.code == 3113);
  CHECK(outcome.why.find(world.server.pki().server_ca.certificate().Fingerprint().Hex()) !=
        std::string::npos);
  CHECK(world.server.heard.empty());
}

TEST_CASE("a device whose certificate has ended does not even connect", "[unit]") {
  AgentWorld world;
  world.validity = crypto::Validity{1'600'000'000'000, 1'700'000'000'000};
  world.Enrol();
  const Outcome outcome = world.RunToEnd();
  CHECK(outcome.code == 3102);
  CHECK(world.server.connections == 0);
}

TEST_CASE("a device that the aggregator does not trust learns it at its first read", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.server.judges_devices_by = test::Pki().device_ca.certificate();
  const Outcome outcome = world.RunToEnd();
  CHECK(outcome.code == 3101);
}

TEST_CASE("an aggregator that refuses the session by number is believed", "[unit]") {
  AgentWorld world;
  world.Enrol();
  const int code = GENERATE(3111, 3105, 3311);
  world.aggregator.before = [&](Peer& peer, const wire::Message& message) {
    if (!std::holds_alternative<wire::Hello>(message)) return false;
    const auto retry = code == 3311 ? wire::RetryClass::kUpgrade : wire::RetryClass::kRejoin;
    peer.Send(wire::PeerError{static_cast<std::uint32_t>(code), retry, 0, 0x10, "refused"});
    peer.Close();
    return true;
  };
  const Outcome outcome = world.RunToEnd();
  CHECK(outcome.code == code);
  CHECK(world.server.connections == 1);
}

TEST_CASE("without --once an unreachable aggregator is tried again and again, with few words",
          "[unit]") {
  AgentWorld world;
  world.settings.once = false;
  world.settings.budget = std::chrono::minutes(20);  // of the hasty clock
  world.haste = 10'000;
  const DeafPort nobody;
  const Outcome outcome = RunAt(world, "127.0.0.1", nobody.port());
  CHECK(outcome.code == 0);
  CHECK(world.lines.size() >= 2);
  CHECK(world.lines.size() <= 21);  // at most one a minute
  CHECK(world.Logged(": connection refused (SKEP-3001); next in "));
  CHECK(world.Logged(" tries in "));
  const Storage storage = Storage::Open(world.StorageFolder()).value();
  CHECK(LoadState(storage).value().memory.failures >= 2);
}

TEST_CASE("without --once an untrusted aggregator is tried again after six hours", "[unit]") {
  AgentWorld world;
  const test::Pki other;
  world.server.certificate = other.Server();
  world.settings.once = false;
  world.validity =
      crypto::Validity{test::Pki().now - test::kHour, test::Pki().now + 99 * test::kHour};
  world.settings.budget = std::chrono::hours(40);
  world.haste = 50'000;
  world.Enrol();
  const Outcome outcome = world.RunToEnd();
  CHECK(outcome.code == 0);
  CHECK(world.server.connections >= 2);
  CHECK(world.server.connections <= 7);
  CHECK(world.Logged("SKEP-3113 "));
  CHECK(world.Logged("next try in 6 h"));
}

TEST_CASE("the same cause is told once a minute, another one at once", "[unit]") {
  Reach reach;
  const Error refused{3001, "cannot reach a:1: connection refused", ""};
  const Error late{3001, "cannot reach a:1: timed out after 3 s", ""};
  const SteadyTime start{seconds(1000)};
  CHECK(reach.Failed(start, refused, seconds(4)) ==
        "cannot reach a:1: connection refused (SKEP-3001); next in 4 s");
  CHECK_FALSE(reach.Failed(start + seconds(4), refused, seconds(8)));
  CHECK(reach.Failed(start + seconds(12), late, seconds(8)) ==
        "cannot reach a:1: timed out after 3 s (SKEP-3001); 3 tries in 12 s, next in 8 s");
  CHECK_FALSE(reach.Failed(start + seconds(71), late, seconds(8)));
  CHECK(reach.Failed(start + seconds(72), late, seconds(8)));
  reach.Succeeded();
  CHECK(reach.Failed(start + seconds(73), late, seconds(1)) ==
        "cannot reach a:1: timed out after 3 s (SKEP-3001); next in 1 s");
}

TEST_CASE("only failures of trust are failures of trust", "[unit]") {
  for (const int code : {3101, 3102, 3105, 3107, 3112, 3113}) CHECK(IsTrustFailure(code));
  for (const int code : {0, 3001, 3002, 3103, 3116, 3324}) CHECK_FALSE(IsTrustFailure(code));
}

}  // namespace
}  // namespace skep::agent
