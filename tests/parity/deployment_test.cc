// Simulator equals deployment: the same file gives the same model, bit for bit, whatever the order
// in which devices join and report.
#include <boost/json/object.hpp>

#include <algorithm>
#include <csignal>
#include <set>

#include "tests/parity/federation.h"
#include "tests/support/catch.h"

namespace skep::test {
namespace {

using Sets = std::vector<std::string>;

const Sets kByExamples{"training.weighting=examples"};
const Sets kUniform{"training.weighting=uniform"};
const Sets kThree{"training.weighting=examples", "training.clients_per_round=3"};
const Sets kThreeUniform{"training.weighting=uniform", "training.clients_per_round=3"};
const Sets kOtherSeed{"training.weighting=examples", "seed=43"};

TEST_CASE("the simulator and eight devices over TLS give the same model", "[parity]") {
  Federation federation({});
  std::set<std::string> hashes;
  for (const Sets& sets : {kByExamples, kUniform, kThree, kThreeUniform, kOtherSeed}) {
    INFO(sets.front() << " " << sets.back());
    const std::string deployed = federation.Deployed(sets);
    CHECK(deployed == federation.Simulated(sets));
    hashes.insert(deployed);
    federation.WaitHeld(8);
  }
  // Each value set above makes a difference.
  CHECK(hashes.size() == 5);
}

TEST_CASE("a run changes the model that it began with", "[parity]") {
  Federation federation({});
  const std::string run = federation.StartRun(kByExamples);
  const auto over = federation.WaitOver(run);
  const auto first = over.at("attempts").at(0).as_object();
  CHECK(TextOf(first, "model_in") != TextOf(over, "model_sha256"));
  CHECK(TextOf(first, "model_out") != TextOf(over, "model_sha256"));
}

TEST_CASE("devices that join in reverse order give the same model", "[parity]") {
  Federation federation({.joining = {7, 6, 5, 4, 3, 2, 1, 0}});
  CHECK(federation.Deployed(kByExamples) == federation.Simulated(kByExamples));
}

TEST_CASE("the order in which updates arrive over TLS does not change the model", "[parity]") {
  Federation federation({});
  const std::string simulated = federation.Simulated(kByExamples);
  const std::vector<std::vector<std::size_t>> orders{
      {7, 6, 5, 4, 3, 2, 1, 0}, {3, 0, 6, 1, 7, 4, 2, 5}, {4, 5, 6, 7, 0, 1, 2, 3}};
  for (const auto& order : orders) {
    federation.WaitHeld(8);
    // Everybody stands still but one: in the first round updates come in exactly this order.
    for (std::size_t i = 0; i < 8; ++i) federation.device(i).Signal(SIGSTOP);
    const std::string run = federation.StartRun(kByExamples);
    for (std::size_t i = 0; i < order.size(); ++i) {
      federation.device(order[i]).Signal(SIGCONT);
      (void)federation.WaitUntil(run, "report " + std::to_string(i + 1), [&](const auto& found) {
        return NumberOf(found, "round") > 1 || TextOf(found, "state") != "running" ||
               Reported(found) == static_cast<std::int64_t>(i) + 1;
      });
    }
    const auto over = federation.WaitOver(run);
    CHECK(TextOf(over, "state") == "finished");
    CHECK(TextOf(over, "model_sha256") == simulated);
  }
}

}  // namespace
}  // namespace skep::test
