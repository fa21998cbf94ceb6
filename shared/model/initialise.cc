// Initial weights of every kind of layer.
#include <algorithm>
#include <cmath>
#include <map>

#include "shared/base/rng.h"
#include "shared/model/model_spec.h"

namespace skep::model {
namespace {

// How one tensor starts.
struct Rule {
  enum class Draw { kConstant, kUniform, kNormal };
  Draw draw = Draw::kConstant;
  double spread = 0;  // the constant, half the width, or the deviation
};

Rule Constant(double value) {
  return {Rule::Draw::kConstant, value};
}
Rule Uniform(double half_width) {
  return {Rule::Draw::kUniform, half_width};
}
Rule Normal(double deviation) {
  return {Rule::Draw::kNormal, deviation};
}

// Rules by tensor; tensors without one start from zero.
class Rules {
 public:
  explicit Rules(Initialiser initialiser) : initialiser_(initialiser) {}

  void operator()(const DenseLayer& layer) {
    Weight(layer.weight, layer.inputs, layer.outputs);
    if (layer.has_bias) Bias(layer.bias, layer.inputs);
  }
  void operator()(const ConvLayer& layer) {
    const double window = double{1} * layer.kernel_height * layer.kernel_width;
    const double fan_in = window * layer.in.channels / layer.groups;
    Weight(layer.weight, fan_in, window * layer.out.channels);  // as TensorFlow, groups or not
    if (layer.has_bias) Bias(layer.bias, fan_in);
  }
  void operator()(const NormLayer& layer) {
    rules_[layer.weight] = Constant(1);
    if (layer.kind == NormLayer::Kind::kBatch) rules_[layer.running_var] = Constant(1);
  }
  void operator()(const EmbeddingLayer& layer) {
    if (initialiser_ != Initialiser::kZeros) rules_[layer.weight] = Normal(1);
  }
  void operator()(const PositionsLayer& layer) {
    constexpr double kDeviation = 0.02;
    if (initialiser_ != Initialiser::kZeros) rules_[layer.weight] = Normal(kDeviation);
  }
  // PyTorch draws all tensors of a recurrent layer by the number of its hidden values.
  void operator()(const RecurrentLayer& layer) {
    const double rows = double{1} * layer.gates() * layer.hidden;
    const bool is_fan_in = initialiser_ == Initialiser::kFanIn;
    Weight(layer.weight_ih, is_fan_in ? layer.hidden : layer.inputs, rows);
    Weight(layer.weight_hh, layer.hidden, rows);
    Bias(layer.bias, layer.hidden);
    if (layer.kind == RecurrentLayer::Kind::kGru) Bias(layer.bias_hn, layer.hidden);
  }
  void operator()(const AttentionLayer& layer) {
    const double width = layer.features;
    Weight(layer.weight_qkv, width, 3 * width);
    Bias(layer.bias_qkv, width);
    Weight(layer.weight_out, width, width);
    Bias(layer.bias_out, width);
  }
  template <class WithoutTensors>
  void operator()(const WithoutTensors&) {}

  [[nodiscard]] Rule Of(std::size_t tensor) const {
    const auto found = rules_.find(tensor);
    return found == rules_.end() ? Constant(0) : found->second;
  }

 private:
  void Weight(std::size_t tensor, double fan_in, double fan_out) {
    switch (initialiser_) {
      case Initialiser::kFanIn:
        rules_[tensor] = Uniform(1.0 / std::sqrt(fan_in));
        break;
      case Initialiser::kGlorot:
        rules_[tensor] = Uniform(std::sqrt(6.0 / (fan_in + fan_out)));
        break;
      case Initialiser::kHe:
        rules_[tensor] = Normal(std::sqrt(2.0 / fan_in));
        break;
      case Initialiser::kZeros:
        break;
    }
  }
  void Bias(std::size_t tensor, double fan_in) {
    if (initialiser_ == Initialiser::kFanIn) rules_[tensor] = Uniform(1.0 / std::sqrt(fan_in));
  }

  Initialiser initialiser_;
  std::map<std::size_t, Rule> rules_;
};

void Draw(RandomStream& stream, const Rule& rule, std::span<float> values) {
  if (rule.draw == Rule::Draw::kConstant) {
    std::fill(values.begin(), values.end(), static_cast<float>(rule.spread));
    return;
  }
  for (float& value : values) {
    const double drawn =
        rule.draw == Rule::Draw::kNormal ? stream.Normal() : 2.0 * stream.Uniform() - 1.0;
    value = static_cast<float>(drawn * rule.spread);
  }
}

}  // namespace

Params InitialParams(const ModelSpec& spec, Initialiser initialiser, std::uint64_t run_seed) {
  Params params(spec.layout());
  Rules rules(initialiser);
  for (const Layer& layer : spec.layers()) std::visit(rules, layer);
  RandomStream stream(run_seed, {.purpose = Purpose::kInitialWeights});
  for (std::size_t i = 0; i < spec.layout()->tensors().size(); ++i) {
    Draw(stream, rules.Of(i), params.Tensor(i));
  }
  return params;
}

}  // namespace skep::model
