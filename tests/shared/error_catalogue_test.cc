#include "shared/base/error_catalogue.h"

#include "shared/base/suggest.h"
#include "tests/support/catch.h"

namespace skep {
namespace {

TEST_CASE("explain prints title, cause and remedy", "[unit]") {
  CHECK(Explain(2104) ==
        "SKEP-2104  update is not finite\n"
        "What happened   A client's update holds NaN or infinity. It was refused; the model is "
        "unchanged by it.\n"
        "Usual causes    Step size too large; a division by zero in the data (constant column and "
        "normalize = "
        "\"standard\").\n"
        "What to do      Lower client.learning_rate, set client.gradient_clip, look at the "
        "client's rows: skep-simulator "
        "partition …\n");
  CHECK(Explain(1).empty());
}

TEST_CASE("every number stands in the catalogue once, with all its texts", "[unit]") {
  int last = 0;
  for (const ErrorEntry* entry : AllErrors()) {
    INFO(entry->number);
    CHECK(entry->number > last);
    last = entry->number;
    for (const std::string_view text : {entry->happened, entry->causes, entry->remedy}) {
      CHECK(text.size() > 4);
      CHECK((text.ends_with(".") || text.ends_with("…")));
    }
    CHECK_FALSE(entry->title.empty());
    CHECK_FALSE(entry->title.ends_with("."));
  }
}

TEST_CASE("retry classes and closing codes are those of the protocol", "[unit]") {
  CHECK(FindError(2104)->retry == RetryClass::kNever);
  CHECK(FindError(2110)->retry == RetryClass::kReconnect);
  CHECK_FALSE(FindError(2110)->closes_session);
  CHECK(FindError(2111)->closes_session);
  CHECK(FindError(3112)->retry == RetryClass::kReconnect);
  CHECK(FindError(3116)->retry == RetryClass::kRejoin);
  CHECK(FindError(3311)->retry == RetryClass::kUpgrade);
  CHECK(FindError(3336)->retry == RetryClass::kSession);
  CHECK(FindError(7406)->retry == RetryClass::kNone);
  CHECK(FindError(9001)->closes_session);
}

TEST_CASE("an error number is read with and without its prefix", "[unit]") {
  CHECK(ParseErrorNumber("SKEP-1012") == 1012);
  CHECK(ParseErrorNumber("1012") == 1012);
  for (const std::string_view bad : {"SKEP-", "101", "10123", "1x12", "-101", "training"}) {
    CHECK_FALSE(ParseErrorNumber(bad).has_value());
  }
}

TEST_CASE("a suggestion is close, or has the given word in it", "[unit]") {
  const std::vector<std::string_view> keys{"rounds", "clients_per_round", "client_fraction",
                                           "max_devices", "report_deadline"};
  CHECK(Suggest("round", keys) == "rounds");
  CHECK(Suggest("clients", keys) == "clients_per_round");
  CHECK(Suggest("devices", keys) == "max_devices");
  CHECK(Suggest("report_daedlimne", keys) == "report_deadline");  // 3 of more than 8 letters
  CHECK(Suggest("rxyzds", keys).empty());                         // 3 of 6 letters
  CHECK(Suggest("client", keys) == "client_fraction");
  CHECK(Suggest("", keys).empty());
  CHECK(Suggest(std::string(10'000, 'x'), keys).empty());
}

TEST_CASE("of several keys with the word the one that begins with it wins, then the shortest",
          "[unit]") {
  CHECK(Suggest("every", {"decay_every_round", "eval_every"}) == "eval_every");
  CHECK(Suggest("eval", {"an_eval", "eval_much_longer"}) == "eval_much_longer");
}

TEST_CASE("edit distance counts insertions, deletions and substitutions", "[unit]") {
  CHECK(EditDistance("", "abc") == 3);
  CHECK(EditDistance("kitten", "sitting") == 3);
  CHECK(EditDistance("same", "same") == 0);
}

}  // namespace
}  // namespace skep
