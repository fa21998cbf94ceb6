#include "tests/kernels/conv_reference.h"

#include <algorithm>
#include <cmath>

#include "shared/base/check.h"

namespace skep::kernels::test {
namespace {

// Rows lie this far beyond their values.
constexpr std::size_t kGap = 5;

// visit(y, x, weight) for every product of a convolution: indices in one example's values.
template <class Visit>
void ForEachProduct(const model::ConvLayer& c, const Visit& visit) {
  const std::size_t group_inputs = c.in.channels / c.groups;
  const std::size_t group_outputs = c.out.channels / c.groups;
  for (std::size_t oy = 0; oy < c.out.height; ++oy) {
    for (std::size_t ox = 0; ox < c.out.width; ++ox) {
      for (std::size_t o = 0; o < c.out.channels; ++o) {
        for (std::size_t k = 0; k < group_inputs * c.kernel_height * c.kernel_width; ++k) {
          const std::size_t kx = k % c.kernel_width;
          const std::size_t ky = k / c.kernel_width % c.kernel_height;
          const std::size_t channel =
              o / group_outputs * group_inputs + k / c.kernel_width / c.kernel_height;
          const std::size_t y = oy * c.stride + ky;
          const std::size_t x = ox * c.stride + kx;
          if (y < c.pad_height || x < c.pad_width) continue;
          if (y - c.pad_height >= c.in.height || x - c.pad_width >= c.in.width) continue;
          visit((oy * c.out.width + ox) * c.out.channels + o,
                ((y - c.pad_height) * c.in.width + x - c.pad_width) * c.in.channels + channel,
                o * group_inputs * c.kernel_height * c.kernel_width + k);
        }
      }
    }
  }
}

std::vector<double> Convolved(const model::ModelSpec& spec, const model::ConvLayer& layer,
                              const std::vector<double>& params, const std::vector<double>& x) {
  std::vector<double> y(layer.out.Values());
  const double* weight = params.data() + spec.layout()->Offset(layer.weight);
  ForEachProduct(layer, [&](std::size_t at, std::size_t from, std::size_t w) {
    y[at] += x[from] * weight[w];
  });
  if (!layer.has_bias) return y;
  const double* bias = params.data() + spec.layout()->Offset(layer.bias);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i % layer.out.channels];
  return y;
}

std::vector<double> Pooled(const model::PoolLayer& layer, const std::vector<double>& x) {
  std::vector<double> y;
  for (std::size_t i = 0; i < layer.out.Values(); ++i) {
    const std::size_t c = i % layer.in.channels;
    const std::size_t column = i / layer.in.channels % layer.out.width;
    const std::size_t row = i / layer.in.channels / layer.out.width;
    double sum = 0;
    double largest = -INFINITY;
    for (std::size_t k = 0; k < std::size_t{layer.window_height} * layer.window_width; ++k) {
      const std::size_t from_row = row * layer.window_height + k / layer.window_width;
      const std::size_t from_column = column * layer.window_width + k % layer.window_width;
      const double value = x[(from_row * layer.in.width + from_column) * layer.in.channels + c];
      sum += value;
      largest = std::max(largest, value);
    }
    y.push_back(layer.is_maximum ? largest : sum / layer.window_height / layer.window_width);
  }
  return y;
}

std::vector<double> DenseOf(const model::ModelSpec& spec, const model::DenseLayer& layer,
                            const std::vector<double>& params, const std::vector<double>& x) {
  std::vector<double> y;
  const double* weight = params.data() + spec.layout()->Offset(layer.weight);
  for (std::size_t p = 0; p < layer.positions; ++p) {
    for (std::size_t o = 0; o < layer.outputs; ++o) {
      double sum = layer.has_bias ? params[spec.layout()->Offset(layer.bias) + o] : 0;
      for (std::size_t k = 0; k < layer.inputs; ++k) {
        sum += weight[o * layer.inputs + k] * x[p * layer.inputs + k];
      }
      y.push_back(sum);
    }
  }
  return y;
}

std::vector<double> Turned(const model::TransposeLayer& layer, const std::vector<double>& x) {
  std::vector<double> y(x.size());
  for (std::size_t p = 0; p < layer.pixels; ++p) {
    for (std::size_t c = 0; c < layer.channels; ++c) {
      const std::size_t last = p * layer.channels + c;
      const std::size_t major = c * layer.pixels + p;
      y[layer.to_channel_last ? last : major] = x[layer.to_channel_last ? major : last];
    }
  }
  return y;
}

std::vector<double> OutputsOf(const model::ModelSpec& spec, const std::vector<double>& params,
                              const float* row) {
  std::vector<double> x(row, row + spec.input_values());
  for (const model::Layer& layer : spec.layers()) {
    if (const auto* conv = std::get_if<model::ConvLayer>(&layer)) {
      x = Convolved(spec, *conv, params, x);
    } else if (const auto* pool = std::get_if<model::PoolLayer>(&layer)) {
      x = Pooled(*pool, x);
    } else if (const auto* dense = std::get_if<model::DenseLayer>(&layer)) {
      x = DenseOf(spec, *dense, params, x);
    } else if (const auto* transpose = std::get_if<model::TransposeLayer>(&layer)) {
      x = Turned(*transpose, x);
    } else {
      SKEP_CHECK(std::holds_alternative<model::ActivationLayer>(layer));
      for (double& value : x) value = std::max(value, 0.0);
    }
  }
  return x;
}

model::ModelSpec SpecOf(const std::vector<std::uint32_t>& input, const std::string& line) {
  std::vector<std::string> lines{line};
  // A model has parameters.
  if (line.find("conv") != 0) lines.emplace_back("dense 1");
  return model::ModelSpec::Parse(input, lines).value();
}

Unaligned Spread(const std::vector<float>& rows, std::size_t count, std::size_t values) {
  std::vector<float> spread(count * (values + kGap) - kGap, 77);
  for (std::size_t r = 0; r < count; ++r) {
    std::copy_n(rows.data() + r * values, values, spread.data() + r * (values + kGap));
  }
  return Unaligned(spread);
}

std::vector<float> Joined(Unaligned& spread, std::size_t count, std::size_t values) {
  std::vector<float> rows;
  for (std::size_t r = 0; r < count; ++r) {
    const float* row = spread.data() + r * (values + kGap);
    rows.insert(rows.end(), row, row + values);
  }
  return rows;
}

}  // namespace

