// How findings are written, and what they come to.
#include "client/conform/report.h"
#include "tests/support/catch.h"

namespace skep::conform {
namespace {

const Line kGood{3, "train task", Passed("480 examples")};
const Line kBad{11, "cancel", Failed("2100 ms to the end", "1500 ms")};
const Line kSkipped{22, "forget", Skipped("no --forget-args")};

TEST_CASE("a line names the check, what was measured and what is allowed", "[unit]") {
  CHECK(TextOf(kGood) == " 3  ok    train task: 480 examples");
  CHECK(TextOf(kBad) == "11  FAIL  cancel: 2100 ms to the end (allowed: 1500 ms)");
  CHECK(TextOf(kSkipped) == "22  skip  forget: no --forget-args");
  CHECK(TextOf({1, "enrolment", Passed()}) == " 1  ok    enrolment");
}

TEST_CASE("only a FAIL makes the exit code 1", "[unit]") {
  CHECK(ExitCodeOf({}) == 0);
  CHECK(ExitCodeOf({kGood, kSkipped}) == 0);
  CHECK(ExitCodeOf({kGood, kBad, kSkipped}) == 1);
  CHECK(SummaryOf({kGood, kBad, kSkipped, kGood}) == "2 ok, 1 FAIL, 1 skip");
}

}  // namespace
}  // namespace skep::conform
