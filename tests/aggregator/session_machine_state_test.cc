// The main states: who may say what when, offers, Polls, versions, limits and deadlines.
#include "tests/aggregator/session_machine_fixture.h"

namespace skep::aggregator::test {
namespace {

using std::chrono::seconds;

// One of each message that a client may send on this listener.
std::vector<wire::Message> EveryMessage() {
  const Bytes body(8);
  return {wire::Hello{.major = 1, .software = "again"},
          Peer::APoll(),
          wire::TaskAccept{.task = TaskOf(9)},
          wire::TaskDecline{.task = TaskOf(9), .code = 7402},
          wire::PlanRequest{.plan_sha256 = HashOf(1)},
          wire::Progress{.task = TaskOf(9)},
          wire::TaskFailed{.task = TaskOf(9), .code = 7406},
          wire::DownloadRequest{.transfer_id = 50, .sha256 = HashOf(1)},
          BeginOf(50, body),
          wire::TransferProgress{.transfer_id = 50, .received = 1},
          wire::TransferCancel{.transfer_id = 50, .code = 3001},
          wire::RenewRequest{.csr = Bytes(8)},
          wire::Goodbye{.reason = wire::GoodbyeReason::kDone},
          wire::Ping{.nonce = 1},
          wire::Pong{.nonce = 1},
          wire::PeerError{.code = 9001, .retry = wire::RetryClass::kNever}};
}

// What each state refuses, and with which number.
int RefusalOf(State state, wire::MessageId id) {
  using wire::MessageId;
  const bool is_open = state == State::kReady || state == State::kHeld || state == State::kOffered;
  if (id == MessageId::kHello) return state == State::kAwaitHello ? 0 : 3302;
  if (!is_open) return 3302;
  switch (id) {
    case MessageId::kPoll:
      return state == State::kReady ? 0 : 3302;
    case MessageId::kTaskAccept:
    case MessageId::kTaskDecline:
      return 3302;  // of a task that was never offered
    case MessageId::kPlanRequest:
      return state == State::kHeld ? 3302 : 0;
    case MessageId::kTransferProgress:
    case MessageId::kTransferCancel:
      return 3303;
    case MessageId::kPong:
      return 3306;
    default:
      return 0;
  }
}

void Bring(Peer& peer, State state) {
  if (state == State::kJoining) {
    static_cast<void>(peer.Say(wire::Hello{.major = 1, .software = "test"}));
  } else if (state == State::kReady) {
    peer.Join();
  } else if (state == State::kHeld) {
    peer.Hold();
  } else if (state == State::kOffered) {
    peer.Offer();
  }
  REQUIRE(peer.machine.state() == state);
}

TEST_CASE("every pair of state and message is taken, or refused with its number", "[unit]") {
  for (const State state :
       {State::kAwaitHello, State::kJoining, State::kReady, State::kHeld, State::kOffered}) {
    for (const wire::Message& message : EveryMessage()) {
      Peer peer;
      Bring(peer, state);
      INFO("state " << static_cast<int>(state) << ", " << wire::MessageName(wire::IdOf(message)));
      const int expected = RefusalOf(state, wire::IdOf(message));
      const SessionOutputs outputs = peer.Say(message);
      if (expected != 0) {
        CHECK(ClosedWith(outputs) == expected);
        CHECK(peer.machine.state() == State::kClosing);
      } else {
        const auto end = FindIn<EndSession>(outputs);
        CHECK((!end || end->code == 0));
      }
    }
  }
}

TEST_CASE("a session that is closing hears nothing more", "[unit]") {
  Peer peer;
  peer.Join();
  static_cast<void>(peer.Say(wire::Goodbye{.reason = wire::GoodbyeReason::kDone}));
  for (const wire::Message& message : EveryMessage()) CHECK(peer.Say(message).empty());
  CHECK(peer.machine.NextDeadline() == SteadyTime::max());
}

TEST_CASE("Hello is answered by HelloAck with the values of the configuration", "[unit]") {
  Peer peer;
  const SessionOutputs hello = peer.Say(wire::Hello{.major = 1, .minor = 7, .software = "x"});
  REQUIRE(FindIn<Greet>(hello));
  CHECK(FindIn<Greet>(hello)->minor == wire::kMinor);
  SessionId id;
  id.bytes.fill(3);
  const auto ack = FindMessage<wire::HelloAck>(peer.machine.Welcome(peer.now, id, seconds(2)));
  REQUIRE(ack);
  CHECK(ack->session_id == id);
  CHECK(ack->federation_id == peer.rules.federation);
  CHECK(ack->chunk_bytes == kChunk);
  CHECK(ack->ping_interval_ms == 30'000);
  CHECK(ack->reconnect_spread_ms == 2000);
  CHECK(ack->clock_ms == peer.now.wall);
}

TEST_CASE("another major version is refused with 3311, a minor out of reach with 3312", "[unit]") {
  Peer major;
  CHECK(ClosedWith(major.Say(wire::Hello{.major = 2, .software = "x"})) == 3311);
  Peer too_new;
  CHECK(ClosedWith(too_new.Say(
            wire::Hello{.major = 1, .minor = 5, .min_minor = 5, .software = "x"})) == 3312);
  Peer too_old;
  too_old.rules.min_minor = 1;
  CHECK(ClosedWith(too_old.Say(wire::Hello{.major = 1, .software = "x"})) == 3312);
}

TEST_CASE("a payload that the walker refuses closes with the walker's number", "[unit]") {
  Peer peer;
  peer.Join();
  const Bytes unknown_field{0x78, 0x01};
  CHECK(ClosedWith(peer.machine.OnFrame(peer.now, {.kind = wire::FrameKind::kControl,
                                                   .id = wire::MessageId::kPoll,
                                                   .payload = unknown_field,
                                                   .charged = {}})) == 3207);
}

TEST_CASE("a held Poll is told to the engine once and answered by its offer", "[unit]") {
  Peer peer;
  peer.Join();
  const auto told = ToldIn<ClientMessage>(peer.Say(Peer::APoll()));
  REQUIRE(told);
  CHECK(std::get<wire::Poll>(told->body).population == "pump");
  CHECK(peer.machine.held_population() == "pump");
  static_cast<void>(peer.machine.OnEngine(peer.now, Grant{9, HashOf(0xAA), HashOf(0xBB)}));
  CHECK(FindMessage<wire::TaskOffer>(peer.machine.OnEngine(peer.now, Send{9, OfferOf(1)})));
  CHECK(peer.machine.state() == State::kOffered);
  CHECK(peer.machine.held_population().empty());
}

TEST_CASE("an offer that comes after the hold has ended waits for the next Poll", "[unit]") {
  Peer peer;
  peer.Hold();
  static_cast<void>(peer.machine.OnEngine(
      peer.now, Send{9, wire::ComeBack{.latest_ms = 1, .reason = wire::ComeBackReason::kNoWork}}));
  CHECK(peer.machine.state() == State::kReady);
  static_cast<void>(peer.machine.OnEngine(peer.now, Grant{9, HashOf(0xAA), HashOf(0xBB)}));
  CHECK(peer.machine.OnEngine(peer.now, Send{9, OfferOf(1)}).empty());
  CHECK(peer.machine.state() == State::kReady);
}

TEST_CASE("an answer that crossed the end of its offer gets RoundClosed again", "[unit]") {
  for (const bool accepts : {true, false}) {
    Peer peer;
    peer.Offer();
    const wire::RoundClosed closed{.task = TaskOf(1), .reason = wire::RoundClosedReason::kDeadline};
    static_cast<void>(peer.machine.OnEngine(peer.now, Send{9, closed}));
    CHECK(peer.machine.state() == State::kReady);
    const SessionOutputs outputs =
        accepts ? peer.Say(wire::TaskAccept{.task = TaskOf(1)})
                : peer.Say(wire::TaskDecline{.task = TaskOf(1), .code = 7402});
    CHECK_FALSE(ToldIn<ClientMessage>(outputs));
    REQUIRE(FindMessage<wire::RoundClosed>(outputs));
    CHECK(FindMessage<wire::RoundClosed>(outputs)->task == TaskOf(1));
    CHECK(peer.machine.state() == State::kReady);
  }
}

TEST_CASE("a plan is served while its task is live, and is 2214 otherwise", "[unit]") {
  Peer peer;
  peer.Offer();
  CHECK(FindIn<FindPlan>(peer.Say(wire::PlanRequest{.plan_sha256 = HashOf(0xAA)})));
  static_cast<void>(peer.Say(wire::TaskAccept{.task = TaskOf(1)}));
  CHECK(FindIn<FindPlan>(peer.Say(wire::PlanRequest{.plan_sha256 = HashOf(0xAA)})));
  static_cast<void>(peer.Say(wire::TaskFailed{.task = TaskOf(1), .code = 7406}));
  const SessionOutputs after = peer.Say(wire::PlanRequest{.plan_sha256 = HashOf(0xAA)});
  CHECK_FALSE(FindIn<FindPlan>(after));
  REQUIRE(FindMessage<wire::PeerError>(after));
  CHECK(FindMessage<wire::PeerError>(after)->code == 2214);
  CHECK(peer.machine.state() == State::kReady);
}

TEST_CASE("a burst of messages beyond the limit closes with 3335; a steady flow does not",
          "[unit]") {
  Peer steady;
  steady.Join();
  for (int i = 0; i < 1000; ++i) {
    steady.Pass(Milliseconds(21));
    REQUIRE(FindMessage<wire::Pong>(steady.Say(wire::Ping{.nonce = 5})));
  }
  Peer burst;
  burst.Join();
  int closed = 0;
  for (int i = 0; i < 201 && closed == 0; ++i)
    closed = ClosedWith(burst.Say(wire::Ping{.nonce = 5}));
  CHECK(closed == 3335);
}

TEST_CASE("no Hello in time is 3321", "[unit]") {
  Peer peer;
  CHECK(peer.machine.NextDeadline() == peer.now.steady + seconds(10));
  peer.Pass(seconds(9));
  CHECK(peer.machine.OnDeadline(peer.now).empty());
  peer.Pass(seconds(1));
  CHECK(ClosedWith(peer.machine.OnDeadline(peer.now)) == 3321);
}

TEST_CASE("a header, or a body, that does not end in time is 3322", "[unit]") {
  Peer header;
  header.Join();
  header.machine.OnBytes(header.now, {.is_open = true, .is_in_header = true});
  header.Pass(seconds(5));
  header.machine.OnBytes(header.now, {.is_open = true, .is_in_header = true});  // byte by byte
  header.Pass(seconds(5));
  CHECK(ClosedWith(header.machine.OnDeadline(header.now)) == 3322);

  Peer body;
  body.Join();
  body.machine.OnBytes(body.now, {.is_open = true, .is_in_body = true, .body_length = 8192});
  body.Pass(seconds(11));
  body.machine.OnBytes(body.now, {.is_open = true, .is_in_body = true, .body_length = 8192});
  CHECK(body.machine.OnDeadline(body.now).empty());
  body.Pass(seconds(1));
  CHECK(ClosedWith(body.machine.OnDeadline(body.now)) == 3322);
}

TEST_CASE("time in which the aggregator itself did not read does not count", "[unit]") {
  Peer peer;
  peer.Join();
  peer.machine.OnBytes(peer.now, {.is_open = true, .is_in_body = true, .body_length = 8192});
  peer.machine.SetReading(peer.now, false);
  peer.Pass(seconds(100));
  CHECK(FindIn<EndSession>(peer.machine.OnDeadline(peer.now))->code == 0);  // idle, not a fault
}

TEST_CASE("silence gets a Ping, and more silence 3324; any byte is a sign of life", "[unit]") {
  Peer peer;
  peer.Hold();
  peer.Pass(seconds(30));
  const auto ping = FindMessage<wire::Ping>(peer.machine.OnDeadline(peer.now));
  REQUIRE(ping);
  SECTION("no answer") {
    peer.Pass(seconds(30));
    CHECK(ClosedWith(peer.machine.OnDeadline(peer.now)) == 3324);
  }
  SECTION("the Pong") {
    CHECK(peer.Say(wire::Pong{.nonce = ping->nonce}).empty());
    peer.machine.OnBytes(peer.now, {.is_open = true});
    peer.Pass(seconds(29));
    CHECK(peer.machine.OnDeadline(peer.now).empty());
    CHECK(ClosedWith(peer.Say(wire::Pong{.nonce = ping->nonce})) == 3306);
  }
  SECTION("a wrong Pong") {
    CHECK(ClosedWith(peer.Say(wire::Pong{.nonce = ping->nonce + 1})) == 3306);
  }
  SECTION("other bytes, then two Pongs in a row") {
    peer.machine.OnBytes(peer.now, {.is_open = true});
    peer.Pass(seconds(30));
    const auto second = FindMessage<wire::Ping>(peer.machine.OnDeadline(peer.now));
    REQUIRE(second);
    CHECK(peer.Say(wire::Pong{.nonce = ping->nonce}).empty());
    CHECK(peer.Say(wire::Pong{.nonce = second->nonce}).empty());
  }
}

TEST_CASE("a session without work is told to come back; one with a task is not", "[unit]") {
  Peer idle;
  idle.Join();
  idle.Pass(seconds(30));
  static_cast<void>(idle.machine.OnDeadline(idle.now));
  idle.machine.OnBytes(idle.now, {.is_open = true});
  idle.Pass(seconds(30));
  const SessionOutputs end = idle.machine.OnDeadline(idle.now);
  REQUIRE(FindMessage<wire::Goodbye>(end));
  CHECK(FindMessage<wire::Goodbye>(end)->come_back);
  CHECK(FindIn<EndSession>(end)->code == 0);

  Peer busy;
  busy.Accept();
  busy.Pass(seconds(60));
  busy.machine.OnBytes(busy.now, {.is_open = true});
  CHECK(busy.machine.OnDeadline(busy.now).empty());
  CHECK(busy.machine.state() == State::kReady);
}

TEST_CASE("the engine's Disconnect is an Error with that number and the end", "[unit]") {
  Peer peer;
  peer.Hold();
  const SessionOutputs outputs = peer.machine.OnEngine(peer.now, Disconnect{9, 3334});
  CHECK(ClosedWith(outputs) == 3334);
  CHECK(peer.machine.state() == State::kClosing);
}

TEST_CASE("a drain ends sessions in which nothing moves", "[unit]") {
  Peer held;
  held.Hold();
  const SessionOutputs end = held.machine.Drain(held.now);
  REQUIRE(FindMessage<wire::Goodbye>(end));
  CHECK(FindMessage<wire::Goodbye>(end)->reason == wire::GoodbyeReason::kDraining);
  const Bytes body(100);
  Peer uploading;
  uploading.Receive(body);
  CHECK(uploading.machine.Drain(uploading.now).empty());
}

TEST_CASE("a second renewal while one is pending is 3302; a refusal keeps the session", "[unit]") {
  Peer peer;
  peer.Join();
  REQUIRE(FindIn<RenewCertificate>(peer.Say(wire::RenewRequest{.csr = Bytes(8)})));
  SECTION("again") {
    CHECK(ClosedWith(peer.Say(wire::RenewRequest{.csr = Bytes(8)})) == 3302);
  }
  SECTION("too early") {
    const auto error =
        FindMessage<wire::PeerError>(peer.machine.Renewed(peer.now, Error{3121, "too early", ""}));
    REQUIRE(error);
    CHECK(error->code == 3121);
    CHECK(peer.machine.state() == State::kReady);
  }
  SECTION("unacceptable") {
    CHECK(ClosedWith(peer.machine.Renewed(peer.now, Error{3119, "bad", ""})) == 3119);
  }
}

}  // namespace
}  // namespace skep::aggregator::test
