#include <limits>

#include "kernels/point_loops.h"
#include "tests/kernels/point_reference.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

TEST_CASE("an embedding looks up the vector of each symbol", "[unit]") {
  const auto spec = test::LayerSpec({3}, {"embedding 2 symbols 4"});
  const std::vector<float> params{0, 1, 10, 11, 20, 21, 30, 31};
  const std::vector<float> x{3, 0, 3, 1, 2, 0};
  for (const Isa isa : AvailableIsas()) {
    Network network(spec, 2, isa);
    std::vector<float> y(12);
    network.Outputs(params, x.data(), 2, y);
    CHECK(y == std::vector<float>{30, 31, 0, 1, 30, 31, 10, 11, 20, 21, 0, 1});
  }
}

TEST_CASE("loops of embeddings and positions write their rows and no further", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const std::size_t n : test::Sizes{1, 2, 7, 15, 16, 17, 33}) {
      INFO(IsaName(isa) << ", " << n << " features");
      test::Unaligned vectors(test::RandomFloats(3 * n, 1));
      test::Unaligned y(std::vector<float>(4 * n + 1, 77));
      const std::vector<std::uint32_t> symbols{2, 0, 2, 1};
      PointLoopsFor(isa).embedding_forward({symbols.data(), 4, n, vectors.data(), y.data()});
      for (std::size_t i = 0; i < 4 * n; ++i) {
        REQUIRE(y.data()[i] == vectors.data()[symbols[i / n] * n + i % n]);
      }
      CHECK(y.data()[4 * n] == 77);
      test::Unaligned sums(std::vector<float>(3 * (n + 5), 77));
      PointLoopsFor(isa).add_vector({y.data(), n, 3, n, vectors.data(), sums.data(), n + 5});
      for (std::size_t i = 0; i < 3 * (n + 5); ++i) {
        const std::size_t c = i % (n + 5);
        const float expected = c < n ? y.data()[i / (n + 5) * n + c] + vectors.data()[c] : 77;
        REQUIRE(sums.data()[i] == expected);
      }
    }
  }
}

TEST_CASE("the gradient of a symbol is the sum over its places, 0 where it is not seen", "[unit]") {
  const std::vector<float> dy{1, 2, 10, 20, 100, 200};
  const std::vector<std::uint32_t> head{1, kNoRow, 0};
  const std::vector<std::uint32_t> next{2, kNoRow, kNoRow};
  for (const Isa isa : AvailableIsas()) {
    std::vector<float> vectors(6, 7);
    EmbeddingGradient op{.dy = dy.data(),
                         .head = head.data(),
                         .next = next.data(),
                         .symbols = 3,
                         .columns = 2,
                         .vectors = vectors.data(),
                         .scale = -0.5F,
                         .accumulate = false};
    PointLoopsFor(isa).embedding_gradient(op);
    CHECK(vectors == std::vector<float>{10, 20, 0, 0, 101, 202});
    op.accumulate = true;
    PointLoopsFor(isa).embedding_gradient(op);
    CHECK(vectors == std::vector<float>{5, 10, 0, 0, 50.5F, 101});
  }
}

TEST_CASE("the gradient of embeddings and positions is the slope of the loss", "[unit]") {
  for (const unsigned features : {1U, 2U, 7U, 15U, 16U, 17U, 33U}) {
    const std::string embedding = "embedding " + std::to_string(features) + " symbols 5";
    const auto spec = test::LayerSpec({4}, {embedding, "positions", "dense 3"});
    const auto params = test::RandomFloats(spec.layout()->values(), features);
    test::CheckAgainstReference(spec, params, test::BatchFor(spec, 5, features));
    test::CheckSinks(spec, params, test::BatchFor(spec, 5, features));
  }
}

TEST_CASE("positions pass the gradient on, through a ReLU too", "[unit]") {
  const auto spec = test::LayerSpec({4, 3}, {"dense 5", "relu", "positions", "dense 3"});
  const auto params = test::RandomFloats(spec.layout()->values(), 1);
  test::CheckAgainstReference(spec, params, test::BatchFor(spec, 5, 1));
  test::CheckSinks(spec, params, test::BatchFor(spec, 5, 1));
  const auto first = test::LayerSpec({4, 3}, {"positions", "dense 3"});
  test::CheckAgainstReference(first, test::RandomFloats(first.layout()->values(), 1),
                              test::BatchFor(first, 5, 1));
}

TEST_CASE("a vector that is no number shows in the loss", "[unit]") {
  const auto spec = test::LayerSpec({4}, {"embedding 3 symbols 2", "dense 3"});
  std::vector<float> params = test::RandomFloats(spec.layout()->values(), 1);
  for (std::size_t i = 0; i < 6; ++i) params[i] = std::numeric_limits<float>::quiet_NaN();
  for (const Isa isa : AvailableIsas()) {
    Network network(spec, 2, isa);
    std::vector<float> trained = params;
    const double loss =
        network.TrainStep(trained, test::BatchFor(spec, 2, 1).View(), {.learning_rate = 0.1F});
    CHECK(loss != loss);
  }
}

}  // namespace
}  // namespace skep::kernels
