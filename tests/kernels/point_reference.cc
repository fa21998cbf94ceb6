#include "tests/kernels/point_reference.h"

#include <algorithm>
#include <cmath>

#include "shared/base/rng.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels::test {
namespace {

using Values = std::vector<std::vector<double>>;  // one vector an example

struct Forward {
  const model::Layout& layout;
  const std::vector<double>& params;
  PointReference::Mode mode;
  Values values;
  std::vector<Values> kept = {};

  [[nodiscard]] const double* Tensor(std::size_t index) const {
    return params.data() + layout.Offset(index);
  }

  void operator()(const model::DenseLayer& layer) {
    const double* weight = Tensor(layer.weight);
    for (std::vector<double>& row : values) {
      std::vector<double> y(std::size_t{layer.positions} * layer.outputs);
      for (std::size_t p = 0; p < layer.positions; ++p) {
        for (std::size_t o = 0; o < layer.outputs; ++o) {
          double& sum = y[p * layer.outputs + o];
          if (layer.has_bias) sum = Tensor(layer.bias)[o];
          for (std::size_t i = 0; i < layer.inputs; ++i) {
            sum += weight[o * layer.inputs + i] * row[p * layer.inputs + i];
          }
        }
      }
      row = y;
    }
  }

  // One group, with a bias or without.
  void operator()(const model::ConvLayer& layer) {
    for (std::vector<double>& row : values) {
      std::vector<double> y(layer.out.Values());
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t o = i % layer.out.channels;
        const std::size_t pixel = i / layer.out.channels;
        const std::size_t top = pixel / layer.out.width * layer.stride;
        const std::size_t left = pixel % layer.out.width * layer.stride;
        if (layer.has_bias) y[i] = Tensor(layer.bias)[o];
        y[i] += Window(layer, row, o, top, left);
      }
      row = y;
    }
  }

  [[nodiscard]] double Window(const model::ConvLayer& layer, const std::vector<double>& x,
                              std::size_t o, std::size_t top, std::size_t left) const {
    const std::size_t taps = std::size_t{layer.kernel_height} * layer.kernel_width;
    double sum = 0;
    for (std::size_t t = 0; t < taps; ++t) {
      // Outside the image both wrap to large numbers.
      const std::size_t row = top + t / layer.kernel_width - layer.pad_height;
      const std::size_t column = left + t % layer.kernel_width - layer.pad_width;
      if (row >= layer.in.height || column >= layer.in.width) continue;
      for (std::size_t c = 0; c < layer.in.channels; ++c) {
        sum += Tensor(layer.weight)[(o * layer.in.channels + c) * taps + t] *
               x[(row * layer.in.width + column) * layer.in.channels + c];
      }
    }
    return sum;
  }

  void operator()(const model::ActivationLayer& layer) {
    for (std::vector<double>& row : values) {
      for (double& v : row) {
        switch (layer.kind) {
          case model::Activation::kRelu:
            v = std::max(v, 0.0);
            break;
          case model::Activation::kTanh:
            v = std::tanh(v);
            break;
          case model::Activation::kSigmoid:
            v = 1 / (1 + std::exp(-v));
            break;
          case model::Activation::kGelu:
            v = GeluReference(v);
            break;
        }
      }
    }
  }

  void operator()(const model::TransposeLayer& layer) {
    const std::size_t rows = layer.to_channel_last ? layer.channels : layer.pixels;
    const std::size_t columns = layer.to_channel_last ? layer.pixels : layer.channels;
    for (std::vector<double>& row : values) {
      std::vector<double> turned(row.size());
      for (std::size_t i = 0; i < row.size(); ++i) {
        turned[i % columns * rows + i / columns] = row[i];
      }
      row = turned;
    }
  }

  void operator()(const model::DropoutLayer& layer) {
    if (!mode.is_training) return;
    std::uint64_t number = 0;
    for (std::vector<double>& row : values) {
      for (double& v : row) {
        const PhiloxBlock block =
            Philox(mode.step_key, {static_cast<std::uint32_t>(number / 4), layer.index, 0, 5});
        const bool is_kept =
            static_cast<double>(block.at(number % 4) >> 8U) * 0x1p-24 >= layer.probability;
        v = is_kept ? v / (1 - layer.probability) : 0;
        ++number;
      }
    }
  }

  // The number of the set of values that value i of example `row` is normalised with.
  [[nodiscard]] static std::size_t SetOf(const model::NormLayer& layer, std::size_t row,
                                         std::size_t i) {
    const std::size_t channels = layer.shape.channels;
    if (layer.kind == model::NormLayer::Kind::kBatch) return i % channels;
    if (layer.kind == model::NormLayer::Kind::kLayer) {
      return row * layer.shape.Pixels() + i / channels;
    }
    return row * layer.groups + i % channels / (channels / layer.groups);
  }

