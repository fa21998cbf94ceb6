// Flows, in virtual time: which bytes may go when.
#include "client/faultproxy/flow.h"

#include <string>

#include "tests/support/catch.h"

namespace skep::faultproxy {
namespace {

constexpr std::size_t kLimit = 1000;

// A flow whose far side takes everything at once.
struct Line {
  explicit Line(const std::vector<std::string>& rules, std::size_t limit = kLimit,
                std::uint64_t seed = 0)
      : flow(limit, JitterOf(seed, 1, Direction::kUp)) {
    std::uint32_t number = 0;
    for (const std::string& text : rules) {
      const Rule rule = ParseRule(text).value();
      auto trigger = Draw(rule, ++number, seed, 1, Direction::kUp);
      if (!trigger) continue;
      if (rule.after.count() != 0) trigger->from = now + rule.after;
      flow.Add(*trigger);
    }
  }

  // Until it waits; what happened stands in `log`: "cut@4", "end", "abort".
  SteadyTime Run() {
    while (true) {
      const Step step = flow.Next(now);
      switch (step.kind) {
        case Step::Kind::kWait:
          return step.until;
        case Step::Kind::kOver:
          return kNever;
        case Step::Kind::kSend: {
          const BytesView bytes = flow.Front().first(step.size);
          out += AsText(bytes);
          flow.Passed(now, bytes.size());
          break;
        }
        case Step::Kind::kFault:
          log += std::string(VerbName(step.fault.verb)) + "@" + std::to_string(flow.passed()) + " ";
          break;
        case Step::Kind::kEnd:
          log += "end ";
          break;
        case Step::Kind::kAbort:
          log += "abort ";
          break;
      }
    }
  }
  void Put(std::string_view bytes) { flow.Receive(now, AsBytes(bytes)); }
  void After(Nanoseconds span) {
    now += span;
    (void)Run();
  }

