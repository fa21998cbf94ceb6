// Each fault over real sockets, in both directions.
#include "tests/faultproxy/fixture.h"

namespace skep::faultproxy {
namespace {

using test::Pattern;
using test::Peer;
using test::World;
using Kind = Event::Kind;

constexpr const char* kWays[] = {"up", "down"};

// Who sends in a direction, and who receives.
struct Way {
  Peer* sender;
  Peer* receiver;
};
Way Along(World::Pair& pair, const std::string& direction) {
  if (direction == "up") return {&pair.client, &pair.server};
  return {&pair.server, &pair.client};
}
std::uint64_t In(const Counters& counters, const std::string& direction) {
  return direction == "up" ? counters.up_in : counters.down_in;
}
std::uint64_t Out(const Counters& counters, const std::string& direction) {
  return direction == "up" ? counters.up_out : counters.down_out;
}

TEST_CASE("without faults bytes and ends pass in both directions and are counted") {
  World world({});
  auto pair = world.Connect();
  const std::string question = Pattern(300'000, 1);
  const std::string answer = Pattern(200'000, 2);
  std::thread asking([&] {
    (void)pair.client.Send(question);
    pair.client.EndWriting();
  });
  CHECK(pair.server.ReceiveAll() == std::pair{question, std::string("end")});
  asking.join();
  std::thread answering([&] {
    (void)pair.server.Send(answer);
    pair.server.Close();
  });
  CHECK(pair.client.ReceiveAll() == std::pair{answer, std::string("end")});
  answering.join();
  const auto closed = world.Await(Kind::kClosed, 1);
  CHECK(closed.how == "ended");
  CHECK(closed.counters == Counters{300'000, 300'000, 200'000, 200'000});
}

TEST_CASE("a cut lets exactly k bytes pass, then both sides see the end") {
  for (const std::string way : kWays) {
    CAPTURE(way);
    World world({"cut direction=" + way + " at=4"});
    auto pair = world.Connect();
    const auto [sender, receiver] = Along(pair, way);
    CHECK(sender->Send("0123456789"));
    CHECK(receiver->ReceiveAll() == std::pair{std::string("0123"), std::string("end")});
    CHECK(sender->ReceiveAll() == std::pair{std::string(), std::string("end")});
    pair.client.Close();
    pair.server.Close();
    const auto closed = world.Await(Kind::kClosed);
    CHECK(closed.how == "cut");
    CHECK(Out(*closed.counters, way) == 4);
    const auto fault = world.Await(Kind::kFault);
    CHECK((fault.rule == 1 && fault.connection == 1 && fault.at == 4));
    CHECK(DirectionName(*fault.direction) == way);
  }
}

TEST_CASE("a reset lets exactly k bytes pass, then both sides see it") {
  for (const std::string way : kWays) {
    CAPTURE(way);
    World world({"reset direction=" + way + " at=4"});
    auto pair = world.Connect();
    const auto [sender, receiver] = Along(pair, way);
    CHECK(sender->Send("0123456789"));
    CHECK(receiver->ReceiveAll() == std::pair{std::string("0123"), std::string("reset")});
    CHECK(sender->ReceiveAll().second == "reset");
    CHECK(world.Await(Kind::kClosed).how == "reset");
  }
}

TEST_CASE("a cut or reset at any byte of a conversation delivers exactly the bytes before it") {
  constexpr std::size_t kLength = 40;
  const std::string bytes = Pattern(kLength);
  for (const std::string verb : {"cut", "reset"}) {
    for (const std::string way : kWays) {
      World world({});
      for (std::size_t k = 0; k <= kLength; ++k) {
        CAPTURE(verb, way, k);
        REQUIRE(world.proxy->Do("clear"));
        REQUIRE(world.proxy->Do(verb + " direction=" + way + " at=" + std::to_string(k)));
        auto pair = world.Connect();
        const auto [sender, receiver] = Along(pair, way);
        (void)sender->Send(bytes);
        const auto [got, how] = receiver->ReceiveAll();
        CHECK(got == bytes.substr(0, k));
        CHECK(how == (verb == "cut" ? "end" : "reset"));
      }
    }
  }
}

TEST_CASE("a half-close ends one direction at byte k, and the other goes on") {
  for (const std::string way : kWays) {
    CAPTURE(way);
    World world({"half-close direction=" + way + " at=4"});
    auto pair = world.Connect();
    const auto [sender, receiver] = Along(pair, way);
    CHECK(sender->Send("0123456789"));
    CHECK(receiver->ReceiveAll() == std::pair{std::string("0123"), std::string("end")});
    CHECK(receiver->Send("still here"));
    CHECK(sender->Receive(10) == "still here");
    CHECK(sender->Send("into the void"));
    const Counters counters = way == "up" ? world.AwaitIn(23, 10) : world.AwaitIn(10, 23);
    CHECK(In(counters, way) == 23);
    CHECK(Out(counters, way) == 4);
    receiver->Close();
    CHECK(sender->ReceiveAll() == std::pair{std::string(), std::string("end")});
  }
}

TEST_CASE("a stall holds the bytes from k on and loses none") {
  for (const std::string way : kWays) {
    CAPTURE(way);
    World world({"stall direction=" + way + " at=4 for=2s"});
    auto pair = world.Connect();
    const auto [sender, receiver] = Along(pair, way);
    CHECK(sender->Send("0123456789"));
    (void)(way == "up" ? world.AwaitIn(10, 0) : world.AwaitIn(0, 10));
    world.Advance(Milliseconds(1999));
    CHECK(Out(world.Count(), way) == 4);
    CHECK(receiver->Receive(4) == "0123");
    // The other direction is not concerned.
    CHECK(receiver->Send("free"));
    CHECK(sender->Receive(4) == "free");
    world.Advance(Milliseconds(1));
    CHECK(receiver->Receive(6) == "456789");
  }
}

TEST_CASE("one bit of byte k is flipped on its way") {
  for (const std::string way : kWays) {
    CAPTURE(way);
    World world({"corrupt direction=" + way + " at=4 bit=6"});
    auto pair = world.Connect();
    const auto [sender, receiver] = Along(pair, way);
    CHECK(sender->Send("0123456789"));
    CHECK(receiver->Receive(10) == "0123t56789");
  }
}

TEST_CASE("a delay holds each byte for its time") {
  for (const std::string way : kWays) {
    CAPTURE(way);
    World world({"delay direction=" + way + " time=200ms"});
    auto pair = world.Connect();
    const auto [sender, receiver] = Along(pair, way);
    CHECK(sender->Send("hello"));
    (void)(way == "up" ? world.AwaitIn(5, 0) : world.AwaitIn(0, 5));
    world.Advance(Milliseconds(199));
    CHECK(Out(world.Count(), way) == 0);
    world.Advance(Milliseconds(1));
    CHECK(receiver->Receive(5) == "hello");
  }
}

TEST_CASE("a rate lets so many bytes pass a second") {
  for (const std::string way : kWays) {
    CAPTURE(way);
    World world({"rate direction=" + way + " limit=100B/s"});
    auto pair = world.Connect();
    const auto [sender, receiver] = Along(pair, way);
    const std::string bytes = Pattern(50);
    CHECK(sender->Send(bytes));
    (void)(way == "up" ? world.AwaitIn(50, 0) : world.AwaitIn(0, 50));
    for (int i = 0; i < 10; ++i) {
      world.Advance(Milliseconds(20));
      (void)world.Count();
    }
    const std::uint64_t passed = Out(world.Count(), way);
    CHECK(passed >= 18);  // 200 ms of 100 bytes a second
    CHECK(passed <= 24);
    CHECK(receiver->Receive(passed) == bytes.substr(0, passed));
  }
}

TEST_CASE("a fault by time comes that long after the connection was accepted") {
  World world({"reset after=5s"});
  auto pair = world.Connect();
  world.Advance(Milliseconds(4999));
  CHECK(pair.client.Send("still up"));
  CHECK(pair.server.Receive(8) == "still up");
  world.Advance(Milliseconds(1));
  CHECK(pair.server.ReceiveAll().second == "reset");
  CHECK(pair.client.ReceiveAll().second == "reset");
}

TEST_CASE("a fault holds for the connections that it names alone") {
  World world({"cut connection=2..3 at=0", "refuse connection=4"});
  for (std::uint32_t number = 1; number <= 5; ++number) {
    CAPTURE(number);
    if (number == 4) {
      const Peer refused = world.Call();
      CHECK(refused.ReceiveAll().second == "reset");
      continue;
    }
    auto pair = world.Connect();
    if (number == 2 || number == 3) {
      CHECK(pair.client.ReceiveAll() == std::pair{std::string(), std::string("end")});
      continue;
    }
    CHECK(pair.client.Send("hello"));
    CHECK(pair.server.Receive(5) == "hello");
  }
}

TEST_CASE("a refused connection is reset and never reaches the upstream") {
  World world({"refuse connection=1"});
  const Peer refused = world.Call();
  CHECK(refused.ReceiveAll() == std::pair{std::string(), std::string("reset")});
  CHECK(world.Await(Kind::kClosed, 1).how == "refused");
  auto pair = world.Connect();
  CHECK(pair.client.Send("second"));
  CHECK(pair.server.Receive(6) == "second");
  CHECK_FALSE(world.upstream.HasCaller());
}

TEST_CASE("a duplicate gets the same bytes, and its answers reach nobody") {
  World world({"duplicate"});
  const Peer client = world.Call();
  const Peer first = world.upstream.Accept();
  const Peer second = world.upstream.Accept();
  const std::string bytes = Pattern(100'000);
  std::thread sending([&] {
    (void)client.Send(bytes);
    client.EndWriting();
  });
  std::pair<std::string, std::string> other;
  std::thread receiving([&] { other = first.ReceiveAll(); });
  CHECK(second.ReceiveAll() == std::pair{bytes, std::string("end")});
  receiving.join();
  sending.join();
  CHECK(other == std::pair{bytes, std::string("end")});
  // Which of the two is the original shows in whose answer arrives.
  CHECK(first.Send("1"));
  CHECK(second.Send("2"));
  const std::string answer = client.Receive(1);
  CHECK((answer == "1" || answer == "2"));
  const Counters counters = world.Count();
  CHECK(counters.down_in == 1);
}

TEST_CASE("a duplicate that is closed at once does not hinder the original") {
  World world({"duplicate"});
  const Peer client = world.Call();
  Peer peers[2] = {world.upstream.Accept(), world.upstream.Accept()};
  CHECK(client.Send("x"));
  CHECK(peers[0].Receive(1) == "x");
  CHECK(peers[1].Receive(1) == "x");
  CHECK(peers[0].Send("0"));
  CHECK(peers[1].Send("1"));
  const int original = client.Receive(1) == "0" ? 0 : 1;
  peers[1 - original].Reset();
  const std::string bytes = Pattern(1'000'000);
  std::thread sending([&] { (void)client.Send(bytes); });
  CHECK(peers[original].Receive(bytes.size()) == bytes);
  sending.join();
}

TEST_CASE("in a blackhole nothing passes, and new connections wait for its end") {
  World world({"blackhole after=5s for=60s"});
  auto old = world.Connect();
  CHECK(old.client.Send("a"));
  CHECK(old.server.Receive(1) == "a");
  world.Advance(std::chrono::seconds(5));
  (void)world.Await(Kind::kFault);
  CHECK(old.client.Send("b"));
  CHECK(old.server.Send("c"));
  const Peer fresh = world.Call();
  CHECK(fresh.Send("d"));
  const Counters held = world.AwaitIn(2, 1);
  world.Advance(Milliseconds(59'999));
  CHECK(world.Count() == held);
  CHECK((held.up_out == 1 && held.down_out == 0));
  CHECK_FALSE(world.upstream.HasCaller());
  world.Advance(Milliseconds(1));
  CHECK(old.server.Receive(1) == "b");
  CHECK(old.client.Receive(1) == "c");
  const Peer late = world.upstream.Accept();
  CHECK(late.Receive(1) == "d");
}

TEST_CASE("a reset by one side reaches the other after the bytes before it") {
  for (const std::string way : kWays) {
    CAPTURE(way);
    World world({});
    auto pair = world.Connect();
    const auto [sender, receiver] = Along(pair, way);
    CHECK(sender->Send("last words"));
    CHECK(receiver->Receive(10) == "last words");
    sender->Reset();
    CHECK(receiver->ReceiveAll().second == "reset");
    CHECK(world.Await(Kind::kClosed).how == (way == "up" ? "client-reset" : "upstream-reset"));
  }
}

TEST_CASE("of several addresses of the upstream the next is tried when one does not answer") {
  std::string unused;
  {
    const test::Upstream gone;
    unused = "127.0.0.1:" + std::to_string(gone.port());
  }
  const test::Upstream upstream;
  std::vector<Event> events;
  const Surroundings around{
      .upstream = {Resolve(unused).value().front(),
                   Resolve("127.0.0.1:" + std::to_string(upstream.port())).value().front()},
      .buffer = kDefaultBuffer,
      .report = [&](const Event& event) { events.push_back(event); },
      .watch = [](int, std::uint32_t, Side) {}};
  int error = 0;
  Connection connection(1, Socket::Connect(around.upstream[1], error), around, SteadyTime{});
  connection.Begin(SteadyTime{});
  for (int i = 0; i < 2; ++i) {  // the loopback device answers at once
    connection.Notice(Side::kUpstream, true, true);
    (void)connection.Pump(SteadyTime{});
  }
  REQUIRE(events.size() == 2);
  CHECK(events[1].kind == Kind::kConnected);
  CHECK(upstream.Accept().is_open());  // the connection that stands for the client
  CHECK(upstream.Accept().is_open());
}

TEST_CASE("an upstream that does not listen resets the client, with the number") {
  std::uint16_t unused = 0;
  {
    const test::Upstream gone;
    unused = gone.port();
  }
  World world({}, {.upstream = "127.0.0.1:" + std::to_string(unused)});
  const Peer client = world.Call();
  CHECK(client.ReceiveAll().second == "reset");
  CHECK(world.Await(Kind::kProblem, 1).code == 3001);
  CHECK(world.Await(Kind::kClosed, 1).how == "unreachable");
}

}  // namespace
}  // namespace skep::faultproxy
