// Recurrent cells and the softmax of attention.
#include <array>

#include "tests/gpu/operations.h"
#include "tests/gpu/shapes.h"

namespace skep::gpu {
namespace {

namespace body = kernels::body;

constexpr std::uint32_t kLength = 2;

// n units of all rows.
struct Cells {
  Factors f;
  std::uint64_t places;  // rows x places
  std::uint64_t values;

  explicit Cells(std::uint64_t n) : f(n), places(f.rows * kLength), values(places * f.width) {}
  [[nodiscard]] body::CellShape At(std::uint32_t place) const {
    return {.lane_rows = f.rows, .length = kLength, .hidden = f.width, .place = place};
  }
  // Of unit k at `place`: its value among [rows][places][hidden].
  [[nodiscard]] std::uint64_t Value(std::uint64_t k, std::uint32_t place) const {
    return (k / f.width * kLength + place) * f.width + k % f.width;
  }
  // Its gate `g` of `gates`.
  [[nodiscard]] std::uint64_t Gate(std::uint64_t k, std::uint32_t place, std::uint32_t gates,
                                   std::uint32_t g) const {
    return ((k / f.width * kLength + place) * gates + g) * f.width + k % f.width;
  }
};

Floats Between(const Floats& values, float low, float high) {
  Floats result;
  for (const float v : values) result.push_back(low + (high - low) * (v + 2) / 4);
  return result;
}

void TryShift(Bench& b, std::uint64_t n) {
  const Cells cells(n);
  const Floats h = b.Random(cells.values);
  const auto before = b.Put(Floats(cells.values, 9));
  b.Launch<body::ShiftPlaces>(b.Loop(), {.h = b.Put(h),
                                         .before = before,
                                         .lane_rows = cells.f.rows,
                                         .length = kLength,
                                         .hidden = cells.f.width});
  const Floats got = b.Take(before, cells.values);
  for (std::uint64_t k = 0; k < n; ++k) {
    b.Compare("before", cells.Value(k, 0), got[cells.Value(k, 0)], Bound(0));
    b.Compare("before", cells.Value(k, 1), got[cells.Value(k, 1)], Bound(h[cells.Value(k, 0)]));
  }
}

void TryLstm(Bench& b, std::uint64_t n) {
  const Cells c(n);
  for (const std::uint32_t place : {0U, 1U}) {
    const Floats gates = b.Random(4 * c.values);
    const Floats cells = b.Random(c.values);
    const auto at_gates = b.Put(gates);
    const auto at_cells = b.Put(cells);
    const auto h = b.Put(Floats(c.values));
    b.Launch<body::LstmCell>(b.Loop(),
                             {.gates = at_gates, .cells = at_cells, .h = h, .shape = c.At(place)});
    const Floats got_gates = b.Take(at_gates, 4 * c.values);
    const Floats got_cells = b.Take(at_cells, c.values);
    const Floats got_h = b.Take(h, c.values);
    for (std::uint64_t k = 0; k < n; ++k) {
      std::array<Bound, 4> gate;
      for (std::uint32_t g = 0; g < 4; ++g) {
        const Bound z = gates[c.Gate(k, place, 4, g)];
        gate.at(g) = g == 2 ? Tanh(z) : Sigmoid(z);
        b.Compare("gates", c.Gate(k, place, 4, g), got_gates[c.Gate(k, place, 4, g)], gate.at(g));
      }
      const Bound before = place == 0 ? 0 : cells[c.Value(k, 0)];
      const Bound cell = gate[1] * before + gate[0] * gate[2];
      b.Compare("cells", c.Value(k, place), got_cells[c.Value(k, place)], cell);
      b.Compare("h", c.Value(k, place), got_h[c.Value(k, place)], gate[3] * Tanh(cell));
    }
  }
}

void TryLstmGradient(Bench& b, std::uint64_t n) {
  const Cells c(n);
  for (const std::uint32_t place : {1U, 0U}) {
    const bool is_last = place == 1;
    const Floats gates = Between(b.Random(4 * c.values), 0.1F, 0.9F);
    const Floats cells = b.Random(c.values);
    const Floats dy = b.Random(c.values);
    const Floats dh = b.Random(n);
    const Floats dc = b.Random(n);
    const auto at_gates = b.Put(gates);
    const auto at_dc = b.Put(dc);
    b.Launch<body::LstmCellGradient>(
        b.Loop(), {.dy = b.Put(dy),
                   .dh = is_last ? DevicePtr<const float>{} : DevicePtr<const float>(b.Put(dh)),
                   .dc = at_dc,
                   .gates = at_gates,
                   .cells = b.Put(cells),
                   .shape = c.At(place)});
    const Floats got = b.Take(at_gates, 4 * c.values);
    const Floats got_dc = b.Take(at_dc, n);
    for (std::uint64_t k = 0; k < n; ++k) {
      std::array<Bound, 4> gate;
      for (std::uint32_t g = 0; g < 4; ++g) gate.at(g) = Bound(gates[c.Gate(k, place, 4, g)]);
      const auto& [in, forget, cell, out] = gate;
      const Bound up = Bound(dy[c.Value(k, place)]) + Bound(is_last ? 0 : dh[k]);
      const Bound curve = Tanh(Bound(cells[c.Value(k, place)]));
      const Bound down = up * out * (Bound(1) - curve * curve) + Bound(is_last ? 0 : dc[k]);
      const Bound before = place == 0 ? 0 : cells[c.Value(k, 0)];
      const std::array<Bound, 4> want{
          down * cell * in * (Bound(1) - in), down * before * forget * (Bound(1) - forget),
          down * in * (Bound(1) - cell * cell), up * curve * out * (Bound(1) - out)};
      for (std::uint32_t g = 0; g < 4; ++g) {
        b.Compare("gates", c.Gate(k, place, 4, g), got[c.Gate(k, place, 4, g)], want.at(g));
      }
      b.Compare("dc", k, got_dc[k], down * forget);
    }
  }
}

void TryGru(Bench& b, std::uint64_t n) {
  const Cells c(n);
  const std::uint64_t rows = std::max<std::uint64_t>(1, (c.f.rows + 1) / 2);  // two lanes
  const std::uint64_t stride = c.f.width + 3;
  for (const std::uint32_t place : {0U, 1U}) {
    const Floats gates = b.Random(3 * c.values);
    const Floats recurrent = b.Random(3 * c.values);
    const Floats bias = b.Random(2 * stride);
    const Floats h = b.Random(c.values);
    const auto at_gates = b.Put(gates);
    const auto at_recurrent = b.Put(recurrent);
    const auto at_h = b.Put(h);
    b.Launch<body::GruCell>(b.Loop(), {.gates = at_gates,
                                       .recurrent = at_recurrent,
                                       .bias_hn = b.Put(bias),
                                       .stride = stride,
                                       .h = at_h,
                                       .rows = rows,
                                       .shape = c.At(place)});
    const Floats got = b.Take(at_gates, 3 * c.values);
    const Floats got_recurrent = b.Take(at_recurrent, 3 * c.values);
    const Floats got_h = b.Take(at_h, c.values);
    for (std::uint64_t k = 0; k < n; ++k) {
      const auto gate = [&](std::uint32_t g) { return Bound(gates[c.Gate(k, place, 3, g)]); };
      const auto again = [&](std::uint32_t g) {
        return Bound(place == 0 ? 0 : recurrent[c.Gate(k, place, 3, g)]);
      };
      const std::uint64_t lane = k / c.f.width / rows;
      const Bound inner = again(2) + Bound(bias[lane * stride + k % c.f.width]);
      const Bound reset = Sigmoid(gate(0) + again(0));
      const Bound update = Sigmoid(gate(1) + again(1));
      const Bound fresh = Tanh(gate(2) + reset * inner);
      const Bound before = place == 0 ? 0 : h[c.Value(k, 0)];
      const std::array<Bound, 3> want{reset, update, fresh};
      for (std::uint32_t g = 0; g < 3; ++g) {
        b.Compare("gates", c.Gate(k, place, 3, g), got[c.Gate(k, place, 3, g)], want.at(g));
      }
      b.Compare("recurrent", c.Gate(k, place, 3, 2), got_recurrent[c.Gate(k, place, 3, 2)], inner);
      b.Compare("h", c.Value(k, place), got_h[c.Value(k, place)],
                (Bound(1) - update) * fresh + update * before);
    }
  }
}

void TryGruGradient(Bench& b, std::uint64_t n) {
  const Cells c(n);
  for (const std::uint32_t place : {1U, 0U}) {
    const bool is_last = place == 1;
    const Floats gates = Between(b.Random(3 * c.values), 0.1F, 0.9F);
    const Floats recurrent = b.Random(3 * c.values);
    const Floats h = b.Random(c.values);
    const Floats dy = b.Random(c.values);
    const Floats dh = b.Random(n);
    const auto at_gates = b.Put(gates);
    const auto at_recurrent = b.Put(recurrent);
    const auto at_dh = b.Put(dh);
    b.Launch<body::GruCellGradient>(b.Loop(), {.dy = b.Put(dy),
                                               .dh = at_dh,
                                               .is_last = is_last ? 1U : 0U,
                                               .gates = at_gates,
                                               .recurrent = at_recurrent,
                                               .h = b.Put(h),
                                               .shape = c.At(place)});
    const Floats got = b.Take(at_gates, 3 * c.values);
    const Floats got_recurrent = b.Take(at_recurrent, 3 * c.values);
    const Floats got_dh = b.Take(at_dh, n);
    for (std::uint64_t k = 0; k < n; ++k) {
      const Bound reset = gates[c.Gate(k, place, 3, 0)];
      const Bound update = gates[c.Gate(k, place, 3, 1)];
      const Bound fresh = gates[c.Gate(k, place, 3, 2)];
      const Bound inner = recurrent[c.Gate(k, place, 3, 2)];
      const Bound before = place == 0 ? 0 : h[c.Value(k, 0)];
      const Bound up = Bound(dy[c.Value(k, place)]) + Bound(is_last ? 0 : dh[k]);
      const Bound d_new = up * (Bound(1) - update) * (Bound(1) - fresh * fresh);
      const Bound d_update = up * (before - fresh) * update * (Bound(1) - update);
      const Bound d_reset = d_new * inner * reset * (Bound(1) - reset);
      const std::array<Bound, 3> want{d_reset, d_update, d_new};
      const std::array<Bound, 3> again{d_reset, d_update, d_new * reset};
      for (std::uint32_t g = 0; g < 3; ++g) {
        const std::uint64_t at = c.Gate(k, place, 3, g);
        b.Compare("gates", at, got[at], want.at(g));
        b.Compare("recurrent", at, got_recurrent[at], again.at(g));
      }
      b.Compare("dh", k, got_dh[k], up * update);
    }
  }
}

void TryAttention(Bench& b, std::uint64_t n) {
  constexpr std::uint32_t kKeys = 5;
  constexpr float kScale = 0.37F;
  for (const bool is_causal : {true, false}) {
    const Floats scores = b.Random(n * kKeys, 5);
    const auto at = b.Put(scores);
    b.Launch<body::AttentionSoftmax>(b.Loop(), {.scores = at,
                                                .count = n,
                                                .length = kKeys,
                                                .is_causal = is_causal ? 1U : 0U,
                                                .scale = kScale});
    const Floats got = b.Take(at, n * kKeys);
    for (std::uint64_t r = 0; r < n; ++r) {
      const std::uint64_t seen = is_causal ? r % kKeys + 1 : kKeys;
      const float* row = &scores[r * kKeys];
      const Bound largest = *std::max_element(row, row + seen);
      std::vector<Bound> shares(kKeys);
      Bound sum;
      for (std::uint64_t i = 0; i < seen; ++i) {
        shares[i] = Exp((Bound(row[i]) - largest) * Bound(kScale));
        sum = sum + shares[i];
      }
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        b.Compare("scores", r * kKeys + i, got[r * kKeys + i],
                  i < seen ? shares[i] * (Bound(1) / sum) : Bound(0));
      }
    }
  }
}

void TryAttentionGradient(Bench& b, std::uint64_t n) {
  constexpr std::uint32_t kKeys = 5;
  constexpr float kScale = 0.37F;
  const Floats shares = Between(b.Random(n * kKeys), 0, 0.4F);
  const Floats gradient = b.Random(n * kKeys);
  const auto at = b.Put(gradient);
  b.Launch<body::AttentionSoftmaxGradient>(b.Loop(), {.probabilities = b.Put(shares),
                                                      .gradient = at,
                                                      .count = n,
                                                      .length = kKeys,
                                                      .scale = kScale});
  const Floats got = b.Take(at, n * kKeys);
  for (std::uint64_t r = 0; r < n; ++r) {
    Bound sum;
    for (std::uint32_t i = 0; i < kKeys; ++i) {
      sum = sum + Bound(shares[r * kKeys + i]) * Bound(gradient[r * kKeys + i]);
    }
    for (std::uint32_t i = 0; i < kKeys; ++i) {
      b.Compare(
          "gradient", r * kKeys + i, got[r * kKeys + i],
          Bound(shares[r * kKeys + i]) * (Bound(gradient[r * kKeys + i]) - sum) * Bound(kScale));
    }
  }
}

constexpr std::array kOperations{
    Operation{"shift_places", false, TryShift},
    Operation{"lstm_cell", false, TryLstm},
    Operation{"lstm_cell_gradient", false, TryLstmGradient},
    Operation{"gru_cell", false, TryGru},
    Operation{"gru_cell_gradient", false, TryGruGradient},
    Operation{"attention_softmax", false, TryAttention},
    Operation{"attention_softmax_gradient", false, TryAttentionGradient}};

}  // namespace

std::span<const Operation> SequenceOperations() {
  return kOperations;
}

}  // namespace skep::gpu
