#include "kernels/nn/loss.h"

#include <cmath>
#include <limits>

#include "tests/kernels/point_reference.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

constexpr double kLog2 = 0.6931471805599453;

TEST_CASE("known values of the sigmoid cross-entropy", "[unit]") {
  const std::vector<std::int32_t> labels{1, 0};
  for (const Isa isa : AvailableIsas()) {
    const Loss loss(LossKind::kSigmoidCrossEntropy, isa);
    INFO(IsaName(isa));
    std::vector<float> zeros(6);
    LossResult result = loss.Evaluate(zeros.data(), 3, 2, 3, labels.data());
    // The mean over rows and outputs is ln 2.
    CHECK(std::abs(result.sum - 2 * kLog2) < 1e-10);
    CHECK(result.counted == 2);
    CHECK(result.correct == 1);

    // ln(1 + e^-2) for the label, ln(1 + e^-1) for the other.
    std::vector<float> outputs{2, -1};
    const std::int32_t first = 0;
    result = loss.Gradient(outputs.data(), 2, 1, 2, &first);
    CHECK(std::abs(result.sum - (0.1269280110 + 0.3132616875) / 2) < 1e-8);
    CHECK(std::abs(outputs[0] + 0.11920292F / 2) < 3e-8F);
    CHECK(std::abs(outputs[1] - 0.26894142F / 2) < 3e-8F);
  }
}

TEST_CASE("known values of the mean squared error", "[unit]") {
  const std::vector<std::int32_t> labels{1, kNoLabel, 0};
  for (const Isa isa : AvailableIsas()) {
    const Loss loss(LossKind::kMeanSquaredError, isa);
    INFO(IsaName(isa));
    std::vector<float> outputs{0.5F, 0.25F, 9, 9, 3, -1};
    LossResult result = loss.Evaluate(outputs.data(), 2, 3, 2, labels.data());
    // (0.25 + 0.5625 + 4 + 1) / 2 outputs.
    CHECK(result.sum == 2.90625);
    CHECK(result.counted == 2);
    CHECK(result.correct == 1);
    result = loss.Gradient(outputs.data(), 2, 3, 2, labels.data());
    CHECK(result.sum == 2.90625);
    CHECK(result.correct == 0);
    // 2 (z - t) / (2 rows x 2 outputs).
    CHECK(outputs == std::vector<float>{0.25F, -0.375F, 0, 0, 1, -0.5F});
  }
}

TEST_CASE("the target of a single output is its label", "[unit]") {
  const std::vector<std::int32_t> labels{0, 1, 1, 0, kNoLabel};
  for (const Isa isa : AvailableIsas()) {
    INFO(IsaName(isa));
    std::vector<float> outputs{-1, 2, -3, 0, 5};
    const Loss sigmoid(LossKind::kSigmoidCrossEntropy, isa);
    LossResult result = sigmoid.Evaluate(outputs.data(), 1, 5, 1, labels.data());
    CHECK(std::abs(result.sum - (0.3132616875 + 0.1269280110 + 3.0485873516 + 0.6931471806)) <
          1e-6);
    CHECK(result.counted == 4);
    // 0 is not above 0.
    CHECK(result.correct == 3);
    const Loss squared(LossKind::kMeanSquaredError, isa);
    result = squared.Gradient(outputs.data(), 1, 5, 1, labels.data());
    CHECK(result.sum == 1 + 1 + 16);
    CHECK(outputs == std::vector<float>{-0.5F, 0.5F, -2, 0, 0});
    CHECK(squared.Classes(1) == 2);
    CHECK(squared.Classes(3) == 3);
  }
}

TEST_CASE("losses of outputs far from 0 are exact", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    const Loss loss(LossKind::kSigmoidCrossEntropy, isa);
    for (const float z : {-80.0F, -30.0F, -5.0F, -0.01F, 0.3F, 3.0F, 20.0F, 80.0F, 1e30F}) {
      for (const std::int32_t label : {0, 1}) {
        float output = z;
        const LossResult result = loss.Gradient(&output, 1, 1, 1, &label);
        const auto at = static_cast<double>(z);
        const double exact =
            std::log1p(std::exp(-std::abs(at))) + (((z > 0) != (label == 1)) ? std::abs(at) : 0);
        INFO(IsaName(isa) << ", output " << z << ", label " << label);
        CHECK(std::abs(result.sum - exact) <= 3e-7 * exact + 3e-38);
        CHECK(std::abs(static_cast<double>(output) - (1 / (1 + std::exp(-at)) - label)) < 2e-7);
      }
    }
  }
}

