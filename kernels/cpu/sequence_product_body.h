// Products with packed panels, written once over `Vector`: include after base_body.h.
//
// A tile holds rows x two vectors of sums in registers; a step along the depth reads two vectors of
// the panel, in order, and one value of each row. A panel of a recurrent matrix fits the
// first-level cache and serves all rows before the next one is read. Source: the measurements in
// docs/performance.md.
#pragma once

#include "kernels/sequence_loops.h"

namespace skep::kernels {
namespace {

constexpr std::size_t kPanelVectors = 2;
constexpr std::size_t kPanelColumns = kPanelVectors * kLanes;
// Rows of a tile: with 32 registers, with 16, and with 16 where products need one of their own.
constexpr std::size_t kTileRows = kLanes == 16 ? 12 : kLanes == 8 ? 6 : 4;
// Steps along the depth that a panel is asked for ahead: it comes from the second-level cache, or
// from beyond, and the next panel lies behind it.
constexpr std::size_t kPanelAhead = 16;
// Values of a depth that are transposed together: a cache line of each column.
constexpr std::size_t kPackDepth = 16;

std::size_t VectorsOf(std::size_t columns) {
  return (columns + kLanes - 1) / kLanes;
}

// Values that lie in rows, row by row: column_step is 1. Zeros up to whole vectors.
void PackFromRows(const PanelPack& op) {
  for (std::size_t k = 0; k < op.depth; ++k) {
    const float* row = op.from + k * op.depth_step;
    for (std::size_t begin = 0; begin < op.columns; begin += kPanelColumns) {
      const std::size_t columns = Least(kPanelColumns, op.columns - begin);
      const std::size_t vectors = VectorsOf(columns);
      float* to = op.panels + begin * op.panel_depth + (op.first + k) * vectors * kLanes;
      for (std::size_t n = 0; n < columns; n += kLanes) {
        const Mask lanes = Vector::FirstLanes(Least(kLanes, columns - n));
        Vector::Store(to + n, Vector::Load(row + begin + n, lanes));
      }
    }
  }
}

// One panel, from columns that lie in rows: depth_step is 1.
void PackColumnsOfPanel(const PanelPack& op, const float* from, std::size_t columns, float* to) {
  const std::size_t width = VectorsOf(columns) * kLanes;
  const std::size_t whole = columns / 4 * 4;
  for (std::size_t begin = 0; begin < op.depth; begin += kPackDepth) {
    const std::size_t end = Least(begin + kPackDepth, op.depth);
    for (std::size_t n = 0; n < whole; n += 4) {
      const float* column = from + n * op.column_step;
      std::size_t k = begin;
      for (; k + 4 <= end; k += 4) {
        Vector::Quad square[4];
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 4; ++i) {
          square[i] = Vector::QuadLoad(column + i * op.column_step + k);
        }
        Vector::QuadTranspose(square);
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 4; ++i) {
          Vector::QuadStore(to + (k + i) * width + n, square[i]);
        }
      }
      for (; k < end; ++k) {
        for (std::size_t i = 0; i < 4; ++i) to[k * width + n + i] = column[i * op.column_step + k];
      }
    }
    for (std::size_t k = begin; k < end; ++k) {
      for (std::size_t n = whole; n < width; ++n) {
        to[k * width + n] = n < columns ? from[n * op.column_step + k] : 0;
      }
    }
  }
}

void PackPanels(const PanelPack& op) {
  if (op.column_step == 1) return PackFromRows(op);
  for (std::size_t begin = 0; begin < op.columns; begin += kPanelColumns) {
    const std::size_t columns = Least(kPanelColumns, op.columns - begin);
    PackColumnsOfPanel(op, op.from + begin * op.column_step, columns,
                       op.panels + begin * op.panel_depth + op.first * VectorsOf(columns) * kLanes);
  }
}