void ExactSums::Add(std::size_t at, double a, double b) {
  sum[at] += a * b;
  magnitude[at] += std::abs(a * b);
  ++terms[at];
}

double ExactSums::WorstError(const std::vector<float>& computed) const {
  SKEP_CHECK(computed.size() == sum.size());
  double worst = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double allowed = static_cast<double>(terms[i] + 8) * 0x1p-24 * magnitude[i] + 1e-30;
    const double error = std::abs(static_cast<double>(computed[i]) - sum[i]) / allowed;
    if (!(error <= worst)) worst = error;  // NaN stays
  }
  return worst;
}

void AddConvolved(const model::ConvLayer& layer, const float* x, const float* weight,
                  const float* bias, ExactSums& y) {
  ForEachProduct(layer, [&](std::size_t at, std::size_t from, std::size_t w) {
    y.Add(at, static_cast<double>(x[from]), static_cast<double>(weight[w]));
  });
  if (bias == nullptr) return;
  for (std::size_t i = 0; i < y.sum.size(); ++i) {
    y.Add(i, static_cast<double>(bias[i % layer.out.channels]), 1);
  }
}

void AddInputGradient(const model::ConvLayer& layer, const float* dy, const float* weight,
                      ExactSums& dx) {
  ForEachProduct(layer, [&](std::size_t from, std::size_t at, std::size_t w) {
    dx.Add(at, static_cast<double>(dy[from]), static_cast<double>(weight[w]));
  });
}

void AddWeightGradient(const model::ConvLayer& layer, const float* x, const float* dy,
                       ExactSums& weight, ExactSums& bias) {
  ForEachProduct(layer, [&](std::size_t y_at, std::size_t x_at, std::size_t w) {
    weight.Add(w, static_cast<double>(x[x_at]), static_cast<double>(dy[y_at]));
  });
  for (std::size_t i = 0; i < layer.out.Values(); ++i) {
    bias.Add(i % layer.out.channels, static_cast<double>(dy[i]), 1);
  }
}

double ConvNetLoss(const model::ModelSpec& spec, const std::vector<double>& params, const float* x,
                   const std::int32_t* labels, std::size_t rows) {
  double loss = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::vector<double> z = OutputsOf(spec, params, x + r * spec.input_values());
    double sum = 0;
    for (const double value : z) sum += std::exp(value);
    loss += std::log(sum) - z.at(static_cast<std::size_t>(labels[r]));
  }
  return loss / static_cast<double>(rows);
}

LayerUnderTest::LayerUnderTest(const std::vector<std::uint32_t>& input, const std::string& line,
                               Isa isa, std::size_t rows, bool rectify)
    : spec_(SpecOf(input, line)), index_(0), in_values_(spec_.input_values()), rows_(rows) {
  while (std::holds_alternative<model::TransposeLayer>(spec_.layers()[index_])) ++index_;
  layer_ = MakeLayer(layer(), {.isa = isa,
                               .layout = *spec_.layout(),
                               .training_rows = rows,
                               .capacity = rows,
                               .rectify = rectify});
}

Pass LayerUnderTest::PassOf(Unaligned& params) const {
  return {.params = params.values(), .rows = rows_, .is_training = true, .step_key = 0};
}

std::vector<float> LayerUnderTest::Forward(const std::vector<float>& params,
                                           const std::vector<float>& x) {
  Unaligned values(params);
  Unaligned in = Spread(x, rows_, in_values_);
  Unaligned out = Spread(std::vector<float>(rows_ * out_values(), 77), rows_, out_values());
  layer_->Forward(PassOf(values), {in.data(), in_values_ + kGap},
                  {out.data(), out_values() + kGap});
  return Joined(out, rows_, out_values());
}

LayerUnderTest::Gradients LayerUnderTest::Backward(
    const std::vector<float>& params, const std::vector<float>& x, const std::vector<float>& y,
    const std::vector<float>& dy, const std::vector<float>& start, bool x_is_rectified,
    bool accumulate, float scale) {
  Unaligned values(params);
  Unaligned in = Spread(x, rows_, in_values_);
  Unaligned out = Spread(y, rows_, out_values());
  Unaligned out_gradient = Spread(dy, rows_, out_values());
  Unaligned in_gradient = Spread(std::vector<float>(rows_ * in_values_, 77), rows_, in_values_);
  Unaligned sink(start);
  layer_->Backward(PassOf(values),
                   {.x = {in.data(), in_values_ + kGap},
                    .y = {out.data(), out_values() + kGap},
                    .dy = {out_gradient.data(), out_values() + kGap},
                    .dx = {in_gradient.data(), in_values_ + kGap},
                    .x_is_rectified = x_is_rectified},
                   {.values = sink.values(), .accumulate = accumulate, .scale = scale});
  return {Joined(in_gradient, rows_, in_values_), {sink.values().begin(), sink.values().end()}};
}

}  // namespace skep::kernels::test
