// Convolution forward and the gradient of its input, written once over `Vector` and compiled once
// an instruction set: include after base_body.h.
//
// A register tile holds the sums of P places next to each other x V vectors of outputs. Under a
// place the inputs of one row of taps lie together, so there is no im2col: for each input a tile
// loads V vectors of packed weights, in order, and spreads P floats of x. Every value of a result
// is one chain of additions over the taps and inputs, whatever tile it falls into.
#pragma once

#include "kernels/conv_loops.h"

namespace skep::kernels {
namespace {

// Tiles: places x vectors, and wide ones for images of few columns. With weights and one value of x
// they fill the registers: 32 of sixteen floats, else 16.
constexpr std::size_t kPlaces = kLanes == 16 ? 14 : kLanes == 8 ? 6 : 5;
constexpr std::size_t kVectors = 2;
constexpr std::size_t kWidePlaces = kLanes == 16 ? 6 : kLanes == 8 ? 4 : 3;
constexpr std::size_t kWideVectors = kLanes == 16 ? 4 : 3;

// Inputs of a tap that packed weights are asked for ahead: those of a panel can be more than the
// first-level cache holds.
constexpr std::size_t kWeightsAhead = 16;

constexpr std::size_t VectorsFor(std::size_t floats) {
  return (floats + kLanes - 1) / kLanes;
}

std::size_t Panel(std::size_t columns, std::size_t outputs) {
  return columns <= kWidePlaces && VectorsFor(outputs) > kVectors ? kWideVectors : kVectors;
}

// Calls visit(packed offset, weight offset, outputs) for each input of each tap, panel by panel.
// The taps of an input lie together in the tensor, so they come one after the other.
template <class Visit>
void ForEachPackedRow(const ConvWeightPlaces& at, std::size_t panel, const Visit& visit) {
  const Pieces panels(VectorsFor(at.outputs), panel);
  std::size_t packed = 0;
  std::size_t output = 0;
  for (std::size_t n = 0; n < panels.count; ++n) {
    const std::size_t width = panels.Size(n) * kLanes;
    const std::size_t outputs = Least(width, at.outputs - output);
    for (std::size_t c = 0; c < at.inputs; ++c) {
      for (std::size_t i = 0; i < at.rows; ++i) {
        for (std::size_t j = 0; j < at.columns; ++j) {
          visit(packed + ((i * at.columns + j) * at.inputs + c) * width,
                static_cast<std::ptrdiff_t>(i) * at.row +
                    static_cast<std::ptrdiff_t>(j) * at.column +
                    static_cast<std::ptrdiff_t>(c) * at.input +
                    static_cast<std::ptrdiff_t>(output) * at.output,
                outputs);
        }
      }
    }
    packed += at.rows * at.columns * at.inputs * width;
    output += outputs;
  }
}

void Pack(const ConvPack& op) {
  const std::ptrdiff_t step = op.places.output;
  ForEachPackedRow(op.places, op.panel,
                   [&](std::size_t packed, std::ptrdiff_t at, std::size_t outputs) {
                     float* to = op.packed + packed;
                     const float* from = op.weights + at;
                     std::size_t o = 0;
                     for (; o < outputs; ++o, from += step) to[o] = *from;
                     for (; o % kLanes != 0; ++o) to[o] = 0;
                   });
}

void Unpack(const ConvUnpack& op) {
  const std::ptrdiff_t step = op.places.output;
  ForEachPackedRow(op.places, VectorsFor(op.places.outputs),
                   [&](std::size_t packed, std::ptrdiff_t at, std::size_t outputs) {
                     const float* from = op.sums + packed;
                     float* to = op.weights + at;
                     if (op.accumulate) {
                       for (std::size_t o = 0; o < outputs; ++o, to += step) {
                         *to += op.scale * from[o];
                       }
                     } else {
                       for (std::size_t o = 0; o < outputs; ++o, to += step) *to = from[o];
                     }
                   });
}

// What a tile adds to a Correlation.
struct ConvTileRange {
  const float* x;
  const float* weights;
  std::size_t y;  // of its first value, from op.y
  const float* bias;
  Mask last;  // lanes of the last vector
};

// Every third of P places in a register of its own and the two after it by their distance: an
// address has room for that, and there are too few registers for all. The compiler, which would
// keep all P in memory, must not see how the addresses belong together.
template <std::size_t P>
struct PlacePointers {
  static constexpr std::size_t kCount = (P + 2) / 3;
  [[gnu::always_inline]] PlacePointers(const float* first, std::size_t step) : step_(step) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) at_[i] = first + 3 * i * step;
  }
  [[gnu::always_inline]] float Value(std::size_t p) const {
    return at_[p / 3][(p % 3) * step_];
  }
  [[gnu::always_inline]] void Next() {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) {
      ++at_[i];
      __asm__("" : "+r"(at_[i]));
    }
  }

 private:
  const float* at_[kCount];
  std::size_t step_;
};

