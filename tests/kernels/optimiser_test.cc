#include "kernels/nn/optimiser.h"

#include <algorithm>
#include <cmath>

#include "kernels/nn/network.h"
#include "tests/kernels/point_reference.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

// torch.optim.Adam and AdamW of PyTorch's documentation, in double; clipping before the decay.
class AdamReference {
 public:
  explicit AdamReference(std::size_t parameters) : m_(parameters), v_(parameters) {}

  void Step(std::vector<double>& params, const std::vector<double>& gradient,
            const OptimiserStep& step) {
    ++t_;
    double norm = 0;
    for (const double g : gradient) norm += g * g;
    norm = std::sqrt(norm);
    const double clip =
        step.gradient_clip > 0 && norm > step.gradient_clip ? step.gradient_clip / norm : 1;
    const auto rate = static_cast<double>(step.learning_rate);
    const auto decay = static_cast<double>(step.weight_decay);
    for (std::size_t i = 0; i < params.size(); ++i) {
      double g = gradient[i] * clip;
      if (step.rule == Rule::kAdam) g += decay * params[i];
      if (step.rule == Rule::kAdamW) params[i] -= rate * decay * params[i];
      m_[i] = step.beta1 * m_[i] + (1 - step.beta1) * g;
      v_[i] = step.beta2 * v_[i] + (1 - step.beta2) * g * g;
      const double m = m_[i] / (1 - std::pow(step.beta1, t_));
      const double v = v_[i] / (1 - std::pow(step.beta2, t_));
      params[i] -= rate * m / (std::sqrt(v) + step.epsilon);
    }
  }

 private:
  std::vector<double> m_;
  std::vector<double> v_;
  int t_ = 0;
};

std::vector<OptimiserStep> AdamSteps() {
  return {
      {.learning_rate = 0.01F, .rule = Rule::kAdam},
      {.learning_rate = 0.01F, .rule = Rule::kAdam, .weight_decay = 0.1F},
      {.learning_rate = 0.01F, .rule = Rule::kAdamW, .weight_decay = 0.1F},
      {.learning_rate = 0.01F, .rule = Rule::kAdam, .weight_decay = 0.1F, .gradient_clip = 0.5},
      {.learning_rate = 0.01F, .rule = Rule::kAdamW, .weight_decay = 0.1F, .gradient_clip = 0.5},
      {.learning_rate = 0.05F, .rule = Rule::kAdam, .beta1 = 0.5, .beta2 = 0.99, .epsilon = 1e-3}};
}

TEST_CASE("Adam and AdamW follow PyTorch's formulae over 20 steps", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const std::size_t count : test::Sizes{1, 2, 7, 15, 16, 17, 33}) {
      for (const OptimiserStep& step : AdamSteps()) {
        test::Unaligned params(test::RandomFloats(count, 1));
        std::vector<double> expected(params.values().begin(), params.values().end());
        Optimiser optimiser(isa, count, {{0, count}});
        AdamReference reference(count);
        for (std::uint64_t t = 0; t < 20; ++t) {
          const std::vector<float> gradient = test::RandomFloats(count, 100 + t);
          optimiser.Step(params.values(), gradient, step);
          reference.Step(expected, {gradient.begin(), gradient.end()}, step);
        }
        for (std::size_t i = 0; i < count; ++i) {
          INFO(IsaName(isa) << ", " << count << " parameters, decay " << step.weight_decay
                            << ", clip " << step.gradient_clip << ", parameter " << i);
          REQUIRE(std::abs(static_cast<double>(params.values()[i]) - expected[i]) < 5e-7);
        }
      }
    }
  }
}

TEST_CASE("the first step of Adam is the learning rate against the sign", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    Optimiser optimiser(isa, 3, {{0, 3}});
    std::vector<float> params{1, 1, 1};
    optimiser.Step(params, std::vector<float>{0.001F, -100, 0},
                   {.learning_rate = 0.1F, .rule = Rule::kAdam});
    CHECK(std::abs(params[0] - 0.9F) < 2e-6F);
    CHECK(std::abs(params[1] - 1.1F) < 2e-6F);
    CHECK(params[2] == 1);
  }
}

TEST_CASE("a task starts without the moments of the one before", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    Optimiser optimiser(isa, 17, {{0, 17}});
    std::vector<std::vector<float>> results;
    for (int task = 0; task < 2; ++task) {
      optimiser.BeginTask();
      std::vector<float> params(17, 1);
      for (std::uint64_t t = 0; t < 3; ++t) {
        optimiser.Step(params, test::RandomFloats(17, t), AdamSteps()[2]);
      }
      results.push_back(params);
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("no optimiser and no decay touches running statistics", "[unit]") {
  const auto spec = test::LayerSpec({3}, {"dense 4", "norm batch", "dense 2", "norm batch"});
  std::vector<OptimiserStep> steps = AdamSteps();
  steps.push_back({.learning_rate = 0.1F});
  steps.push_back({.learning_rate = 0.1F, .weight_decay = 0.5F});
  steps.push_back({.learning_rate = 0.1F,
                   .momentum = 0.9F,
                   .nesterov = true,
                   .weight_decay = 0.5F,
                   .gradient_clip = 1e-3});
  // Where the statistics of a batch would be moved to if training moved nothing else.
  for (const Isa isa : AvailableIsas()) {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const std::vector<float> before(spec.layout()->values(), 0.75F);
      std::vector<float> params = before;
      std::vector<float> still = before;
      const test::LabelledBatch batch = test::BatchFor(spec, 5, 1);
      OptimiserStep none = steps[s];
      none.learning_rate = 0;
      Network(spec, 5, isa).TrainStep(params, batch.View(), steps[s]);
      Network(spec, 5, isa).TrainStep(still, batch.View(), none);
      const auto& tensors = spec.layout()->tensors();
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        const bool is_statistic = tensors[t].name.find("running") != std::string::npos;
        for (std::size_t i = 0; i < tensors[t].Count(); ++i) {
          const std::size_t at = spec.layout()->Offset(t) + i;
          INFO(IsaName(isa) << ", step " << s << ", " << tensors[t].name);
          if (is_statistic) CHECK(params[at] == still[at]);
          if (is_statistic) CHECK(params[at] != before[at]);
          if (!is_statistic) CHECK(still[at] == before[at]);
        }
      }
    }
  }
}

TEST_CASE("a clip scales a longer gradient to its norm and leaves a shorter one", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const Rule rule : {Rule::kSgd, Rule::kAdam}) {
      for (const double clip : {1.0, 5.0, 6.0}) {
        Optimiser optimiser(isa, 4, {{0, 4}});
        std::vector<float> params(4, 0);
        optimiser.Step(params, std::vector<float>{3, 4, 0, 0},
                       {.learning_rate = 1, .rule = rule, .gradient_clip = clip, .epsilon = 1});
        const float g = clip < 5 ? 0.6F : 3;
        // Adam with epsilon 1: g / (g + 1).
        const float expected = rule == Rule::kSgd ? g : g / (g + 1);
        INFO(IsaName(isa) << ", clip " << clip << ", moved by " << params[0]);
        CHECK(std::abs(params[0] + expected) < 2e-5F);
        CHECK(params[3] == 0);
      }
    }
  }
}

}  // namespace
}  // namespace skep::kernels
