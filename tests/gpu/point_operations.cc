// Batches, dense layers, activations, dropout, positions, embeddings.
#include <array>

#include "shared/base/rng.h"
#include "tests/gpu/operations.h"
#include "tests/gpu/shapes.h"

namespace skep::gpu {
namespace {

namespace body = kernels::body;

void TryGatherHeads(Bench& b, std::uint64_t n) {
  constexpr std::uint32_t kExamples = 9;
  constexpr std::uint32_t kRows = 3;
  constexpr std::uint32_t kPlaces = 2;
  std::vector<std::uint32_t> order = b.RandomNumbers(2 * n * kRows, kExamples);
  for (std::size_t i = 0; i < order.size(); i += 4) order[i] = body::kNoExample;
  for (std::size_t i = n * kRows; i < std::min<std::size_t>(order.size(), n * kRows + kRows); ++i) {
    order[i] = body::kNoExample;  // the first lane rests in this step
  }
  std::vector<std::uint64_t> keys(2 * n);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = 1'000'000'007 * i;
  std::vector<std::int32_t> all(std::size_t{kExamples} * kPlaces);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i * 5 % 11);
  const auto labels = b.Put(std::vector<std::int32_t>(n * kRows * kPlaces));
  const auto active = b.Put(std::vector<std::uint32_t>(n));
  const auto steps = b.Put(std::vector<std::uint32_t>(n, 7));
  const auto step_keys = b.Put(std::vector<std::uint64_t>(n));
  b.Launch<body::GatherHeads>(b.Loop(), {.order = b.Put(order),
                                         .keys = b.Put(keys),
                                         .position = b.Put(std::vector<std::uint32_t>{1}),
                                         .all_labels = b.Put(all),
                                         .labels = labels,
                                         .active = active,
                                         .steps = steps,
                                         .step_keys = step_keys,
                                         .lanes = static_cast<std::uint32_t>(n),
                                         .rows = kRows,
                                         .positions = kPlaces});
  const auto got_labels = b.Take(labels, n * kRows * kPlaces);
  const auto got_active = b.Take(active, n);
  const auto got_steps = b.Take(steps, n);
  const auto got_keys = b.Take(step_keys, n);
  for (std::uint64_t lane = 0; lane < n; ++lane) {
    std::uint32_t count = 0;
    for (std::uint32_t r = 0; r < kRows; ++r) {
      const std::uint32_t example = order[(n + lane) * kRows + r];
      const bool is_there = example != body::kNoExample;
      count += is_there ? 1 : 0;
      for (std::uint32_t p = 0; p < kPlaces; ++p) {
        const std::uint64_t at = (lane * kRows + r) * kPlaces + p;
        b.Compare("label", at, got_labels[at], Bound(is_there ? all[example * kPlaces + p] : -1));
      }
    }
    b.CompareNumbers("active", lane, got_active[lane], count);
    b.CompareNumbers("steps", lane, got_steps[lane], count > 0 ? 8 : 7);
    b.CompareNumbers("key", lane, got_keys[lane], keys[n + lane]);
  }
}

void TryGatherInputs(Bench& b, std::uint64_t n) {
  constexpr std::uint32_t kExamples = 6;
  const Factors f(n);
  std::vector<std::uint32_t> order = b.RandomNumbers(2 * f.rows, kExamples);
  if (f.rows > 0) order.back() = body::kNoExample;
  std::vector<std::uint8_t> bytes(std::size_t{kExamples} * f.width);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37);
  const Floats floats = b.Random(bytes.size());
  for (const bool is_bytes : {true, false}) {
    const auto x = b.Put(Floats(n, 9));
    b.Launch<body::GatherInputs>(
        b.Loop(),
        {.order = b.Put(order),
         .position = b.Put(std::vector<std::uint32_t>{1}),
         .bytes = is_bytes ? DevicePtr<const std::uint8_t>(b.Put(bytes))
                           : DevicePtr<const std::uint8_t>{},
         .floats = is_bytes ? DevicePtr<const float>{} : DevicePtr<const float>(b.Put(floats)),
         .offset = 33.3,
         .scale = 78.6,
         .x = x,
         .lane_rows = static_cast<std::uint32_t>(f.rows),
         .values = f.width});
    const Floats got = b.Take(x, n);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint32_t example = order[f.rows + i / f.width];
      const std::uint64_t at = std::uint64_t{example} * f.width + i % f.width;
      float want = 0;
      if (example != body::kNoExample) {
        want = is_bytes ? static_cast<float>((bytes[at] - 33.3) / 78.6) : floats[at];
      }
      b.Compare("x", i, got[i], Bound(want));
    }
  }
}

