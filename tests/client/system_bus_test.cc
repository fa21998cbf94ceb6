// What a device learns on the system bus, and what it makes of a bus that misbehaves.
#include "client/agent/system_bus.h"

#include <array>

#include "shared/base/bytes.h"
#include "tests/client/scripted_bus.h"
#include "tests/support/catch.h"

namespace skep::agent {
namespace {

using test::BusMessage;
using test::BusNumber;
using test::BusVariant;
using test::ScriptedBus;
using Facts = SystemBus::Facts;

constexpr std::optional<bool> kUnknown = std::nullopt;

Facts AskedOf(const ScriptedBus::Script& script) {
  const ScriptedBus bus(script);
  return bus.At().Ask();
}

bool KnowsNothing(const Facts& facts) {
  return !facts.is_unmetered && !facts.is_idle;
}

TEST_CASE("NetworkManager and logind are asked, and understood", "[unit]") {
  ScriptedBus bus(ScriptedBus::Knows(
      {{"Metered", {'u', 4}}, {"IdleHint", {'b', 1}}, {"NCurrentSessions", {'t', 2}}}));
  const Facts facts = bus.At().Ask();
  bus.Wait();
  CHECK(facts.is_unmetered == true);
  CHECK(facts.is_idle == true);
  CHECK(bus.login() == std::string(1, '\0') + "AUTH EXTERNAL " +
                           ToHex(AsBytes(std::to_string(::geteuid()))) + "\r\n");
  REQUIRE(bus.calls().size() == 4);
  CHECK(bus.calls()[0].find("Hello") != std::string::npos);
  CHECK(bus.calls()[1].find("/org/freedesktop/NetworkManager") != std::string::npos);
  CHECK(bus.calls()[2].find("org.freedesktop.login1.Manager") != std::string::npos);
  for (const std::string& call : bus.calls()) {
    CHECK(call.substr(0, 4) == std::string("l\x01\x02\x01", 4));  // starts no program
  }
}

TEST_CASE("each state of a connection is unmetered, metered or unknown", "[unit]") {
  const std::optional<bool> states[] = {kUnknown, false, true, false, true, kUnknown};
  for (std::uint64_t state = 0; state < 6; ++state) {
    INFO(state);
    CHECK(AskedOf(ScriptedBus::Knows({{"Metered", {'u', state}}})).is_unmetered == states[state]);
  }
}

TEST_CASE("the idle hint counts while anybody has a session", "[unit]") {
  const auto idle = [](std::uint64_t hint, std::uint64_t sessions) {
    return AskedOf(ScriptedBus::Knows(
                       {{"IdleHint", {'b', hint}}, {"NCurrentSessions", {'t', sessions}}}))
        .is_idle;
  };
  CHECK(idle(1, 1) == true);
  CHECK(idle(0, 1) == false);
  CHECK(idle(1, 0) == kUnknown);  // nobody there: idle, however busy the machine is
  CHECK(idle(0, 0) == false);     // something holds it off
  CHECK(idle(7, 1) == kUnknown);
  CHECK(AskedOf(ScriptedBus::Knows({{"IdleHint", {'b', 1}}})).is_idle == true);
}

TEST_CASE("answers in the other byte order are understood", "[unit]") {
  const Facts facts = AskedOf(ScriptedBus::Knows(
      {{"Metered", {'u', 2}}, {"IdleHint", {'b', 0}}, {"NCurrentSessions", {'t', 1}}}, true));
  CHECK(facts.is_unmetered == true);
  CHECK(facts.is_idle == false);
}

TEST_CASE("one that is not there leaves the other's answer", "[unit]") {
  const Facts network = AskedOf(ScriptedBus::Knows({{"Metered", {'u', 1}}}));
  CHECK(network.is_unmetered == false);
  CHECK(network.is_idle == kUnknown);
  const Facts login = AskedOf(ScriptedBus::Knows({{"IdleHint", {'b', 0}}}));
  CHECK(login.is_unmetered == kUnknown);
  CHECK(login.is_idle == false);
}

TEST_CASE("what answered before the bus went away is kept", "[unit]") {
  const Facts facts = AskedOf([](ScriptedBus& bus) {
    bus.Welcome();
    for (int k = 0; k < 2; ++k) (void)bus.HearCall();
    const std::uint32_t metered = ScriptedBus::SerialOf(bus.calls().back());
    bus.Say(BusMessage{.reply_to = metered, .body = BusVariant('u', 2)}.Text() + "l\x02");
  });
  CHECK(facts.is_unmetered == true);
  CHECK(facts.is_idle == kUnknown);
}

TEST_CASE("other messages between the answers are passed over", "[unit]") {
  const Facts facts = AskedOf([](ScriptedBus& bus) {
    bus.Welcome();
    std::array<std::uint32_t, 4> serials{};
    for (std::uint32_t& serial : serials) serial = ScriptedBus::SerialOf(bus.HearCall());
    const std::string name = BusNumber(false, 0, 4, 4) + std::string(":1.9\0", 5);
    bus.Say(BusMessage{.reply_to = serials[0], .signature = "s", .body = name}.Text());
    bus.Say(BusMessage{.type = 4, .reply_to = serials[1], .signature = "s", .body = name}.Text());
    bus.Say(BusMessage{.reply_to = 4711, .body = BusVariant('u', 1)}.Text());
    bus.Say(BusMessage{.reply_to = serials[3], .body = BusVariant('t', 1)}.Text());
    bus.Say(BusMessage{.reply_to = serials[2], .body = BusVariant('b', 1)}.Text());
    bus.Say(BusMessage{.reply_to = serials[1], .body = BusVariant('u', 2)}.Text());
    bus.Say(BusMessage{.reply_to = serials[1], .body = BusVariant('u', 1)}.Text());  // too late
  });
  CHECK(facts.is_unmetered == true);
  CHECK(facts.is_idle == true);
}

TEST_CASE("a bus that is not there, or does not let in, leaves all unknown", "[unit]") {
  CHECK(KnowsNothing(SystemBus("/nowhere/at/all").Ask()));
  CHECK(KnowsNothing(SystemBus("/" + std::string(200, 'x')).Ask()));
  CHECK(KnowsNothing(SystemBus("").Ask()));
  for (const std::string& greeting :
       {std::string("REJECTED EXTERNAL\r\n"), std::string("HTTP/1.1 400 Bad Request\r\n"),
        std::string(), "OK " + std::string(5000, '0'), std::string("OK 0123\n")}) {
    INFO(greeting);
    CHECK(KnowsNothing(AskedOf([&greeting](ScriptedBus& bus) {
      (void)bus.Hear("\r\n");
      bus.Say(greeting);
    })));
  }
}

TEST_CASE("a bus that says nothing is waited for no longer than that", "[unit]") {
  const auto silent = [](ScriptedBus& bus) { (void)bus.Hear("never"); };
  const ScriptedBus before(silent);
  CHECK(KnowsNothing(before.At(Milliseconds(20)).Ask()));
  const ScriptedBus after([](ScriptedBus& bus) {
    bus.Welcome();
    (void)bus.Hear("never");
  });
  CHECK(KnowsNothing(after.At(Milliseconds(20)).Ask()));
}

// What comes of an answer about Metered that says it is unmetered, changed by `spoil`.
Facts Spoilt(const std::function<void(std::string&)>& spoil) {
  return AskedOf([&spoil](ScriptedBus& bus) {
    bus.Welcome();
    for (int k = 0; k < 2; ++k) (void)bus.HearCall();
    const std::uint32_t metered = ScriptedBus::SerialOf(bus.calls().back());
    std::string answer = BusMessage{.reply_to = metered, .body = BusVariant('u', 2)}.Text();
    spoil(answer);
    bus.Say(answer);
  });
}

TEST_CASE("an answer that breaks the rules is none", "[unit]") {
  const auto with = [](std::size_t at, const std::string& bytes) {
    return Spoilt([&](std::string& answer) { answer.replace(at, bytes.size(), bytes); });
  };
  CHECK(Spoilt([](std::string&) {}).is_unmetered == true);
  CHECK(KnowsNothing(with(0, "x")));                              // neither byte order
  CHECK(KnowsNothing(with(0, "B")));                              // not the one it is in
  CHECK(KnowsNothing(with(3, "\x02")));                           // version
  CHECK(KnowsNothing(with(4, std::string("\0\x11\0\0", 4))));     // 4352 bytes of body
  CHECK(KnowsNothing(with(4, "\xff\xff\xff\xff")));               // 4 GiB of it
  CHECK(KnowsNothing(with(12, "\xff\xff\xff\xff")));              // of fields
  CHECK(KnowsNothing(with(12, std::string("\xf0\x0f\0\0", 4))));  // too much together
  CHECK(KnowsNothing(with(12, std::string("\x1e\0\0\0", 4))));    // a field that ends behind them
  CHECK(KnowsNothing(with(18, "d")));                             // a field of a type that none has
  CHECK(KnowsNothing(with(28, "\xff\xff\xff\xff")));              // a text without an end
  CHECK(KnowsNothing(Spoilt([](std::string& answer) { answer[answer.size() - 7] = 's'; })));
  CHECK(KnowsNothing(Spoilt([](std::string& answer) { answer.resize(answer.size() - 1); })));
  CHECK(KnowsNothing(Spoilt([](std::string& answer) { answer.assign(4096, '\0'); })));
}

TEST_CASE("an answer that is too short for its own value is none", "[unit]") {
  CHECK(KnowsNothing(Spoilt([](std::string& answer) {
    answer[4] = 5;  // bytes of body: the type and a part of the number
    answer.resize(answer.size() - 3);
  })));
}

TEST_CASE("any byte of an answer may be anything", "[unit]") {
  std::size_t bytes = 1;
  for (std::size_t at = 0; at < bytes; ++at) {
    for (const char value : {'\0', '\x01', '\x7f', '\xff'}) {
      const Facts facts = Spoilt([&](std::string& answer) {
        bytes = answer.size();
        answer[at] = value;
      });
      INFO("byte " << at << " is " << int{value});
      CHECK_FALSE(facts.is_idle.has_value());
    }
  }
}

TEST_CASE("a bus that never comes to the point is given up", "[unit]") {
  CHECK(KnowsNothing(AskedOf([](ScriptedBus& bus) {
    bus.Welcome();
    const std::string signal = BusMessage{.type = 4, .signature = ""}.Text();
    for (int k = 0; k < 200; ++k) bus.Say(signal);
    (void)bus.Hear("never");
  })));
}

}  // namespace
}  // namespace skep::agent
