// Normalisation.
#include <array>

#include "tests/gpu/operations.h"
#include "tests/gpu/shapes.h"

namespace skep::gpu {
namespace {

namespace body = kernels::body;
using body::NormShape;

constexpr double kEpsilon = 1e-5;

// A lane with all of its examples, one with half of them, one without.
struct Norm {
  NormShape shape;
  std::vector<std::uint32_t> active;
  std::uint64_t stride;
  Floats x;
  Floats dy;
  Floats weight;
  Floats bias;
  std::vector<double> mean;
  std::vector<double> variance;

  // With n values in each set of the first lane.
  static NormShape ShapeFor(std::uint64_t n, bool is_batch) {
    const Factors f(n);
    const auto rows = static_cast<std::uint32_t>(f.rows);
    if (is_batch) {
      return {.rows = rows,
              .pixels = f.width,
              .channels = 3,
              .groups = 1,
              .is_batch = 1,
              .row_unit = 1};
    }
    return {.rows = 4,
            .pixels = rows,
            .channels = 2 * f.width,
            .groups = 2,
            .is_batch = 0,
            .row_unit = 2};
  }

  Norm(Bench& b, const NormShape& s)
      : shape(s),
        active{s.rows / s.row_unit, s.rows / s.row_unit / 2, 0},
        stride(s.channels + 1),
        x(b.Random(kLanes * Values())),
        dy(b.Random(kLanes * Values())),
        weight(b.Random(kLanes * stride)),
        bias(b.Random(kLanes * stride)) {
    for (const float value : b.Random(std::uint64_t{kLanes} * s.Sets())) {
      mean.push_back(static_cast<double>(value) / 3);
      variance.push_back(std::abs(static_cast<double>(value)) + 0.1);
    }
  }