template <std::size_t P, std::size_t V>
[[gnu::always_inline]] inline void FinishTile(const Correlation& op, const ConvTileRange& at,
                                              const Reg (&sum)[P][V]) {
  const Mask all = Vector::FirstLanes(kLanes);
#pragma GCC unroll 16
  for (std::size_t p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < V; ++v) {
      const Mask lanes = v + 1 < V ? all : at.last;
      const std::size_t place = at.y + p * op.y_column + v * kLanes;
      Reg value = sum[p][v];
      // Max's second argument stays where it is NaN, so that a diverged model is seen.
      if (op.relu) value = Vector::Max(Vector::Zero(), value);
      if (op.gate != nullptr) {
        value = Vector::WherePositive(Vector::Load(op.gate + place, lanes), value);
      }
      Vector::Store(op.y + place, value, lanes);
    }
  }
}

template <std::size_t P, std::size_t V>
void ConvTile(const Correlation& op, const ConvTileRange& at) {
  const Mask all = Vector::FirstLanes(kLanes);
  Reg sum[P][V];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < V; ++v) {
    const Reg start = at.bias == nullptr
                          ? Vector::Zero()
                          : Vector::Load(at.bias + v * kLanes, v + 1 < V ? all : at.last);
#pragma GCC unroll 16
    for (std::size_t p = 0; p < P; ++p) sum[p][v] = start;
  }
  const float* w = at.weights;
  for (std::size_t i = 0; i < op.taps.tap_rows; ++i) {
    for (std::size_t j = 0; j < op.taps.tap_columns; ++j) {
      PlacePointers<P> x(at.x + i * op.taps.tap_row + j * op.taps.tap_column, op.x_column);
#pragma GCC unroll 2
      for (std::size_t k = 0; k < op.taps.depth; ++k, x.Next(), w += V * kLanes) {
        Reg weight[V];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < V; ++v) {
          weight[v] = Vector::Load(w + v * kLanes);
          __builtin_prefetch(w + (kWeightsAhead * V + v) * kLanes);
        }
#pragma GCC unroll 16
        for (std::size_t p = 0; p < P; ++p) {
          const Reg value = Vector::Set(x.Value(p));
#pragma GCC unroll 4
          for (std::size_t v = 0; v < V; ++v) sum[p][v] = Vector::Fma(value, weight[v], sum[p][v]);
        }
      }
    }
  }
  FinishTile<P, V>(op, at, sum);
}

using ConvTileFunction = void (*)(const Correlation&, const ConvTileRange&);

template <std::size_t P, std::size_t V>
ConvTileFunction ConvTileOf(std::size_t places) {
  if constexpr (P > 1) {
    if (places < P) return ConvTileOf<P - 1, V>(places);
  }
  return ConvTile<P, V>;
}

constexpr std::size_t PlacesOfTile(std::size_t vectors) {
  return vectors <= kVectors ? kPlaces : kWidePlaces;
}

ConvTileFunction ConvTileOf(std::size_t places, std::size_t vectors) {
  switch (vectors) {
    case 1:
      return ConvTileOf<kPlaces, 1>(places);
    case 2:
      return ConvTileOf<kPlaces, 2>(places);
    case 3:
      return ConvTileOf<kWidePlaces, 3>(places);
    default:
      return ConvTileOf<kWidePlaces, kWideVectors>(places);
  }
}

struct ConvPanelRange {
  std::size_t output;
  std::size_t vectors;
  Mask last;
  const float* weights;
};

void CorrelatePanel(const Correlation& op, const ConvPanelRange& panel) {
  const Pieces places(op.columns, PlacesOfTile(panel.vectors));
  for (std::size_t row = 0; row < op.rows; ++row) {
    std::size_t column = 0;
    for (std::size_t i = 0; i < places.count; ++i) {
      ConvTileOf(places.Size(i), panel.vectors)(
          op, {.x = op.x + row * op.x_row + column * op.x_column,
               .weights = panel.weights,
               .y = row * op.y_row + column * op.y_column + panel.output,
               .bias = op.bias == nullptr ? nullptr : op.bias + panel.output,
               .last = panel.last});
      column += places.Size(i);
    }
  }
}

void Correlate(const Correlation& op) {
  const Pieces panels(VectorsFor(op.outputs), op.panel);
  ConvPanelRange panel{.output = 0, .vectors = 0, .last = {}, .weights = op.weights};
  for (std::size_t n = 0; n < panels.count; ++n) {
    panel.vectors = panels.Size(n);
    const std::size_t floats = panel.vectors * kLanes;
    const std::size_t lanes = Least(floats, op.outputs - panel.output) - (floats - kLanes);
    panel.last = Vector::FirstLanes(lanes);
    CorrelatePanel(op, panel);
    panel.output += floats;
    panel.weights += floats * op.taps.tap_rows * op.taps.tap_columns * op.taps.depth;
  }
}

}  // namespace
}  // namespace skep::kernels
