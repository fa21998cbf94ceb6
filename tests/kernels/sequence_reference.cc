#include "tests/kernels/sequence_reference.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels::test {
namespace {

using Values = std::vector<double>;

double Sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// One example through one layer.
struct Forward {
  const model::Layout& layout;
  const Values& params;
  const Values& x;

  [[nodiscard]] const double* Tensor(std::size_t index) const {
    return params.data() + layout.Offset(index);
  }

  // W[row] x, x of `width` values.
  static double Dot(const double* weights, std::size_t row, std::size_t width, const double* x) {
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += weights[row * width + i] * x[i];
    return sum;
  }

  Values operator()(const model::DenseLayer& layer) const {
    Values y;
    for (std::size_t place = 0; place < layer.positions; ++place) {
      for (std::size_t o = 0; o < layer.outputs; ++o) {
        y.push_back(Dot(Tensor(layer.weight), o, layer.inputs, x.data() + place * layer.inputs) +
                    (layer.has_bias ? Tensor(layer.bias)[o] : 0));
      }
    }
    return y;
  }

  Values operator()(const model::ActivationLayer& layer) const {
    REQUIRE(layer.kind == model::Activation::kRelu);
    Values y = x;
    for (double& value : y) value = std::max(0.0, value);
    return y;
  }

  Values operator()(const model::RecurrentLayer& layer) const {
    Values h(layer.hidden);
    Values c(layer.hidden);
    Values y;
    for (std::size_t t = 0; t < layer.length; ++t) {
      const double* in = x.data() + t * layer.inputs;
      const Values before = h;
      for (std::size_t j = 0; j < layer.hidden; ++j) {
        const auto from_input = [&](std::size_t gate) {
          const std::size_t row = gate * layer.hidden + j;
          return Dot(Tensor(layer.weight_ih), row, layer.inputs, in) + Tensor(layer.bias)[row];
        };
        const auto from_state = [&](std::size_t gate) {
          return Dot(Tensor(layer.weight_hh), gate * layer.hidden + j, layer.hidden, before.data());
        };
        const double first = Sigmoid(from_input(0) + from_state(0));
        const double second = Sigmoid(from_input(1) + from_state(1));
        if (layer.kind == model::RecurrentLayer::Kind::kLstm) {
          c[j] = second * c[j] + first * std::tanh(from_input(2) + from_state(2));
          h[j] = Sigmoid(from_input(3) + from_state(3)) * std::tanh(c[j]);
        } else {
          const double candidate =
              std::tanh(from_input(2) + first * (from_state(2) + Tensor(layer.bias_hn)[j]));
          h[j] = (1 - second) * candidate + second * before[j];
        }
      }
      y.insert(y.end(), h.begin(), h.end());
    }
    return y;
  }

  Values operator()(const model::AttentionLayer& layer) const {
    const std::size_t features = layer.features;
    const std::size_t width = features / layer.heads;
    const auto projected = [&](std::size_t place, std::size_t output) {
      return Dot(Tensor(layer.weight_qkv), output, features, x.data() + place * features) +
             Tensor(layer.bias_qkv)[output];
    };
    Values y;
    for (std::size_t i = 0; i < layer.length; ++i) {
      const std::size_t seen = layer.is_causal ? i + 1 : layer.length;
      Values context(features);
      for (std::size_t head = 0; head < layer.heads; ++head) {
        const std::size_t first = head * width;
        Values weights(seen);
        double total = 0;
        for (std::size_t j = 0; j < seen; ++j) {
          double score = 0;
          for (std::size_t d = first; d < first + width; ++d) {
            score += projected(i, d) * projected(j, features + d);
          }
          weights[j] = std::exp(score / std::sqrt(static_cast<double>(width)));
          total += weights[j];
        }
        for (std::size_t j = 0; j < seen; ++j) {
          for (std::size_t d = first; d < first + width; ++d) {
            context[d] += weights[j] / total * projected(j, 2 * features + d);
          }
        }
      }
      for (std::size_t o = 0; o < features; ++o) {
        y.push_back(Dot(Tensor(layer.weight_out), o, features, context.data()) +
                    Tensor(layer.bias_out)[o]);
      }
    }
    return y;
  }

