#include "tests/kernels/reference.h"

#include <algorithm>
#include <cmath>

namespace skep::kernels::test {
namespace {

double LogSumExp(const std::vector<double>& z) {
  const double largest = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (const double value : z) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

}  // namespace

std::vector<float> RandomFloats(std::size_t count, std::uint64_t seed, float scale) {
  RandomStream stream(seed, {.purpose = Purpose::kSyntheticData});
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(2 * stream.Uniform() - 1) * scale;
  return values;
}

std::vector<std::int32_t> RandomLabels(std::size_t count, std::uint32_t classes,
                                       std::uint64_t seed) {
  RandomStream stream(seed, {.purpose = Purpose::kSyntheticData});
  std::vector<std::int32_t> labels(count);
  for (std::int32_t& label : labels) label = static_cast<std::int32_t>(stream.Below(classes));
  return labels;
}

Unaligned::Unaligned(const std::vector<float>& values) : storage_(values.size() + 1) {
  std::copy(values.begin(), values.end(), storage_.begin() + 1);
}

std::vector<std::vector<double>> ReferenceNetwork::Activations(const std::vector<double>& params,
                                                               const float* row) const {
  std::vector<std::vector<double>> values{{row, row + spec_.input_values()}};
  for (const model::Layer& layer : spec_.layers()) {
    const std::vector<double> x = values.back();
    std::vector<double> y = x;
    if (const auto* dense = std::get_if<model::DenseLayer>(&layer)) {
      const double* weights = params.data() + spec_.layout()->Offset(dense->weight);
      y.assign(dense->outputs, 0);
      for (std::size_t o = 0; o < y.size(); ++o) {
        for (std::size_t k = 0; k < x.size(); ++k) y[o] += weights[o * x.size() + k] * x[k];
        if (dense->has_bias) y[o] += params[spec_.layout()->Offset(dense->bias) + o];
      }
    } else if (std::holds_alternative<model::ActivationLayer>(layer)) {
      for (double& value : y) value = std::max(value, 0.0);
    }
    values.push_back(y);
  }
  return values;
}

std::vector<double> ReferenceNetwork::Outputs(const std::vector<double>& params,
                                              const float* row) const {
  return Activations(params, row).back();
}

double ReferenceNetwork::Loss(const std::vector<double>& params, const float* x,
                              const std::int32_t* y, std::size_t rows) const {
  double loss = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::vector<double> z = Outputs(params, x + r * spec_.input_values());
    loss += LogSumExp(z) - z.at(static_cast<std::size_t>(y[r]));
  }
  return loss / static_cast<double>(rows);
}

void ReferenceNetwork::AddGradient(const std::vector<double>& params, const float* row,
                                   std::int32_t label, double weight,
                                   std::vector<double>& gradient) const {
  const std::vector<std::vector<double>> values = Activations(params, row);
  std::vector<double> delta = values.back();
  const double total = LogSumExp(delta);
  for (double& value : delta) value = std::exp(value - total) * weight;
  delta.at(static_cast<std::size_t>(label)) -= weight;

  for (std::size_t i = spec_.layers().size(); i-- > 0;) {
    const std::vector<double>& x = values[i];
    if (const auto* dense = std::get_if<model::DenseLayer>(&spec_.layers()[i])) {
      const std::size_t weights = spec_.layout()->Offset(dense->weight);
      std::vector<double> below(x.size());
      for (std::size_t o = 0; o < delta.size(); ++o) {
        for (std::size_t k = 0; k < x.size(); ++k) {
          gradient[weights + o * x.size() + k] += delta[o] * x[k];
          below[k] += delta[o] * params[weights + o * x.size() + k];
        }
        if (dense->has_bias) gradient[spec_.layout()->Offset(dense->bias) + o] += delta[o];
      }
      delta = below;
    } else if (std::holds_alternative<model::ActivationLayer>(spec_.layers()[i])) {
      for (std::size_t k = 0; k < x.size(); ++k) delta[k] = x[k] > 0 ? delta[k] : 0;
    }
  }
}

ReferenceStep ReferenceNetwork::Gradient(const std::vector<double>& params, const float* x,
                                         const std::int32_t* y, std::size_t rows) const {
  ReferenceStep step{Loss(params, x, y, rows), std::vector<double>(params.size())};
  for (std::size_t r = 0; r < rows; ++r) {
    AddGradient(params, x + r * spec_.input_values(), y[r], 1.0 / static_cast<double>(rows),
                step.gradient);
  }
  return step;
}

void ReferenceNetwork::Update(std::vector<double>& params, std::vector<double> gradient,
                              std::vector<double>& velocity, const OptimiserStep& step) const {
  double norm = 0;
  for (const double g : gradient) norm += g * g;
  norm = std::sqrt(norm);
  const double scale =
      step.gradient_clip > 0 && norm > step.gradient_clip ? step.gradient_clip / norm : 1;
  for (std::size_t i = 0; i < params.size(); ++i) {
    double g = gradient[i] * scale + static_cast<double>(step.weight_decay) * params[i];
    velocity[i] = static_cast<double>(step.momentum) * velocity[i] + g;
    g = step.nesterov ? g + static_cast<double>(step.momentum) * velocity[i] : velocity[i];
    params[i] -= static_cast<double>(step.learning_rate) * g;
  }
}

}  // namespace skep::kernels::test