// Goes through the rows of `from` in groups, so that reads and writes are both long runs.
void PackRows(const RowPack& op) {
  const Pieces pieces(op.rows, kTileRows);
  for (std::size_t begin = 0; begin < op.depth; begin += kPackDepth) {
    const std::size_t depth = Least(kPackDepth, op.depth - begin);
    std::size_t row = 0;
    for (std::size_t i = 0; i < pieces.count; ++i) {
      const std::size_t size = pieces.Size(i);
      const float* from = op.from + begin * op.depth_step + row;
      float* to = op.to + row * op.depth + begin * size;
      for (std::size_t k = 0; k < depth; ++k, from += op.depth_step, to += size) {
        std::size_t j = 0;
        for (; j + 4 <= size; j += 4) Vector::QuadStore(to + j, Vector::QuadLoad(from + j));
        for (; j < size; ++j) to[j] = from[j];
      }
      row += size;
    }
  }
}

// A tile's place in its product.
struct PanelTile {
  const float* a;
  std::size_t a_row;   // rows of their own: from one to the next; of packed rows: meaningless
  const float* panel;  // its first row
  std::size_t depth;
  const float* bias;    // added to all rows; null: none
  const float* before;  // added, in rows as those of result; null: nothing
  float* result;
  std::size_t result_row;
  std::size_t columns;  // of the result; 1 to those of the panel
  float scale;
  bool accumulate;
};

template <std::size_t R, std::size_t V>
[[gnu::always_inline]] inline void FinishTile(const PanelTile& at, const Reg (&sum)[R][V]) {
  const Reg scale = Vector::Set(at.scale);
#pragma GCC unroll 2
  for (std::size_t v = 0; v < V; ++v) {
    const std::size_t first = v * kLanes;
    const Mask lanes =
        Vector::FirstLanes(at.columns > first ? Least(kLanes, at.columns - first) : 0);
    const Reg bias = at.bias == nullptr ? Vector::Zero() : Vector::Load(at.bias + first, lanes);
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r) {
      const std::size_t place = r * at.result_row + first;
      float* to = at.result + place;
      Reg value = Vector::Add(sum[r][v], bias);
      if (at.before != nullptr) value = Vector::Add(Vector::Load(at.before + place, lanes), value);
      if (at.accumulate) value = Vector::Fma(scale, value, Vector::Load(to, lanes));
      Vector::Store(to, value, lanes);
    }
  }
}

template <bool kIsPacked, std::size_t R, std::size_t V>
void SumTile(const PanelTile& at) {
  const float* a[R];
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) a[r] = at.a + r * at.a_row;
  const float* packed = at.a;
  const float* b = at.panel;
  if (at.before != nullptr) {
    // Far from here since it was written; there when the sums are made.
    for (std::size_t r = 0; r < R; ++r) {
      const float* before = at.before + r * at.result_row;
      __builtin_prefetch(before);
      __builtin_prefetch(before + V * kLanes - 1);
    }
  }
  Reg sum[R][V];
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < V; ++v) sum[r][v] = Vector::Zero();
  }
  for (std::size_t k = 0; k < at.depth; ++k, b += V * kLanes, packed += R) {
    Reg values[V];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < V; ++v) {
      values[v] = Vector::Load(b + v * kLanes);
      __builtin_prefetch(b + (kPanelAhead * V + v) * kLanes);
    }
#pragma GCC unroll 12
    for (std::size_t r = 0; r < R; ++r) {
      const Reg factor = Vector::Set(kIsPacked ? packed[r] : a[r][k]);
#pragma GCC unroll 2
      for (std::size_t v = 0; v < V; ++v) sum[r][v] = Vector::Fma(factor, values[v], sum[r][v]);
    }
  }
  FinishTile<R, V>(at, sum);
}

using SumTileFunction = void (*)(const PanelTile&);