  void operator()(const model::NormLayer& layer) {
    struct Set {
      double count = 0;
      double mean = 0;
      double variance = 0;
    };
    const std::size_t channels = layer.shape.channels;
    const bool is_batch = layer.kind == model::NormLayer::Kind::kBatch;
    std::vector<Set> sets(std::max(channels, values.size() * layer.shape.Values()));
    const auto visit = [&](const auto& body) {
      for (std::size_t r = 0; r < values.size(); ++r) {
        for (std::size_t i = 0; i < values[r].size(); ++i) {
          body(values[r][i], sets[SetOf(layer, r, i)], i % channels);
        }
      }
    };
    visit([](double x, Set& set, std::size_t) { set.mean += x, ++set.count; });
    for (Set& set : sets) set.mean /= std::max(set.count, 1.0);
    visit([](double x, Set& set, std::size_t) {
      set.variance += (x - set.mean) * (x - set.mean) / set.count;
    });
    for (std::size_t c = 0; is_batch && !mode.is_training && c < channels; ++c) {
      sets[c].mean = Tensor(layer.running_mean)[c];
      sets[c].variance = std::max(0.0, Tensor(layer.running_var)[c]);
    }
    visit([&](double& x, Set& set, std::size_t c) {
      x = (x - set.mean) / std::sqrt(set.variance + 1e-5) * Tensor(layer.weight)[c] +
          Tensor(layer.bias)[c];
    });
  }

  void operator()(const model::EmbeddingLayer& layer) {
    for (std::vector<double>& row : values) {
      std::vector<double> y;
      for (const double symbol : row) {
        const double* vector =
            Tensor(layer.weight) + static_cast<std::size_t>(symbol) * layer.features;
        y.insert(y.end(), vector, vector + layer.features);
      }
      row = y;
    }
  }

  void operator()(const model::PositionsLayer& layer) {
    for (std::vector<double>& row : values) {
      for (std::size_t i = 0; i < row.size(); ++i) row[i] += Tensor(layer.weight)[i];
    }
  }

  void operator()(const model::ResidualLayer&) { kept.push_back(values); }

  void operator()(const model::AddLayer& layer) {
    const bool is_image = layer.shape.kind == model::Shape::Kind::kImage;
    for (std::size_t r = 0; r < values.size(); ++r) {
      for (std::size_t i = 0; i < values[r].size(); ++i) {
        const std::size_t c = i % layer.shape.channels;
        const std::size_t pixel = i / layer.shape.channels;
        const std::size_t row = pixel / layer.shape.width * (is_image ? layer.stride : 1);
        const std::size_t column = pixel % layer.shape.width * layer.stride;
        if (c >= layer.kept.channels) continue;
        values[r][i] +=
            kept.back()[r].at((row * layer.kept.width + column) * layer.kept.channels + c);
      }
    }
    kept.pop_back();
  }

  template <class Other>
  void operator()(const Other&) {
    FAIL("the reference has no such layer");
  }
};

double LossOfRow(const double* z, std::size_t width, std::int32_t label, LossKind kind) {
  if (kind == LossKind::kSoftmaxCrossEntropy) {
    const double largest = *std::max_element(z, z + width);
    double sum = 0;
    for (std::size_t c = 0; c < width; ++c) sum += std::exp(z[c] - largest);
    return largest + std::log(sum) - z[static_cast<std::size_t>(label)];
  }
  double sum = 0;
  for (std::size_t c = 0; c < width; ++c) {
    const double target = width == 1 ? label : (static_cast<std::int32_t>(c) == label ? 1 : 0);
    sum += kind == LossKind::kMeanSquaredError
               ? (z[c] - target) * (z[c] - target)
               : std::max(z[c], 0.0) - z[c] * target + std::log1p(std::exp(-std::abs(z[c])));
  }
  return sum / static_cast<double>(width);
}

}  // namespace

model::ModelSpec LayerSpec(std::vector<std::uint32_t> input, std::vector<std::string> lines) {
  auto spec = model::ModelSpec::Parse(std::move(input), std::move(lines));
  INFO((spec.has_value() ? std::string() : spec.error().message));
  REQUIRE(spec.has_value());
  return spec.value();
}

double Units(float value, double exact, double floor) {
  const double size = std::max(std::abs(exact), floor);
  return std::abs(static_cast<double>(value) - exact) / std::ldexp(1, std::ilogb(size) - 23);
}

double GeluReference(double x) {
  return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
}

double GeluSlopeReference(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) +
         x * std::exp(-x * x / 2) / std::sqrt(2 * 3.14159265358979323846);
}