  [[nodiscard]] std::uint64_t Values() const {
    return std::uint64_t{shape.rows} * shape.pixels * shape.channels;
  }
  // The set of value `i` of a lane, said in another way than the kernels do.
  [[nodiscard]] std::uint64_t SetOf(std::uint64_t i) const {
    const std::uint64_t channel = i % shape.channels;
    if (shape.is_batch != 0) return channel;
    const std::uint64_t row = i / (std::uint64_t{shape.pixels} * shape.channels);
    return row * shape.groups + channel * shape.groups / shape.channels;
  }
  [[nodiscard]] bool IsActive(std::uint64_t lane, std::uint64_t i) const {
    const std::uint64_t row = i / (std::uint64_t{shape.pixels} * shape.channels);
    return row < std::uint64_t{active[lane]} * shape.row_unit;
  }
  // Calls visit(set of all, value of all, channel) for the values that count in their set.
  template <class Visit>
  void ForCounted(const Visit& visit) const {
    for (std::uint64_t at = 0; at < kLanes * Values(); ++at) {
      const std::uint64_t lane = at / Values();
      const bool counts = shape.is_batch == 0 || IsActive(lane, at % Values());
      if (counts) visit(lane * shape.Sets() + SetOf(at % Values()), at, at % shape.channels);
    }
  }
  [[nodiscard]] double Hat(std::uint64_t set, std::uint64_t at) const {
    return (static_cast<double>(x[at]) - mean[set]) / std::sqrt(variance[set] + kEpsilon);
  }
};

void TryStatistics(Bench& b, std::uint64_t n) {
  for (const bool is_batch : {true, false}) {
    const Norm norm(b, Norm::ShapeFor(n, is_batch));
    const std::uint64_t sets = std::uint64_t{kLanes} * norm.shape.Sets();
    const auto mean = b.Put(std::vector<double>(sets, 9));
    const auto variance = b.Put(std::vector<double>(sets, 9));
    b.Launch<body::NormStatistics>(b.Blocks(norm.shape.Sets(), kLanes),
                                   {.x = b.Put(norm.x),
                                    .active = b.Put(norm.active),
                                    .mean = mean,
                                    .variance = variance,
                                    .shape = norm.shape});
    const auto got_mean = b.Take(mean, sets);
    const auto got_variance = b.Take(variance, sets);
    std::vector<double> want(sets);
    std::vector<double> squares(sets);
    std::vector<double> count(sets);
    norm.ForCounted([&](std::uint64_t set, std::uint64_t at, std::uint64_t) {
      want[set] += norm.x[at];
      count[set] += 1;
    });
    for (std::uint64_t set = 0; set < sets; ++set) want[set] /= std::max(count[set], 1.0);
    norm.ForCounted([&](std::uint64_t set, std::uint64_t at, std::uint64_t) {
      const double distance = static_cast<double>(norm.x[at]) - want[set];
      squares[set] += distance * distance;
    });
    for (std::uint64_t set = 0; set < sets; ++set) {
      b.CompareDoubles("mean", set, got_mean[set], want[set], 2);
      b.CompareDoubles("variance", set, got_variance[set], squares[set] / std::max(count[set], 1.0),
                       4);
    }
  }
}

void TryApply(Bench& b, std::uint64_t n) {
  for (const bool is_batch : {true, false}) {
    const Norm norm(b, Norm::ShapeFor(n, is_batch));
    const std::uint64_t count = norm.Values();
    const auto y = b.Put(Floats(kLanes * count));
    b.Launch<body::NormApply>(b.Loop(kLanes), {.x = b.Put(norm.x),
                                               .y = y,
                                               .mean = b.Put(norm.mean),
                                               .variance = b.Put(norm.variance),
                                               .weight = b.Put(norm.weight),
                                               .bias = b.Put(norm.bias),
                                               .stride = norm.stride,
                                               .epsilon = kEpsilon,
                                               .rectify = is_batch ? 1U : 0U,
                                               .shape = norm.shape});
    const Floats got = b.Take(y, kLanes * count);
    for (std::uint64_t at = 0; at < got.size(); ++at) {
      const std::uint64_t lane = at / count;
      const std::uint64_t set = lane * norm.shape.Sets() + norm.SetOf(at % count);
      const std::uint64_t channel = lane * norm.stride + at % norm.shape.channels;
      const double centred = static_cast<double>(norm.x[at]) - norm.mean[set];
      const double inverse = 1 / std::sqrt(norm.variance[set] + kEpsilon);
      const Bound want = Bound(centred, std::abs(centred)) * Bound(inverse, inverse) *
                             Bound(norm.weight[channel]) +
                         Bound(norm.bias[channel]);
      // A value at the kink may fall on either side.
      const Bound rectified = want.value < 0 ? Bound(0, want.error) : want;
      b.Compare("y", at, got[at], is_batch ? rectified : want);
    }
  }
}

struct Means {
  std::vector<double> g;
  std::vector<double> products;
};

Means MeansOf(const Norm& norm) {
  const std::uint64_t sets = std::uint64_t{kLanes} * norm.shape.Sets();
  Means means{std::vector<double>(sets), std::vector<double>(sets)};
  std::vector<double> count(sets);
  norm.ForCounted([&](std::uint64_t set, std::uint64_t at, std::uint64_t channel) {
    const std::uint64_t lane = set / norm.shape.Sets();
    const double g = static_cast<double>(norm.dy[at]) *
                     static_cast<double>(norm.weight[lane * norm.stride + channel]);
    means.g[set] += g;
    means.products[set] += g * norm.Hat(set, at);
    count[set] += 1;
  });
  for (std::uint64_t set = 0; set < sets; ++set) {
    means.g[set] /= std::max(count[set], 1.0);
    means.products[set] /= std::max(count[set], 1.0);
  }
  return means;
}

void TryGradientMeans(Bench& b, std::uint64_t n) {
  for (const bool is_batch : {true, false}) {
    const Norm norm(b, Norm::ShapeFor(n, is_batch));
    const std::uint64_t sets = std::uint64_t{kLanes} * norm.shape.Sets();
    const auto g = b.Put(std::vector<double>(sets, 9));
    const auto products = b.Put(std::vector<double>(sets, 9));
    b.Launch<body::NormGradientMeans>(b.Blocks(norm.shape.Sets(), kLanes),
                                      {.x = b.Put(norm.x),
                                       .dy = b.Put(norm.dy),
                                       .active = b.Put(norm.active),
                                       .mean = b.Put(norm.mean),
                                       .variance = b.Put(norm.variance),
                                       .weight = b.Put(norm.weight),
                                       .stride = norm.stride,
                                       .means = g,
                                       .products = products,
                                       .epsilon = kEpsilon,
                                       .shape = norm.shape});
    const auto got_g = b.Take(g, sets);
    const auto got_products = b.Take(products, sets);
    const Means want = MeansOf(norm);
    for (std::uint64_t set = 0; set < sets; ++set) {
      b.CompareDoubles("means", set, got_g[set], want.g[set], 4);
      b.CompareDoubles("products", set, got_products[set], want.products[set], 40);
    }
  }
}

void TryInputGradient(Bench& b, std::uint64_t n) {
  for (const bool is_batch : {true, false}) {
    const Norm norm(b, Norm::ShapeFor(n, is_batch));
    const Means means = MeansOf(norm);
    const std::uint64_t count = norm.Values();
    const auto dx = b.Put(Floats(kLanes * count, 9));
    b.Launch<body::NormInputGradient>(b.Loop(kLanes), {.x = b.Put(norm.x),
                                                       .dy = b.Put(norm.dy),
                                                       .dx = dx,
                                                       .active = b.Put(norm.active),
                                                       .mean = b.Put(norm.mean),
                                                       .variance = b.Put(norm.variance),
                                                       .means = b.Put(means.g),
                                                       .products = b.Put(means.products),
                                                       .weight = b.Put(norm.weight),
                                                       .stride = norm.stride,
                                                       .epsilon = kEpsilon,
                                                       .rectify = is_batch ? 0U : 1U,
                                                       .shape = norm.shape});
    const Floats got = b.Take(dx, kLanes * count);
    for (std::uint64_t at = 0; at < got.size(); ++at) {
      const std::uint64_t lane = at / count;
      const std::uint64_t set = lane * norm.shape.Sets() + norm.SetOf(at % count);
      const double g =
          static_cast<double>(norm.dy[at]) *
          static_cast<double>(norm.weight[lane * norm.stride + at % norm.shape.channels]);
      const double want = (g - means.g[set] - norm.Hat(set, at) * means.products[set]) /
                          std::sqrt(norm.variance[set] + kEpsilon);
      const bool passes = norm.IsActive(lane, at % count) && (is_batch || norm.x[at] > 0);
      b.Compare("dx", at, got[at], Bound(passes ? want : 0));
    }
  }
}

void TryParameterGradientOf(Bench& b, std::uint64_t n, bool is_batch, bool accumulate) {
  const Norm norm(b, Norm::ShapeFor(n, is_batch));
  constexpr float kScale = -0.2F;
  const auto weight = b.Put(norm.weight);
  const auto bias = b.Put(norm.bias);
  b.Launch<body::NormParameterGradient>(b.Blocks(norm.shape.channels, kLanes),
                                        {.x = b.Put(norm.x),
                                         .dy = b.Put(norm.dy),
                                         .active = b.Put(norm.active),
                                         .mean = b.Put(norm.mean),
                                         .variance = b.Put(norm.variance),
                                         .weight = weight,
                                         .bias = bias,
                                         .stride = norm.stride,
                                         .epsilon = kEpsilon,
                                         .scale = kScale,
                                         .accumulate = accumulate ? 1U : 0U,
                                         .shape = norm.shape});
  const Floats got_weight = b.Take(weight, kLanes * norm.stride);
  const Floats got_bias = b.Take(bias, kLanes * norm.stride);
  std::vector<double> sums(kLanes * norm.stride);
  std::vector<double> products(kLanes * norm.stride);
  for (std::uint64_t at = 0; at < kLanes * norm.Values(); ++at) {
    const std::uint64_t lane = at / norm.Values();
    if (!norm.IsActive(lane, at % norm.Values())) continue;
    const std::uint64_t set = lane * norm.shape.Sets() + norm.SetOf(at % norm.Values());
    const std::uint64_t channel = lane * norm.stride + at % norm.shape.channels;
    sums[channel] += static_cast<double>(norm.dy[at]);
    products[channel] += static_cast<double>(norm.dy[at]) * norm.Hat(set, at);
  }
  for (std::uint64_t i = 0; i < kLanes * norm.stride; ++i) {
    if (i % norm.stride == norm.shape.channels) continue;  // between two lanes
    const Bound w(products[i], std::abs(products[i]));
    const Bound v(sums[i], std::abs(sums[i]));
    b.Compare("weight", i, got_weight[i],
              accumulate ? Bound(kScale) * w + Bound(norm.weight[i]) : w);
    b.Compare("bias", i, got_bias[i], accumulate ? Bound(kScale) * v + Bound(norm.bias[i]) : v);
  }
}

void TryParameterGradient(Bench& b, std::uint64_t n) {
  TryParameterGradientOf(b, n, true, false);
  TryParameterGradientOf(b, n, true, true);
  TryParameterGradientOf(b, n, false, true);
}

void TryMove(Bench& b, std::uint64_t n) {
  const NormShape shape{.rows = 4,
                        .pixels = 1,
                        .channels = static_cast<std::uint32_t>(n),
                        .groups = 1,
                        .is_batch = 1,
                        .row_unit = 1};
  const Norm norm(b, shape);
  const std::vector<std::uint32_t> active{4, 1, 0};  // one row has no variance
  const auto mean = b.Put(norm.weight);
  const auto variance = b.Put(norm.bias);
  b.Launch<body::NormMove>(b.Loop(kLanes), {.mean = b.Put(norm.mean),
                                            .variance = b.Put(norm.variance),
                                            .active = b.Put(active),
                                            .running_mean = mean,
                                            .running_var = variance,
                                            .stride = norm.stride,
                                            .momentum = 0.1,
                                            .shape = shape});
  const Floats got_mean = b.Take(mean, kLanes * norm.stride);
  const Floats got_variance = b.Take(variance, kLanes * norm.stride);
  for (std::uint64_t i = 0; i < kLanes * norm.stride; ++i) {
    const std::uint64_t lane = i / norm.stride;
    if (i % norm.stride == n) continue;
    const std::uint64_t set = lane * n + i % norm.stride;
    const double old_mean = norm.weight[i];
    const double old_variance = norm.bias[i];
    const double count = active[lane];
    b.Compare("running_mean", i, got_mean[i],
              Bound(count > 0 ? 0.9 * old_mean + 0.1 * norm.mean[set] : old_mean));
    const double moved = count > 1
                             ? std::max(0.0, 0.9 * old_variance + 0.1 * norm.variance[set] * 4 / 3)
                             : old_variance;
    b.Compare("running_var", i, got_variance[i], Bound(moved));
  }
}

constexpr std::array kOperations{Operation{"norm_statistics", true, TryStatistics},
                                 Operation{"norm_apply", false, TryApply},
                                 Operation{"norm_gradient_means", true, TryGradientMeans},
                                 Operation{"norm_input_gradient", false, TryInputGradient},
                                 Operation{"norm_parameter_gradient", true, TryParameterGradient},
                                 Operation{"norm_move", false, TryMove}};

}  // namespace

std::span<const Operation> NormOperations() {
  return kOperations;
}

}  // namespace skep::gpu