void TryAdvance(Bench& b, std::uint64_t n) {
  const auto position = b.Put(std::vector<std::uint32_t>{static_cast<std::uint32_t>(n)});
  b.Launch<body::Advance>(b.Loop(), {.position = position});
  b.CompareNumbers("position", 0, b.Take(position, 1)[0], n + 1);
}

void TryAddBias(Bench& b, std::uint64_t n) {
  const Factors f(n);
  const std::uint64_t stride = f.width + 2;
  for (const bool has_bias : {true, false}) {
    const Floats y = b.Random(kLanes * n);
    const Floats bias = b.Random(kLanes * stride);
    const auto at = b.Put(y);
    b.Launch<body::AddBias>(b.Loop(kLanes), {.y = at,
                                             .bias = has_bias ? DevicePtr<const float>(b.Put(bias))
                                                              : DevicePtr<const float>{},
                                             .bias_stride = stride,
                                             .rows = f.rows,
                                             .outputs = f.width,
                                             .rectify = has_bias ? 0U : 1U});
    const Floats got = b.Take(at, kLanes * n);
    for (std::uint64_t i = 0; i < kLanes * n; ++i) {
      const float term = has_bias ? bias[i / n * stride + i % n % f.width] : 0.0F;
      const Bound sum = Bound(y[i]) + Bound(term);
      b.Compare("y", i, got[i], has_bias ? sum : Larger(Bound(0), Bound(y[i])));
    }
  }
}

void TrySumRows(Bench& b, std::uint64_t n) {
  constexpr std::uint64_t kRows = 5;
  const auto columns = static_cast<std::uint32_t>(n);
  const std::uint64_t width = n + 3;
  for (const bool accumulate : {false, true}) {
    const Floats x = b.Random(kLanes * kRows * width);
    const Floats to = b.Random(kLanes * (n + 1));
    const auto at = b.Put(to);
    b.Launch<body::SumRows>(b.Loop(kLanes), {.x = b.Put(x),
                                             .to = at,
                                             .to_stride = n + 1,
                                             .rows = kRows,
                                             .width = static_cast<std::uint32_t>(width),
                                             .columns = columns,
                                             .accumulate = accumulate ? 1U : 0U,
                                             .scale = -0.3F});
    const Floats got = b.Take(at, kLanes * (n + 1));
    for (std::uint64_t lane = 0; lane < kLanes; ++lane) {
      for (std::uint64_t j = 0; j < n; ++j) {
        Bound sum;
        for (std::uint64_t r = 0; r < kRows; ++r)
          sum = sum + Bound(x[(lane * kRows + r) * width + j]);
        const Bound old(to[lane * (n + 1) + j]);
        b.Compare("to", lane * (n + 1) + j, got[lane * (n + 1) + j],
                  accumulate ? Bound(-0.3F) * sum + old : sum);
      }
      b.Compare("beyond", lane, got[lane * (n + 1) + n], Bound(to[lane * (n + 1) + n]));
    }
  }
}

void TryRectifyGradient(Bench& b, std::uint64_t n) {
  Floats x = b.Random(n);
  if (n > 0) x[n / 2] = 0;
  const Floats dx = b.Random(n);
  const auto at = b.Put(dx);
  b.Launch<body::RectifyGradient>(b.Loop(), {.x = b.Put(x), .dx = at, .count = n});
  const Floats got = b.Take(at, n);
  for (std::uint64_t i = 0; i < n; ++i) b.Compare("dx", i, got[i], Bound(x[i] > 0 ? dx[i] : 0));
}

Bound Curve(const Bound& x, std::uint32_t kind) {
  if (kind == body::kTanhCurve) return Tanh(x);
  if (kind == body::kSigmoidCurve) return Sigmoid(x);
  if (kind == body::kGeluCurve) return x * NormalProbability(x);
  return x.value < 0 ? Bound(0) : x;
}

Bound Slope(const Bound& x, const Bound& y, std::uint32_t kind) {
  if (kind == body::kTanhCurve) return Bound(1) - y * y;
  if (kind == body::kSigmoidCurve) return y * (Bound(1) - y);
  if (kind == body::kGeluCurve) return NormalProbability(x) + x * NormalDensity(x);
  return x.value > 0 ? 1 : 0;
}

