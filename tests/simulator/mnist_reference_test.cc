// Federated averaging on MNIST, IID, C = 0.1: as many rounds to 90 % as a plain program needs.
#include <filesystem>

#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

constexpr const char* kMnist = SKEP_SOURCE_DIR "/../shared/data/mnist";

TEST_CASE("MNIST, 100 IID clients of which 10 train a round: 90 % within 7.5 rounds", "[slow]") {
  if (!std::filesystem::exists(std::string(kMnist) + "/train-images-idx3-ubyte.gz"))
    SKEP_SKIP("the MNIST files are not in ../shared/data/mnist");
  const test::TemporaryFolder folder;
  const std::string file =
      folder
          .Write("mnist.toml",
                 std::string("schema = 1\nseed = 1\n[data]\npath = \"") + kMnist + R"toml("
format = "idx"
num_clients = 100
partition = "iid"
[model]
architecture = "2nn"
[training]
rounds = 12
clients_per_round = 10
client_eval_every = 0
target = 0.9
stop_at_target = true
[client]
local_epochs = 1
batch_size = 10
learning_rate = 0.1
)toml")
          .string();
  auto prepared = Prepare({.file = file, .sets = {}, .folder = ""});
  REQUIRE(prepared.has_value());
  auto plan = MakePlan(std::move(prepared).value(), RunId{});
  REQUIRE(plan.has_value());
  CHECK(plan->spec->model.layout()->values() == 199'210);
  const Outcome outcome = RunToEnd(MakeSetup(*plan));
  REQUIRE(outcome.end.rounds_to_target.has_value());
  INFO("90 % after " << *outcome.end.rounds_to_target << " rounds");
  CHECK(*outcome.end.rounds_to_target <= 7.5);
  CHECK(*outcome.end.rounds_to_target >= 3.0);  // faster than any correct program is a fault too
}

}  // namespace
}  // namespace skep::simulator