  SteadyTime now{std::chrono::seconds(1)};
  Flow flow;
  std::string out;
  std::string log;
};

TEST_CASE("without rules bytes pass at once and the end behind them") {
  Line line({});
  line.Put("hello");
  line.flow.End(line.now, false);
  CHECK(line.Run() == kNever);
  CHECK(line.out == "hello");
  CHECK(line.log == "end ");
  CHECK(line.flow.is_over());
}

TEST_CASE("a broken source is told after its bytes") {
  Line line({});
  line.Put("hello");
  line.flow.End(line.now, true);
  (void)line.Run();
  CHECK(line.out == "hello");
  CHECK(line.log == "abort ");
}

TEST_CASE("a fault at byte k happens when exactly k bytes have passed, without a further one") {
  for (const std::size_t k : {0U, 1U, 4U, 5U}) {
    CAPTURE(k);
    Line line({"cut at=" + std::to_string(k)});
    line.Put("hello");
    // The caller ends the flow at a cut; here it goes on, which shows that nothing was lost.
    (void)line.Run();
    CHECK(line.log == "cut@" + std::to_string(k) + " ");
    CHECK(line.out == "hello");
  }
  Line line({"cut at=6"});
  line.Put("hello");
  (void)line.Run();
  CHECK(line.log.empty());
}

TEST_CASE("a stall lets exactly k bytes pass until its time is over") {
  Line line({"stall at=3 for=2s"});
  line.Put("hello");
  CHECK(line.Run() == line.now + std::chrono::seconds(2));
  CHECK(line.out == "hel");
  line.After(Milliseconds(1999));
  CHECK(line.out == "hel");
  line.After(Milliseconds(1));
  CHECK(line.out == "hello");
}

TEST_CASE("a stall without a time lasts until it is released") {
  Line line({"stall at=3"});
  line.Put("hello");
  CHECK(line.Run() == kNever);
  line.After(std::chrono::hours(1000));
  CHECK(line.out == "hel");
  line.flow.Release();
  (void)line.Run();
  CHECK(line.out == "hello");
}

TEST_CASE("during a stall an end by time comes, one by bytes waits") {
  Line line({"stall at=3 for=2s", "reset at=3", "cut after=1s"});
  line.Put("hello");
  CHECK(line.Run() == line.now + std::chrono::seconds(1));
  CHECK(line.log == "stall@3 ");
  line.After(std::chrono::seconds(1));
  CHECK(line.log == "stall@3 cut@3 ");
  line.After(std::chrono::seconds(1));
  CHECK(line.log == "stall@3 cut@3 reset@3 ");
}

TEST_CASE("in the dark nothing passes and nothing happens") {
  Line line({"cut at=0", "reset after=1s"});
  line.Put("hello");
  line.flow.KeepDark(line.now + std::chrono::seconds(5));
  CHECK(line.Run() == line.now + std::chrono::seconds(5));
  line.After(Milliseconds(4999));
  CHECK((line.log.empty() && line.out.empty()));
  line.After(Milliseconds(1));
  CHECK(line.log == "cut@0 reset@0 ");
  CHECK(line.out == "hello");
}

TEST_CASE("a delay holds each byte and the end for its time, in order") {
  Line line({"delay time=200ms"});
  line.Put("ab");
  CHECK(line.Run() == line.now + Milliseconds(200));
  line.After(Milliseconds(100));
  line.Put("cd");
  line.flow.End(line.now, false);
  line.After(Milliseconds(99));
  CHECK(line.out.empty());
  line.After(Milliseconds(1));
  CHECK(line.out == "ab");
  line.After(Milliseconds(99));
  CHECK((line.out == "ab" && line.log == "delay@0 "));
  line.After(Milliseconds(1));
  CHECK((line.out == "abcd" && line.log == "delay@0 end "));
}

TEST_CASE("a delay from byte k leaves the bytes before it alone") {
  Line line({"delay time=1s at=2"});
  line.Put("abcd");
  CHECK(line.Run() == line.now + std::chrono::seconds(1));
  CHECK(line.out == "ab");
}

TEST_CASE("jitter lies within its bound, differs and repeats by the seed") {
  const auto waits = [](std::uint64_t seed) {
    Line line({"delay time=100ms jitter=50ms"}, kLimit, seed);
    std::vector<std::int64_t> found;
    for (int i = 0; i < 20; ++i) {
      line.Put("x");
      const SteadyTime until = line.Run();
      found.push_back((until - line.now).count());
      CHECK(until - line.now >= Milliseconds(100));
      CHECK(until - line.now < Milliseconds(150));
      line.now = until;
      (void)line.Run();
    }
    return found;
  };
  const auto first = waits(7);
  CHECK(first == waits(7));
  CHECK(first != waits(8));
  CHECK(first[0] != first[1]);
}

TEST_CASE("a rate passes so many bytes a second, however late it is called") {
  for (const auto step : {Milliseconds(1), Milliseconds(7), Milliseconds(30)}) {
    CAPTURE(step.count());
    Line line({"rate limit=1000B/s"}, 100'000);
    line.Put(std::string(50'000, 'x'));
    const SteadyTime begin = line.now;
    while (line.now < begin + std::chrono::seconds(10)) line.After(step);
    // Forty milliseconds' worth may be ahead.
    CHECK(line.out.size() >= 9'960);
    CHECK(line.out.size() <= 10'040);
  }
}

TEST_CASE("a rate of one byte a second passes single bytes") {
  Line line({"rate limit=1B/s"});
  line.Put("abc");
  CHECK(line.Run() == line.now + std::chrono::seconds(1));
  CHECK(line.out == "a");
  line.After(Milliseconds(999));
  CHECK(line.out == "a");
  line.After(Milliseconds(1));
  CHECK(line.out == "ab");
}

TEST_CASE("a rate does not save up what an idle flow has not used") {
  Line line({"rate limit=1000B/s"}, 100'000);
  line.After(std::chrono::hours(1));
  line.Put(std::string(5'000, 'x'));
  (void)line.Run();
  CHECK(line.out.size() <= 40);
}

TEST_CASE("one bit of byte k is flipped and no other") {
  Line line({"corrupt at=3 bit=5", "corrupt at=4 bit=0"});
  line.Put("hel");
  (void)line.Run();
  CHECK(line.log.empty());  // the byte is not there yet
  line.Put("lo!");
  (void)line.Run();
  CHECK(line.out == "helLn!");
  CHECK(line.log == "corrupt@3 corrupt@4 ");
}

TEST_CASE("what is held back is bounded and comes out unchanged") {
  Line line({"stall at=10"}, 64);
  std::string in;
  for (unsigned i = 0; line.flow.Room() > 0; ++i) {
    const std::string piece(1, static_cast<char>('a' + i % 26));
    in += piece;
    line.Put(piece);
    (void)line.Run();
  }
  CHECK(in.size() == 74);
  line.flow.Release();
  (void)line.Run();
  CHECK(line.out == in);
  CHECK(line.flow.Room() == 64);
}

TEST_CASE("single bytes into a delay lose neither order nor bytes when their notes are full") {
  Line line({"delay time=1s jitter=1s"}, 4000);
  std::string in;
  for (unsigned i = 0; i < 4000; ++i) {
    in += static_cast<char>(i % 251);
    line.Put(std::string_view(in).substr(i, 1));
  }
  line.After(std::chrono::seconds(2));
  CHECK(line.out == in);
}

TEST_CASE("a rule that is removed undoes what it did and will not happen") {
  for (const char* rule : {"stall at=0", "delay time=1h", "rate limit=1B/s", "cut at=9"}) {
    CAPTURE(rule);
    Line line({rule});
    line.Put("hello, world");
    (void)line.Run();
    if (line.flow.passed() < 9) CHECK(line.out.size() <= 1);
    line.flow.Remove(1);
    (void)line.Run();
    CHECK(line.out == "hello, world");
  }
  Line line({"cut at=9"});
  line.flow.Remove(1);
  line.Put("hello, world");
  (void)line.Run();
  CHECK(line.log.empty());
}

TEST_CASE("what is discarded is counted as taken, not as passed") {
  Line line({});
  line.Put("hello");
  line.flow.Discard();
  CHECK(line.flow.Room() == kLimit);
  line.Put("there");
  CHECK(line.flow.taken() == 10);
  CHECK(line.flow.passed() == 0);
  CHECK(line.flow.Next(line.now).kind == Step::Kind::kOver);
}

TEST_CASE("draws depend on seed, rule, connection and direction, and lie within their range") {
  const Rule rule = ParseRule("cut at=100..199").value();
  const auto at = [&](std::uint32_t number, std::uint64_t seed, std::uint32_t connection,
                      Direction direction) {
    return Draw(rule, number, seed, connection, direction)->at;
  };
  std::vector<std::uint64_t> found;
  for (std::uint32_t connection = 1; connection <= 200; ++connection) {
    const std::uint64_t drawn = at(1, 5, connection, Direction::kUp);
    CHECK((drawn >= 100 && drawn <= 199));
    CHECK(drawn == at(1, 5, connection, Direction::kUp));
    found.push_back(drawn);
  }
  const auto differs = [&](auto&& other) {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < found.size(); ++i) count += other(i + 1) != found[i] ? 1 : 0;
    return count > 150;
  };
  CHECK(differs([&](std::uint32_t c) { return at(2, 5, c, Direction::kUp); }));
  CHECK(differs([&](std::uint32_t c) { return at(1, 6, c, Direction::kUp); }));
  CHECK(differs([&](std::uint32_t c) { return at(1, 5, c, Direction::kDown); }));
}

TEST_CASE("a chance hits about that part of the connections") {
  const Rule rule = ParseRule("refuse chance=0.25").value();
  int hits = 0;
  for (std::uint32_t connection = 1; connection <= 4000; ++connection) {
    hits += Applies(rule, 1, 9, connection) ? 1 : 0;
  }
  CHECK(hits > 850);
  CHECK(hits < 1150);
  CHECK_FALSE(Applies(ParseRule("refuse chance=0").value(), 1, 9, 1));
}

}  // namespace
}  // namespace skep::faultproxy