constexpr std::array kCurves{body::kReluCurve, body::kTanhCurve, body::kSigmoidCurve,
                             body::kGeluCurve};

void TryActivate(Bench& b, std::uint64_t n) {
  for (const std::uint32_t kind : kCurves) {
    Floats x = b.Random(n, 6);
    if (n > 2) x[n / 2] = std::nanf("");
    const auto y = b.Put(Floats(n));
    b.Launch<body::Activate>(b.Loop(), {.x = b.Put(x), .y = y, .count = n, .kind = kind});
    const Floats got = b.Take(y, n);
    for (std::uint64_t i = 0; i < n; ++i) b.Compare("y", i, got[i], Curve(Bound(x[i]), kind));
  }
}

void TryActivateGradient(Bench& b, std::uint64_t n) {
  for (const std::uint32_t kind : kCurves) {
    const Floats x = b.Random(n, 4);
    const Floats dy = b.Random(n);
    Floats y(n);
    for (std::uint64_t i = 0; i < n; ++i) y[i] = static_cast<float>(Curve(Bound(x[i]), kind).value);
    const bool rectify = kind == body::kTanhCurve;
    const auto dx = b.Put(Floats(n));
    b.Launch<body::ActivateGradient>(b.Loop(), {.x = b.Put(x),
                                                .y = b.Put(y),
                                                .dy = b.Put(dy),
                                                .dx = dx,
                                                .count = n,
                                                .kind = kind,
                                                .rectify = rectify ? 1U : 0U});
    const Floats got = b.Take(dx, n);
    for (std::uint64_t i = 0; i < n; ++i) {
      const bool passes = !rectify || x[i] > 0;
      b.Compare("dx", i, got[i],
                passes ? Bound(dy[i]) * Slope(Bound(x[i]), Bound(y[i]), kind) : Bound(0));
    }
  }
}

void TryTranspose(Bench& b, std::uint64_t n) {
  const Factors f(n);
  const std::uint32_t m = f.width;
  constexpr std::uint32_t kN = 3;
  const std::uint64_t count = n * kN;
  for (const bool has_gate : {false, true}) {
    const Floats x = b.Random(count);
    const Floats gate = b.Random(count);
    const auto y = b.Put(Floats(count));
    b.Launch<body::Transpose>(b.Loop(), {.x = b.Put(x),
                                         .y = y,
                                         .gate = has_gate ? DevicePtr<const float>(b.Put(gate))
                                                          : DevicePtr<const float>{},
                                         .rows = f.rows,
                                         .m = m,
                                         .n = kN});
    const Floats got = b.Take(y, count);
    for (std::uint64_t row = 0; row < f.rows; ++row) {
      for (std::uint32_t i = 0; i < m; ++i) {
        for (std::uint32_t j = 0; j < kN; ++j) {
          const std::uint64_t to = row * m * kN + j * m + i;
          const bool passes = !has_gate || gate[to] > 0;
          b.Compare("y", to, got[to], Bound(passes ? x[row * m * kN + i * kN + j] : 0));
        }
      }
    }
  }
}

void TryDrop(Bench& b, std::uint64_t n) {
  const std::uint64_t count = n * 4 - (n > 0 ? 1 : 0);  // n blocks of four draws, the last not full
  const std::vector<std::uint64_t> keys{17, 0xFFFFFFFF12345678U, 3};
  constexpr std::uint32_t kLayer = 2;
  constexpr std::uint32_t kThreshold = 0x600000;
  const Floats x = b.Random(kLanes * count);
  const auto y = b.Put(Floats(kLanes * count));
  b.Launch<body::Drop>(b.Loop(kLanes), {.x = b.Put(x),
                                        .y = y,
                                        .gate = {},
                                        .keys = b.Put(keys),
                                        .count = count,
                                        .layer = kLayer,
                                        .threshold = kThreshold,
                                        .factor = 1.6F});
  const Floats got = b.Take(y, kLanes * count);
  for (std::uint64_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const PhiloxBlock draw =
          Philox(keys[lane], {static_cast<std::uint32_t>(i / 4), kLayer, 0, 5});
      const bool kept = draw[i % 4] >> 8U >= kThreshold;
      const std::uint64_t at = lane * count + i;
      b.Compare("y", at, got[at], kept ? Bound(x[at]) * Bound(1.6F) : Bound(0));
    }
  }
}