  template <class Other>
  Values operator()(const Other&) const {
    FAIL("not a layer of this reference");
    return {};
  }
};

}  // namespace

model::ModelSpec SequenceSpec(std::vector<std::uint32_t> input, std::vector<std::string> lines) {
  auto spec = model::ModelSpec::Parse(std::move(input), std::move(lines));
  REQUIRE(spec.has_value());
  return *std::move(spec);
}

SequenceBatch RandomSequences(const model::ModelSpec& spec, std::size_t rows, std::uint64_t seed) {
  return {RandomFloats(rows * spec.input_values(), seed),
          RandomLabels(rows * spec.positions(), spec.outputs(), seed + 1), rows};
}

std::vector<double> SequenceReference::Outputs(const std::vector<double>& params,
                                               const float* row) const {
  Values values(row, row + spec_.input_values());
  for (const model::Layer& layer : spec_.layers()) {
    values = std::visit(Forward{*spec_.layout(), params, values}, layer);
  }
  return values;
}

double SequenceReference::Loss(const std::vector<double>& params,
                               const SequenceBatch& batch) const {
  const std::size_t classes = spec_.outputs();
  double sum = 0;
  for (std::size_t r = 0; r < batch.rows; ++r) {
    const Values logits = Outputs(params, batch.x.data() + r * spec_.input_values());
    for (std::size_t place = 0; place < spec_.positions(); ++place) {
      double total = 0;
      for (std::size_t c = 0; c < classes; ++c) total += std::exp(logits[place * classes + c]);
      const auto label = static_cast<std::size_t>(batch.labels[r * spec_.positions() + place]);
      sum += std::log(total) - logits[place * classes + label];
    }
  }
  return sum / static_cast<double>(batch.rows * spec_.positions());
}

double SequenceReference::Slope(std::span<const float> params, std::size_t index,
                                const SequenceBatch& batch) const {
  constexpr double kStep = 1e-5;
  Values moved(params.begin(), params.end());
  moved[index] += kStep;
  const double above = Loss(moved, batch);
  moved[index] -= 2 * kStep;
  return (above - Loss(moved, batch)) / (2 * kStep);
}

void CheckAgainstReference(const model::ModelSpec& spec, std::size_t rows,
                           const SequenceCheck& check) {
  Unaligned params(RandomFloats(spec.layout()->values(), 3, check.scale));
  const SequenceBatch batch = RandomSequences(spec, rows, 10 + rows);
  const SequenceReference reference(spec);
  const Values exact(params.values().begin(), params.values().end());
  const double loss = reference.Loss(exact, batch);
  std::vector<double> slopes(exact.size());
  for (std::size_t i = 0; i < slopes.size(); i += check.stride) {
    slopes[i] = reference.Slope(params.values(), i, batch);
  }
  for (const Isa isa : AvailableIsas()) {
    INFO(IsaName(isa) << ", " << spec.lines().front() << ", " << rows << " rows");
    Network network(spec, rows + 2, isa);
    Unaligned gradient(std::vector<float>(exact.size(), 77));
    CHECK(std::abs(network.Gradient(params.values(), batch.View(), gradient.values()) - loss) <
          check.tolerance);
    double furthest = 0;
    for (std::size_t i = 0; i < slopes.size(); i += check.stride) {
      const double distance = std::abs(static_cast<double>(gradient.values()[i]) - slopes[i]);
      furthest = std::isnan(distance) ? distance : std::max(furthest, distance);
    }
    CHECK(furthest < check.tolerance);
    std::vector<float> outputs(spec.positions() * spec.outputs());
    network.Outputs(params.values(), batch.x.data(), 1, outputs);
    const Values expected = reference.Outputs(exact, batch.x.data());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      CHECK(std::abs(static_cast<double>(outputs[i]) - expected[i]) < check.tolerance);
    }
  }
}

}  // namespace skep::kernels::test