LabelledBatch BatchFor(const model::ModelSpec& spec, std::size_t rows, std::uint64_t seed) {
  LabelledBatch batch{RandomFloats(rows * spec.input_values(), seed),
                      RandomLabels(rows * spec.positions(), spec.outputs(), seed + 1), rows};
  if (spec.input_symbols() == 0) return batch;
  const auto symbols = RandomLabels(batch.x.size(), spec.input_symbols(), seed + 2);
  std::copy(symbols.begin(), symbols.end(), batch.x.begin());
  return batch;
}

std::vector<std::vector<double>> PointReference::Outputs(const std::vector<double>& params,
                                                         const LabelledBatch& batch,
                                                         const Mode& mode) const {
  Forward forward{*spec_.layout(), params, mode, {}};
  const std::size_t width = spec_.input_values();
  for (std::size_t r = 0; r < batch.rows; ++r) {
    forward.values.emplace_back(batch.x.data() + r * width, batch.x.data() + (r + 1) * width);
  }
  for (const model::Layer& layer : spec_.layers()) std::visit(forward, layer);
  return forward.values;
}

double PointReference::Loss(const std::vector<double>& params, const LabelledBatch& batch,
                            const Mode& mode) const {
  const Values outputs = Outputs(params, batch, mode);
  const std::size_t places = spec_.positions();
  double sum = 0;
  double counted = 0;
  for (std::size_t i = 0; i < batch.rows * places; ++i) {
    if (batch.labels[i] < 0) continue;
    sum += LossOfRow(outputs[i / places].data() + i % places * spec_.outputs(), spec_.outputs(),
                     batch.labels[i], mode.loss);
    ++counted;
  }
  return counted == 0 ? 0 : sum / counted;
}

std::vector<double> PointReference::Slopes(std::span<const float> params,
                                           const LabelledBatch& batch, const Mode& mode) const {
  constexpr double kStep = 1e-5;
  std::vector<double> at(params.begin(), params.end());
  std::vector<double> slopes;
  for (double& value : at) {
    const double before = value;
    value = before + kStep;
    const double above = Loss(at, batch, mode);
    value = before - kStep;
    slopes.push_back((above - Loss(at, batch, mode)) / (2 * kStep));
    value = before;
  }
  return slopes;
}

void CheckAgainstReference(const model::ModelSpec& spec, std::span<const float> params,
                           const LabelledBatch& batch, const PointReference::Mode& mode) {
  const PointReference reference(spec);
  const std::vector<double> wide(params.begin(), params.end());
  const double loss = reference.Loss(wide, batch, mode);
  const std::vector<double> slopes = reference.Slopes(params, batch, mode);
  PointReference::Mode evaluation = mode;
  evaluation.is_training = false;
  const double evaluated = reference.Loss(wide, batch, evaluation);
  double largest = 1e-3;
  for (const double slope : slopes) largest = std::max(largest, std::abs(slope));
  for (const Isa isa : AvailableIsas()) {
    Unaligned at(std::vector<float>(params.begin(), params.end()));
    Unaligned gradient(std::vector<float>(params.size(), 77));
    Network network(spec, batch.rows, isa, mode.loss);
    const double result =
        network.Gradient(at.values(), batch.View(), gradient.values(), mode.step_key);
    INFO(IsaName(isa) << ", " << spec.lines().front() << ", " << batch.rows << " rows");
    CHECK(std::abs(result - loss) < 1e-5 * std::max(1.0, loss));
    const Evaluation sum = network.Evaluate(at.values(), batch.View());
    const double mean = sum.counted == 0 ? 0 : sum.loss_sum / static_cast<double>(sum.counted);
    CHECK(std::abs(mean - evaluated) < 1e-5 * std::max(1.0, evaluated));
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      INFO("parameter " << i << ": " << gradient.values()[i] << ", slope " << slopes[i]);
      REQUIRE(std::abs(static_cast<double>(gradient.values()[i]) - slopes[i]) < 1e-5 * largest);
    }
  }
}

void CheckSinks(const model::ModelSpec& spec, std::span<const float> params,
                const LabelledBatch& batch) {
  for (const Isa isa : AvailableIsas()) {
    std::vector<float> fused(params.begin(), params.end());
    std::vector<float> separate = fused;
    std::vector<float> gradient(params.size());
    Network network(spec, batch.rows, isa);
    network.Gradient(fused, batch.View(), gradient, 7);
    network.TrainStep(fused, batch.View(), {.learning_rate = 0.1F}, 7);
    // A clip that is never reached takes the path with a gradient of its own.
    network.TrainStep(separate, batch.View(), {.learning_rate = 0.1F, .gradient_clip = 1e30}, 7);
    INFO(IsaName(isa) << ", " << spec.lines().front());
    for (std::size_t i = 0; i < params.size(); ++i) {
      const float size = std::max(std::abs(params[i]), std::abs(gradient[i]));
      REQUIRE(std::abs(fused[i] - separate[i]) <= (isa == Isa::kPortable ? 0x1p-22F * size : 0));
    }
  }
}

}  // namespace skep::kernels::test
