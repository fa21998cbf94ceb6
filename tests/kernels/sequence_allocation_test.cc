// Counts every allocation of this program, so it is a program of its own.
#include "tests/kernels/reference.h"
#include "tests/kernels/sequence_reference.h"
#include "tests/support/allocations.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

TEST_CASE("layers over sequences allocate nothing after the first step", "[unit]") {
  for (const char* line : {"lstm 20", "gru 20", "attention 2 causal"}) {
    const model::ModelSpec spec = test::SequenceSpec({40, 6}, {line, line, "dense 5"});
    const test::SequenceBatch batch = test::RandomSequences(spec, 200, 1);
    for (const Isa isa : AvailableIsas()) {
      Network network(spec, 12, isa);
      std::vector<float> params = test::RandomFloats(spec.layout()->values(), 1, 0.1F);
      const auto step = [&](std::size_t rows) {
        network.TrainStep(params, {batch.x.data(), batch.labels.data(), rows},
                          {.learning_rate = 0.1F});
      };
      step(12);
      const std::size_t before = skep::test::Allocations();
      step(12);
      step(5);
      network.Evaluate(params, batch.View());
      const std::size_t count = skep::test::Allocations() - before;
      INFO(IsaName(isa) << ", " << line);
      CHECK(count == 0);
    }
  }
}

}  // namespace
}  // namespace skep::kernels