template <bool kIsPacked, std::size_t R>
SumTileFunction SumTileOf(std::size_t rows, std::size_t vectors) {
  if constexpr (R > 1) {
    if (rows < R) return SumTileOf<kIsPacked, R - 1>(rows, vectors);
  }
  return vectors == 1 ? SumTile<kIsPacked, R, 1> : SumTile<kIsPacked, R, 2>;
}

void Product(const PanelProduct& op) {
  const Pieces pieces(op.rows, kTileRows);
  for (std::size_t begin = 0; begin < op.columns; begin += kPanelColumns) {
    const std::size_t columns = Least(kPanelColumns, op.columns - begin);
    const std::size_t vectors = VectorsOf(Least(kPanelColumns, op.panel_columns - begin));
    PanelTile at{.a = op.a,
                 .a_row = op.a_row,
                 .panel = op.panels + begin * op.panel_depth,
                 .depth = op.depth,
                 .bias = op.bias == nullptr ? nullptr : op.bias + begin,
                 .before = op.adds ? op.result + begin : nullptr,
                 .result = op.result + begin,
                 .result_row = op.result_row,
                 .columns = columns,
                 .scale = 1,
                 .accumulate = false};
    for (std::size_t i = 0; i < pieces.count; ++i) {
      const std::size_t rows = pieces.Size(i);
      SumTileOf<false, kTileRows>(rows, vectors)(at);
      at.a += rows * op.a_row;
      at.result += rows * op.result_row;
      if (at.before != nullptr) at.before += rows * op.result_row;
    }
  }
}

void Gradient(const PanelGradient& op) {
  const Pieces pieces(op.rows, kTileRows);
  for (std::size_t begin = 0; begin < op.columns; begin += kPanelColumns) {
    const std::size_t columns = Least(kPanelColumns, op.columns - begin);
    const std::size_t vectors = VectorsOf(columns);
    PanelTile at{.a = op.a,
                 .a_row = 0,
                 .panel = op.panels + begin * op.depth,
                 .depth = op.depth,
                 .bias = nullptr,
                 .before = op.before == nullptr ? nullptr : op.before + begin,
                 .result = op.result + begin,
                 .result_row = op.result_row,
                 .columns = columns,
                 .scale = op.scale,
                 .accumulate = op.accumulate};
    for (std::size_t i = 0; i < pieces.count; ++i) {
      const std::size_t rows = pieces.Size(i);
      SumTileOf<true, kTileRows>(rows, vectors)(at);
      at.a += rows * op.depth;
      at.result += rows * op.result_row;
      if (at.before != nullptr) at.before += rows * op.result_row;
    }
  }
}

void SumColumns(const ColumnSums& op) {
  constexpr std::size_t kTile = 8 * kLanes;
  for (std::size_t begin = 0; begin < op.columns; begin += kTile) {
    const std::size_t columns = Least(kTile, op.columns - begin);
    Reg sum[8];
    Mask lanes[8];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < 8; ++v) {
      sum[v] = Vector::Zero();
      lanes[v] = Vector::FirstLanes(v * kLanes < columns ? Least(kLanes, columns - v * kLanes) : 0);
    }
    const float* x = op.x + begin;
    for (std::size_t r = 0; r < op.rows; ++r, x += op.x_row) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < 8; ++v) {
        sum[v] = Vector::Add(sum[v], Vector::Load(x + v * kLanes, lanes[v]));
      }
    }
#pragma GCC unroll 8
    for (std::size_t v = 0; v < 8; ++v) {
      const std::size_t n = begin + v * kLanes;
      Reg value = sum[v];
      if (op.before != nullptr) value = Vector::Add(Vector::Load(op.before + n, lanes[v]), value);
      if (op.accumulate) {
        value = Vector::Fma(Vector::Set(op.scale), value, Vector::Load(op.result + n, lanes[v]));
      }
      Vector::Store(op.result + n, value, lanes[v]);
    }
  }
}

}  // namespace
}  // namespace skep::kernels