void TryAddPositions(Bench& b, std::uint64_t n) {
  const Factors f(n);
  const Floats x = b.Random(kLanes * n);
  const Floats weight = b.Random(kLanes * (f.width + 1));
  const auto y = b.Put(Floats(kLanes * n));
  b.Launch<body::AddPositions>(b.Loop(kLanes), {.x = b.Put(x),
                                                .y = y,
                                                .weight = b.Put(weight),
                                                .weight_stride = f.width + 1,
                                                .rows = f.rows,
                                                .values = f.width});
  const Floats got = b.Take(y, kLanes * n);
  for (std::uint64_t i = 0; i < kLanes * n; ++i) {
    b.Compare("y", i, got[i], Bound(x[i]) + Bound(weight[i / n * (f.width + 1) + i % n % f.width]));
  }
}

constexpr std::uint32_t kSymbols = 5;

Floats SymbolsOf(Bench& b, std::uint64_t places) {
  const auto numbers = b.RandomNumbers(kLanes * places, kSymbols);
  return {numbers.begin(), numbers.end()};
}

void TryEmbed(Bench& b, std::uint64_t n) {
  const Factors f(n);
  Floats x = SymbolsOf(b, f.rows);
  if (!x.empty()) x[0] = kSymbols;  // beyond them: reads the first
  const std::uint64_t stride = std::uint64_t{kSymbols} * f.width + 1;
  const Floats weight = b.Random(kLanes * stride);
  const auto y = b.Put(Floats(kLanes * n));
  b.Launch<body::Embed>(b.Loop(kLanes), {.x = b.Put(x),
                                         .y = y,
                                         .weight = b.Put(weight),
                                         .weight_stride = stride,
                                         .places = f.rows,
                                         .symbols = kSymbols,
                                         .features = f.width});
  const Floats got = b.Take(y, kLanes * n);
  for (std::uint64_t i = 0; i < kLanes * n; ++i) {
    const auto symbol = static_cast<std::uint64_t>(x[i / f.width]) % kSymbols;
    b.Compare("y", i, got[i], Bound(weight[i / n * stride + symbol * f.width + i % f.width]));
  }
}

void TryEmbedGradient(Bench& b, std::uint64_t n) {
  constexpr std::uint64_t kPlaces = 9;
  const Factors f(n);
  const auto symbols = static_cast<std::uint32_t>(f.rows);
  const auto numbers = b.RandomNumbers(kLanes * kPlaces, std::max(symbols, 1U));
  const Floats x(numbers.begin(), numbers.end());
  const Floats dy = b.Random(kLanes * kPlaces * f.width);
  for (const bool accumulate : {false, true}) {
    const Floats to = b.Random(kLanes * n);
    const auto at = b.Put(to);
    b.Launch<body::EmbedGradient>(b.Loop(kLanes), {.x = b.Put(x),
                                                   .dy = b.Put(dy),
                                                   .to = at,
                                                   .to_stride = n,
                                                   .places = kPlaces,
                                                   .symbols = symbols,
                                                   .features = f.width,
                                                   .accumulate = accumulate ? 1U : 0U,
                                                   .scale = -0.5F});
    const Floats got = b.Take(at, kLanes * n);
    for (std::uint64_t i = 0; i < kLanes * n; ++i) {
      const std::uint64_t lane = i / n;
      Bound sum;
      for (std::uint64_t p = lane * kPlaces; p < (lane + 1) * kPlaces; ++p) {
        if (numbers[p] == i % n / f.width) sum = sum + Bound(dy[p * f.width + i % f.width]);
      }
      b.Compare("to", i, got[i], accumulate ? Bound(-0.5F) * sum + Bound(to[i]) : sum);
    }
  }
}

constexpr std::array kOperations{Operation{"gather_heads", false, TryGatherHeads},
                                 Operation{"gather_inputs", false, TryGatherInputs},
                                 Operation{"advance", false, TryAdvance},
                                 Operation{"add_bias", false, TryAddBias},
                                 Operation{"sum_rows", false, TrySumRows},
                                 Operation{"rectify_gradient", false, TryRectifyGradient},
                                 Operation{"activate", false, TryActivate},
                                 Operation{"activate_gradient", false, TryActivateGradient},
                                 Operation{"transpose", false, TryTranspose},
                                 Operation{"drop", false, TryDrop},
                                 Operation{"add_positions", false, TryAddPositions},
                                 Operation{"embed", false, TryEmbed},
                                 Operation{"embed_gradient", false, TryEmbedGradient}};

}  // namespace

std::span<const Operation> PointOperations() {
  return kOperations;
}

}  // namespace skep::gpu
