// Activations and dropout, written once over `Vector` and `Words`: include after exp_body.h.
#pragma once

#include "kernels/point_loops.h"

namespace skep::kernels {
namespace {

// Calls body(column, lanes) for each vector of a row.
template <class Body>
inline void ForEachVector(std::size_t columns, const Body& body) {
  for (std::size_t c = 0; c < columns; c += kLanes) {
    body(c, Vector::FirstLanes(Least(kLanes, columns - c)));
  }
}

template <class Function>
void Map(const PointForward& op, const Function& function) {
  for (std::size_t r = 0; r < op.rows; ++r) {
    const float* x = op.x + r * op.x_stride;
    float* y = op.y + r * op.y_stride;
    ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
      Vector::Store(y + c, function(Vector::Load(x + c, lanes)), lanes);
    });
  }
}

template <class Slope>
void MapGradient(const PointGradient& op, const Slope& slope) {
  for (std::size_t r = 0; r < op.rows; ++r) {
    const float* x = op.x + r * op.x_stride;
    const float* dy = op.dy + r * op.dy_stride;
    float* dx = op.dx + r * op.dx_stride;
    ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
      const Reg value = Vector::Load(x + c, lanes);
      Reg gradient = Vector::Mul(Vector::Load(dy + c, lanes), slope(value));
      if (op.gate) gradient = Vector::WherePositive(value, gradient);
      Vector::Store(dx + c, gradient, lanes);
    });
  }
}

void MapRelu(const PointForward& op) {
  Map(op, [](Reg x) { return Vector::Max(Vector::Zero(), x); });
}
void MapTanh(const PointForward& op) {
  Map(op, [](Reg x) { return Tanh(x); });
}
void MapSigmoid(const PointForward& op) {
  Map(op, [](Reg x) { return Sigmoid(x); });
}
void MapGelu(const PointForward& op) {
  Map(op, [](Reg x) { return Gelu(x); });
}
void MapTanhGradient(const PointGradient& op) {
  MapGradient(op, [](Reg x) { return TanhSlope(x); });
}
void MapSigmoidGradient(const PointGradient& op) {
  MapGradient(op, [](Reg x) { return SigmoidSlope(x); });
}
void MapGeluGradient(const PointGradient& op) {
  MapGradient(op, [](Reg x) { return GeluSlope(x); });
}

void AddToRows(const AddVector& op) {
  for (std::size_t r = 0; r < op.rows; ++r) {
    const float* x = op.x + r * op.x_stride;
    float* y = op.y + r * op.y_stride;
    ForEachVector(op.columns, [&](std::size_t c, Mask lanes) {
      Vector::Store(y + c,
                    Vector::Add(Vector::Load(x + c, lanes), Vector::Load(op.vector + c, lanes)),
                    lanes);
    });
  }
}

// Values of one piece of dropout, whose factors are made before they are used.
constexpr std::size_t kDrawnValues = 256;
constexpr std::size_t kWordsOfStep = 4 * Words::kBlocks;

// The top 24 bits of the words of blocks `first` to first + Words::kBlocks - 1. Source: Salmon et
// al. 2011, Philox4x32-10.
inline void DrawTops(std::uint64_t key, std::uint32_t layer, std::uint32_t first, float* tops) {
  constexpr std::uint32_t kPurpose = 5;
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  const Words::Reg factor0 = Words::Set(0xD2511F53U);
  const Words::Reg factor1 = Words::Set(0xCD9E8D57U);
  Words::Reg word[4] = {Words::Count(first), Words::Set(layer), Words::Set(0),
                        Words::Set(kPurpose)};
  for (int round = 0; round < 10; ++round) {
    const Words::Reg product0 = Words::Product(factor0, word[0]);
    const Words::Reg product1 = Words::Product(factor1, word[2]);
    word[0] = Words::Xor(Words::Xor(Words::High(product1), word[1]), Words::Set(key0));
    word[1] = product1;
    word[2] = Words::Xor(Words::Xor(Words::High(product0), word[3]), Words::Set(key1));
    word[3] = product0;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  Words::StoreTops(word, tops);
}

// Values begin to begin + count - 1 of the row, the first of which is number `number` of the batch.
inline void DropPiece(const Dropout& op, std::size_t row, std::size_t begin, std::size_t count,
                      std::size_t number) {
  float tops[kDrawnValues + 4 + kWordsOfStep];
  const std::size_t skipped = number % 4;
  for (std::size_t made = 0; made < skipped + count; made += kWordsOfStep) {
    DrawTops(op.key, op.layer, static_cast<std::uint32_t>((number + made) / 4), tops + made);
  }
  const float* x = op.x + row * op.x_stride + begin;
  const float* active = op.active == nullptr ? nullptr : op.active + row * op.active_stride + begin;
  float* y = op.y + row * op.y_stride + begin;
  const Reg scale = Vector::Set(op.scale);
  const Reg below = Vector::Set(static_cast<float>(static_cast<std::int32_t>(op.threshold) - 1));
  ForEachVector(count, [&](std::size_t c, Mask lanes) {
    const Reg gate = Vector::Sub(Vector::Load(tops + skipped + c, lanes), below);
    const Reg factor = Vector::WherePositive(gate, scale);
    Reg value = Vector::Mul(Vector::Load(x + c, lanes), factor);
    if (active != nullptr) value = Vector::WherePositive(Vector::Load(active + c, lanes), value);
    Vector::Store(y + c, value, lanes);
  });
}

void Drop(const Dropout& op) {
  for (std::size_t r = 0; r < op.rows; ++r) {
    for (std::size_t begin = 0; begin < op.columns; begin += kDrawnValues) {
      DropPiece(op, r, begin, Least(kDrawnValues, op.columns - begin), r * op.columns + begin);
    }
  }
}

}  // namespace
}  // namespace skep::kernels
