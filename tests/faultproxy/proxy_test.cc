// The proxy as a whole: orders, bounds, and what is left when it has gone.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tests/faultproxy/fixture.h"

namespace skep::faultproxy {
namespace {

using test::OpenDescriptors;
using test::Pattern;
using test::Peer;
using test::World;
using Kind = Event::Kind;

TEST_CASE("a rule that comes late holds for open connections, from now on") {
  World world({});
  auto pair = world.Connect();
  CHECK(pair.client.Send("12345"));
  CHECK(pair.server.Receive(5) == "12345");
  const auto rule = world.proxy->Do("cut direction=up at=3");  // missed
  REQUIRE(rule);
  CHECK((rule->kind == Kind::kRule && rule->rule == 1));
  CHECK(pair.client.Send("6"));
  CHECK(pair.server.Receive(1) == "6");
  REQUIRE(world.proxy->Do("cut direction=up at=8"));
  CHECK(pair.client.Send("789"));
  CHECK(pair.server.ReceiveAll() == std::pair{std::string("78"), std::string("end")});
  auto other = world.Connect();
  REQUIRE(world.proxy->Do("reset connection=2"));
  CHECK(other.client.ReceiveAll().second == "reset");
}

TEST_CASE("what is held is released by order, for the directions that it names") {
  World world({"stall"});
  auto pair = world.Connect();
  CHECK(pair.client.Send("up"));
  CHECK(pair.server.Send("down"));
  (void)world.AwaitIn(2, 4);
  CHECK(world.Count().up_out == 0);
  REQUIRE(world.proxy->Do("release connection=1 direction=up"));
  CHECK(pair.server.Receive(2) == "up");
  CHECK(world.Count().down_out == 0);
  REQUIRE(world.proxy->Do("release connection=2"));
  CHECK(world.Count().down_out == 0);
  REQUIRE(world.proxy->Do("release"));
  CHECK(pair.client.Receive(4) == "down");
}

TEST_CASE("a rule that is cleared ends, also for what it holds; another number is refused") {
  World world({"stall", "cut connection=2 at=0", "blackhole for=1h"});
  const Peer client = world.Call();
  CHECK(client.Send("hello"));
  (void)world.Await(Kind::kAccepted);
  CHECK_FALSE(world.upstream.HasCaller());
  REQUIRE(world.proxy->Do("clear rule=3"));
  const Peer server = world.upstream.Accept();
  (void)world.AwaitIn(5, 0);
  CHECK(world.Count().up_out == 0);
  CHECK(world.proxy->Do("clear rule=9")->code == 1102);
  REQUIRE(world.proxy->Do("clear"));
  CHECK(server.Receive(5) == "hello");
  auto second = world.Connect();
  CHECK(second.client.Send("x"));
  CHECK(second.server.Receive(1) == "x");
}

TEST_CASE("while the listener is closed the system refuses; open again, the port is the same") {
  World world({});
  auto open = world.Connect();
  for (int i = 0; i < 3; ++i) {
    REQUIRE(world.proxy->Do("close"));
    int error = 0;
    CHECK_FALSE(Peer::To(world.proxy->port(), &error).is_open());
    CHECK(error == ECONNREFUSED);
    CHECK(open.client.Send("a"));
    CHECK(open.server.Receive(1) == "a");
    CHECK(world.proxy->Do("open")->kind == Kind::kDone);
    auto again = world.Connect();
    CHECK(again.client.Send("b"));
    CHECK(again.server.Receive(1) == "b");
  }
}

TEST_CASE("counters are told for each open connection and for all") {
  World world({});
  auto first = world.Connect();
  auto second = world.Connect();
  CHECK(first.client.Send("12345"));
  CHECK(first.server.Receive(5) == "12345");
  CHECK(second.server.Send("123"));
  CHECK(second.client.Receive(3) == "123");
  CHECK(world.AwaitIn(5, 3) == Counters{5, 5, 3, 3});
  const auto of_second = world.proxy->WaitFor([](const Event& event) {
    return event.kind == Kind::kCount && event.connection == 2 && event.counters->down_out == 3;
  });
  CHECK(of_second);
}

TEST_CASE(
    "what is held back for a stalled direction is bounded, and all of it arrives in the end") {
  constexpr std::size_t kBuffer = 4096;
  for (const bool is_up : {true, false}) {
    CAPTURE(is_up);
    World world({"stall"}, {.buffer = kBuffer});
    auto pair = world.Connect();
    Peer& sender = is_up ? pair.client : pair.server;
    Peer& receiver = is_up ? pair.server : pair.client;
    const std::string bytes = Pattern(8'000'000);  // more than the system's own buffers take
    std::thread sending([&] { (void)sender.Send(bytes); });
    const Counters held = is_up ? world.AwaitIn(kBuffer, 0) : world.AwaitIn(0, kBuffer);
    CHECK((is_up ? held.up_in : held.down_in) == kBuffer);
    for (int i = 0; i < 20; ++i) CHECK(world.Count() == held);
    REQUIRE(world.proxy->Do("release"));
    CHECK(receiver.Receive(bytes.size()) == bytes);
    sending.join();
  }
}

TEST_CASE("a receiver that does not read stops the sender, not the proxy") {
  constexpr std::size_t kBuffer = 4096;
  World world({}, {.buffer = kBuffer});
  auto slow = world.Connect();
  const std::string bytes = Pattern(32'000'000);
  std::thread sending([&] { (void)slow.client.Send(bytes); });
  const Counters held = world.AwaitIn(1, 0);
  CHECK(held.up_in <= held.up_out + kBuffer);
  auto other = world.Connect();
  CHECK(other.client.Send("quick"));
  CHECK(other.server.Receive(5) == "quick");
  const Counters later = world.Count();
  CHECK(later.up_in <= later.up_out + kBuffer);
  slow.server.Reset();
  sending.join();
  CHECK(world.Await(Kind::kClosed, 1).how == "upstream-reset");
}

TEST_CASE("many connections at once each get their own bytes, and nothing stays open") {
  constexpr unsigned kMany = 200;
  const std::size_t before = OpenDescriptors();
  {
    World world({"delay time=0s jitter=0s"});
    std::vector<World::Pair> pairs;
    for (unsigned i = 0; i < kMany; ++i) pairs.push_back(world.Connect());
    for (unsigned i = 0; i < kMany; ++i) CHECK(pairs[i].client.Send(Pattern(5000 + i, i)));
    for (unsigned i = kMany; i-- > 0;) {
      // Accepted in the order of the calls, so that the numbers agree.
      const std::string bytes = pairs[i].server.Receive(5000 + i);
      CHECK(bytes == Pattern(5000 + i, i));
      CHECK(pairs[i].server.Send(bytes));
    }
    for (unsigned i = 0; i < kMany; ++i) {
      CHECK(pairs[i].client.Receive(5000 + i) == Pattern(5000 + i, i));
    }
    pairs.resize(kMany / 2);  // half of them end by themselves, the rest with the proxy
    for (std::uint32_t i = kMany / 2 + 1; i <= kMany; ++i) (void)world.Await(Kind::kClosed, i);
    world.proxy->Stop();
    const auto stopped = world.Await(Kind::kStopped);
    CHECK(stopped.counters->up_out == stopped.counters->down_out);
    CHECK(stopped.counters->up_out == 5000 * kMany + kMany * (kMany - 1) / 2);
    CHECK(pairs[0].client.ReceiveAll().second == "reset");
  }
  CHECK(OpenDescriptors() == before);
}

TEST_CASE("connections that end in every way leave no descriptor") {
  World world({"cut connection=1..20 at=3", "reset connection=21..40 at=3",
               "half-close connection=41..60 direction=up at=3", "refuse connection=61..80",
               "duplicate connection=81..100"});
  auto first = world.Call();  // what the first connection allocates for good is there
  (void)world.upstream.Accept();
  const std::size_t before = OpenDescriptors() - 3;  // the client, and two of the proxy
  first.Close();
  for (std::uint32_t number = 2; number <= 100; ++number) {
    CAPTURE(number);
    const Peer client = world.Call();
    (void)client.Send("0123456789");
    if (number > 80) (void)world.upstream.Accept();
    if (number <= 60 || number > 80) {
      const Peer server = world.upstream.Accept();
      (void)server.Receive(3);
    }
  }
  for (std::uint32_t number = 1; number <= 100; ++number) {
    CAPTURE(number);
    (void)world.Await(Kind::kClosed, number);
  }
  (void)world.Count();
  CHECK(OpenDescriptors() == before);
}

TEST_CASE("beyond the limit of connections clients wait until another has gone") {
  World world({}, {.most_connections = 2});
  auto first = world.Connect();
  auto second = world.Connect();
  const Peer third = world.Call();
  CHECK(third.Send("patience"));
  (void)world.Count();
  CHECK_FALSE(world.upstream.HasCaller());
  first.client.Close();
  first.server.Close();
  const Peer server = world.upstream.Accept();
  CHECK(server.Receive(8) == "patience");
}

TEST_CASE("the same seed makes the same faults") {
  const auto faults = [](std::uint64_t seed) {
    World world({"cut direction=up at=1..1000 chance=0.5"}, {.seed = seed});
    std::vector<std::size_t> lengths;
    for (std::uint32_t number = 1; number <= 20; ++number) {
      auto pair = world.Connect();
      (void)pair.client.Send(Pattern(1000));
      pair.client.EndWriting();
      lengths.push_back(pair.server.ReceiveAll().first.size());
    }
    return lengths;
  };
  const auto first = faults(1);
  CHECK(first == faults(1));
  CHECK(first != faults(2));
  const auto whole = std::count(first.begin(), first.end(), std::size_t{1000});
  CHECK((whole > 2 && whole < 18));
}

TEST_CASE("orders come by a channel, a line each; its end ends the proxy") {
  std::array<int, 2> channel{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel.data()) == 0);
  World world({}, {.control = channel[0]});
  const auto say = [&](const std::string& text) {
    CHECK(::send(channel[1], text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  };
  say("cut connecti");
  say("on=1 at=2 # soon\n\nconut\ncount\n");
  CHECK(world.Await(Kind::kRule).rule == 1);
  CHECK(world.Await(Kind::kProblem).code == 1012);
  (void)world.Await(Kind::kCount);
  auto pair = world.Connect();
  CHECK(pair.client.Send("hello"));
  CHECK(pair.server.ReceiveAll() == std::pair{std::string("he"), std::string("end")});
  say("close");  // without a line feed
  ::close(channel[1]);
  (void)world.Await(Kind::kStopped);
  const auto events = world.proxy->Events();
  CHECK(events[events.size() - 2].kind != Kind::kProblem);
  CHECK(world.Await(Kind::kDone).text == "close");
  world.proxy->Stop();
  ::close(channel[0]);
}

TEST_CASE("what cannot be listened on or led to is refused with its number") {
  const auto code = [](ProxyOptions options) {
    const auto made = FaultProxy::Make(std::move(options));
    return made ? 0 : made.error().code;
  };
  const std::string good = "127.0.0.1:9";
  CHECK(code({.listen = "127.0.0.1", .upstream = good}) == 5202);
  CHECK(code({.upstream = ""}) == 5202);
  CHECK(code({.upstream = "127.0.0.1:0"}) == 5202);
  CHECK(code({.listen = "0.0.0.0:0", .upstream = good}) == 1102);
  CHECK(code({.listen = "192.0.2.1:0", .upstream = good}) == 1102);
  CHECK(code({.listen = "0.0.0.0:0", .upstream = good, .allows_remote = true}) == 0);
  CHECK(code({.listen = "192.0.2.1:0", .upstream = good, .allows_remote = true}) == 5201);
  CHECK(code({.upstream = "no-such-name.invalid:9"}) == 3002);
  const World world({});
  CHECK(code({.listen = "127.0.0.1:" + std::to_string(world.proxy->port()), .upstream = good}) ==
        5201);
}

TEST_CASE("it also listens on the loopback address of IPv6") {
  const auto made = FaultProxy::Make({.listen = "[::1]:0", .upstream = "127.0.0.1:9"});
  if (!made) SKEP_SKIP("no IPv6 here: " + made.error().message);
  CHECK((*made)->port() != 0);
}

}  // namespace
}  // namespace skep::faultproxy