TEST_CASE("a batch without labels has no loss and no gradient", "[unit]") {
  const std::vector<std::int32_t> labels(3, kNoLabel);
  for (const LossKind kind : {LossKind::kSoftmaxCrossEntropy, LossKind::kSigmoidCrossEntropy,
                              LossKind::kMeanSquaredError}) {
    for (const Isa isa : AvailableIsas()) {
      const Loss loss(kind, isa);
      for (const std::size_t width : test::Sizes{1, 2, 17}) {
        std::vector<float> outputs = test::RandomFloats(3 * width, 1);
        CHECK(loss.Evaluate(outputs.data(), width, 3, width, labels.data()).counted == 0);
        const LossResult result = loss.Gradient(outputs.data(), width, 3, width, labels.data());
        CHECK(result.sum == 0);
        CHECK(outputs == std::vector<float>(3 * width, 0));
      }
    }
  }
}

TEST_CASE("a loss touches nothing beyond its rows", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const std::size_t width : test::Sizes{1, 2, 7, 15, 16, 17, 33}) {
      const std::size_t stride = width + 3;
      const std::vector<std::int32_t> labels{0, kNoLabel, 0};
      test::Unaligned outputs(std::vector<float>(3 * stride, 77));
      const Loss loss(LossKind::kSigmoidCrossEntropy, isa);
      static_cast<void>(loss.Gradient(outputs.data(), stride, 3, width, labels.data()));
      for (std::size_t i = 0; i < 3 * stride; ++i) {
        INFO(IsaName(isa) << ", width " << width << ", place " << i);
        if (i % stride >= width) REQUIRE(outputs.data()[i] == 77);
        if (i % stride < width) REQUIRE(outputs.data()[i] != 77);
      }
    }
  }
}

TEST_CASE("an output that is no number is a loss that is none and never right", "[unit]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const LossKind kind : {LossKind::kSigmoidCrossEntropy, LossKind::kMeanSquaredError}) {
    for (const Isa isa : AvailableIsas()) {
      const Loss loss(kind, isa);
      std::vector<float> outputs{3, nan};
      const std::int32_t zero = 0;
      LossResult result = loss.Evaluate(outputs.data(), 2, 1, 2, &zero);
      CHECK(std::isnan(result.sum));
      CHECK(result.correct == 0);
      result = loss.Evaluate(outputs.data() + 1, 1, 1, 1, &zero);
      CHECK(std::isnan(result.sum));
      CHECK(result.correct == 0);
      CHECK(std::isnan(loss.Gradient(outputs.data(), 2, 1, 2, &zero).sum));
      CHECK(std::isnan(outputs[1]));
    }
  }
}

TEST_CASE("the gradient of every loss is its slope, with rows that do not count", "[unit]") {
  for (const LossKind kind : {LossKind::kSoftmaxCrossEntropy, LossKind::kSigmoidCrossEntropy,
                              LossKind::kMeanSquaredError}) {
    for (const unsigned width : {2U, 7U, 15U, 16U, 17U, 33U}) {
      const auto spec = test::LayerSpec({3}, {"dense 4", "tanh", "dense " + std::to_string(width)});
      const auto params = test::RandomFloats(spec.layout()->values(), width, 2);
      test::LabelledBatch batch = test::BatchFor(spec, 6, width);
      batch.labels[2] = kNoLabel;
      test::PointReference::Mode mode;
      mode.loss = kind;
      test::CheckAgainstReference(spec, params, batch, mode);
    }
    const auto sequence = test::LayerSpec({5, 3}, {"dense 4", "tanh", "dense 3"});
    test::LabelledBatch batch = test::BatchFor(sequence, 3, 1);
    for (std::size_t i = 0; i < 15; i += 4) batch.labels[i] = kNoLabel;
    test::PointReference::Mode mode;
    mode.loss = kind;
    test::CheckAgainstReference(sequence, test::RandomFloats(sequence.layout()->values(), 2), batch,
                                mode);
  }
}

TEST_CASE("binary models learn with a single output", "[unit]") {
  for (const LossKind kind : {LossKind::kSigmoidCrossEntropy, LossKind::kMeanSquaredError}) {
    const auto spec = test::LayerSpec({3}, {"dense 1"});
    const auto params = test::RandomFloats(4, 1);
    test::LabelledBatch batch = test::BatchFor(spec, 6, 2);
    batch.labels = {0, 1, 1, kNoLabel, 0, 1};
    test::PointReference::Mode mode;
    mode.loss = kind;
    test::CheckAgainstReference(spec, params, batch, mode);
  }
}

}  // namespace
}  // namespace skep::kernels
