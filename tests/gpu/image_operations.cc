// Windows of convolutions and pooling.
#include <array>

#include "tests/gpu/operations.h"

namespace skep::gpu {
namespace {

namespace body = kernels::body;
using body::WindowShape;

constexpr WindowShape kPoint{.in_height = 1,
                             .in_width = 1,
                             .channels = 1,
                             .out_height = 1,
                             .out_width = 1,
                             .window_height = 1,
                             .window_width = 1,
                             .stride_height = 1,
                             .stride_width = 1,
                             .pad_height = 0,
                             .pad_width = 0};
constexpr WindowShape kConv{.in_height = 5,
                            .in_width = 4,
                            .channels = 2,
                            .out_height = 3,
                            .out_width = 4,
                            .window_height = 3,
                            .window_width = 2,
                            .stride_height = 2,
                            .stride_width = 1,
                            .pad_height = 1,
                            .pad_width = 0};
// The last line and the last column are in no window.
constexpr WindowShape kPool{.in_height = 5,
                            .in_width = 7,
                            .channels = 2,
                            .out_height = 2,
                            .out_width = 2,
                            .window_height = 2,
                            .window_width = 3,
                            .stride_height = 2,
                            .stride_width = 3,
                            .pad_height = 0,
                            .pad_width = 0};

std::uint64_t ImageOf(const WindowShape& s) {
  return std::uint64_t{s.in_height} * s.in_width * s.channels;
}
std::uint64_t PlacesOf(const WindowShape& s) {
  return std::uint64_t{s.out_height} * s.out_width;
}

// Calls visit(value of the image or -1, index among the windows) for every value of every window.
template <class Visit>
void ForWindows(const WindowShape& s, const Visit& visit) {
  std::uint64_t k = 0;
  for (std::uint32_t top = 0; top < s.out_height; ++top) {
    for (std::uint32_t left = 0; left < s.out_width; ++left) {
      for (std::uint32_t channel = 0; channel < s.channels; ++channel) {
        for (std::uint32_t i = 0; i < s.window_height; ++i) {
          for (std::uint32_t j = 0; j < s.window_width; ++j, ++k) {
            const auto line = static_cast<std::int64_t>(top * s.stride_height + i) - s.pad_height;
            const auto column = static_cast<std::int64_t>(left * s.stride_width + j) - s.pad_width;
            const bool is_inside =
                line >= 0 && line < s.in_height && column >= 0 && column < s.in_width;
            visit(is_inside ? (line * s.in_width + column) * s.channels + channel : -1, k);
          }
        }
      }
    }
  }
}

std::uint64_t RowsFor(std::uint64_t n, std::uint64_t values) {
  return (n + values - 1) / values;
}

void TryLayOutOf(Bench& b, std::uint64_t n, const WindowShape& s) {
  const std::uint64_t values = PlacesOf(s) * s.channels * s.window_height * s.window_width;
  const std::uint64_t rows = RowsFor(n, values);
  const Floats x = b.Random(rows * ImageOf(s));
  const auto windows = b.Put(Floats(rows * values, 9));
  b.Launch<body::LayOutWindows>(b.Loop(),
                                {.x = b.Put(x), .windows = windows, .rows = rows, .shape = s});
  const Floats got = b.Take(windows, rows * values);
  for (std::uint64_t row = 0; row < rows; ++row) {
    ForWindows(s, [&](std::int64_t from, std::uint64_t k) {
      const float want = from < 0 ? 0 : x[row * ImageOf(s) + static_cast<std::uint64_t>(from)];
      b.Compare("windows", row * values + k, got[row * values + k], Bound(want));
    });
  }
}

void TryGatherOf(Bench& b, std::uint64_t n, const WindowShape& s, bool has_gate) {
  const std::uint64_t values = PlacesOf(s) * s.channels * s.window_height * s.window_width;
  const std::uint64_t rows = RowsFor(n, ImageOf(s));
  const std::uint64_t count = rows * ImageOf(s);
  const Floats windows = b.Random(rows * values);
  const Floats gate = b.Random(count);
  const auto dx = b.Put(Floats(count));
  b.Launch<body::GatherWindows>(
      b.Loop(), {.windows = b.Put(windows),
                 .dx = dx,
                 .gate = has_gate ? DevicePtr<const float>(b.Put(gate)) : DevicePtr<const float>{},
                 .rows = rows,
                 .shape = s});
  const Floats got = b.Take(dx, count);
  std::vector<Bound> want(count);
  for (std::uint64_t row = 0; row < rows; ++row) {
    ForWindows(s, [&](std::int64_t from, std::uint64_t k) {
      if (from < 0) return;
      Bound& sum = want[row * ImageOf(s) + static_cast<std::uint64_t>(from)];
      sum = sum + Bound(windows[row * values + k]);
    });
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    // The same values, added in another order.
    const Bound wider(want[i].value, 2 * want[i].error + 8);
    b.Compare("dx", i, got[i], has_gate && !(gate[i] > 0) ? Bound(0) : wider);
  }
}

void TryLayOutWindows(Bench& b, std::uint64_t n) {
  TryLayOutOf(b, n, kPoint);
  TryLayOutOf(b, n, kConv);
}

void TryGatherWindows(Bench& b, std::uint64_t n) {
  TryGatherOf(b, n, kPoint, false);
  TryGatherOf(b, n, kConv, false);
  TryGatherOf(b, n, kConv, true);
}

struct Pooled {
  std::uint64_t rows;
  Floats x;
  std::vector<Bound> y;              // of `is_maximum`, or means
  std::vector<std::uint64_t> first;  // which value of x is the first largest
};

Pooled Pool(Bench& b, std::uint64_t n, std::uint64_t values, const WindowShape& s, bool is_max) {
  const std::uint64_t outputs = PlacesOf(s) * s.channels;
  Pooled p{RowsFor(n, values), {}, {}, {}};
  p.x = b.Random(p.rows * ImageOf(s));
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    if (i % 3 == 0) p.x[i] = 1;  // the same several times, so that the first one counts
  }
  for (std::uint64_t k = 0; k < p.rows * outputs; ++k) {
    const std::uint64_t place = k % outputs / s.channels;
    std::uint64_t largest = 0;
    Bound sum;
    for (std::uint32_t i = 0; i < s.window_height * s.window_width; ++i) {
      const std::uint64_t line = place / s.out_width * s.window_height + i / s.window_width;
      const std::uint64_t column = place % s.out_width * s.window_width + i % s.window_width;
      const std::uint64_t at =
          k / outputs * ImageOf(s) + (line * s.in_width + column) * s.channels + k % s.channels;
      if (i == 0 || p.x[at] > p.x[largest]) largest = at;
      sum = sum + Bound(p.x[at]);
    }
    p.first.push_back(largest);
    p.y.push_back(is_max ? Bound(p.x[largest]) : sum / Bound(s.window_height * s.window_width));
  }
  return p;
}

void TryPoolWindows(Bench& b, std::uint64_t n) {
  for (const WindowShape& s : {kPoint, kPool}) {
    for (const bool is_max : {true, false}) {
      const Pooled p = Pool(b, n, PlacesOf(s) * s.channels, s, is_max);
      const auto y = b.Put(Floats(p.y.size()));
      b.Launch<body::PoolWindows>(
          b.Loop(),
          {.x = b.Put(p.x), .y = y, .rows = p.rows, .is_maximum = is_max ? 1U : 0U, .shape = s});
      const Floats got = b.Take(y, p.y.size());
      for (std::uint64_t i = 0; i < got.size(); ++i) b.Compare("y", i, got[i], p.y[i]);
    }
  }
}

void TryPoolGradientOf(Bench& b, std::uint64_t n, const WindowShape& s, bool is_max, bool rectify) {
  const Pooled p = Pool(b, n, ImageOf(s), s, is_max);
  const std::uint64_t outputs = PlacesOf(s) * s.channels;
  const Floats dy = b.Random(p.y.size());
  Floats y;
  for (const Bound& value : p.y) y.push_back(static_cast<float>(value.value));
  const auto dx = b.Put(Floats(p.x.size(), 9));
  b.Launch<body::PoolGradient>(b.Loop(), {.x = b.Put(p.x),
                                          .y = b.Put(y),
                                          .dy = b.Put(dy),
                                          .dx = dx,
                                          .rows = p.rows,
                                          .is_maximum = is_max ? 1U : 0U,
                                          .rectify = rectify ? 1U : 0U,
                                          .shape = s});
  const Floats got = b.Take(dx, p.x.size());
  std::vector<Bound> want(p.x.size());
  for (std::uint64_t k = 0; k < p.y.size(); ++k) {
    if (is_max) {
      want[p.first[k]] = Bound(dy[k]);
      continue;
    }
    const std::uint64_t place = k % outputs / s.channels;
    for (std::uint32_t i = 0; i < s.window_height * s.window_width; ++i) {
      const std::uint64_t line = place / s.out_width * s.window_height + i / s.window_width;
      const std::uint64_t column = place % s.out_width * s.window_width + i % s.window_width;
      want[k / outputs * ImageOf(s) + (line * s.in_width + column) * s.channels + k % s.channels] =
          Bound(dy[k]) / Bound(s.window_height * s.window_width);
    }
  }
  for (std::uint64_t i = 0; i < got.size(); ++i) {
    b.Compare("dx", i, got[i], rectify && !(p.x[i] > 0) ? Bound(0) : want[i]);
  }
}

void TryPoolGradient(Bench& b, std::uint64_t n) {
  TryPoolGradientOf(b, n, kPoint, true, false);
  TryPoolGradientOf(b, n, kPool, true, false);
  TryPoolGradientOf(b, n, kPool, false, false);
  TryPoolGradientOf(b, n, kPool, true, true);
}

constexpr std::array kOperations{Operation{"lay_out_windows", false, TryLayOutWindows},
                                 Operation{"gather_windows", false, TryGatherWindows},
                                 Operation{"pool_windows", false, TryPoolWindows},
                                 Operation{"pool_gradient", false, TryPoolGradient}};

}  // namespace

std::span<const Operation> ImageOperations() {
  return kOperations;
}

}  // namespace skep::gpu
