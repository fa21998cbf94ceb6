// Recurrent cells and the softmax of attention. Sequences lie as [lane][row][place][features];
// gates of a cell as [lane][row][place][gates * hidden]. One thread a value of a place. Meanings:
// shared/model/layers.h.
#pragma once

#include <cstdint>

#include "kernels/body/kernel.h"
#include "kernels/body/math.h"

namespace skep::kernels::body {

struct CellShape {
  std::uint64_t lane_rows;  // rows of all lanes
  std::uint32_t length;
  std::uint32_t hidden;
  std::uint32_t place;  // which one of the sequence
};

// before[row][place] = h[row][place - 1], 0 at the first.
struct ShiftPlaces {
  static constexpr const char* kName = "shift_places";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> h;
    DevicePtr<float> before;
    std::uint64_t lane_rows;
    std::uint32_t length;
    std::uint32_t hidden;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const float* h = c.memory(a.h);
    float* before = c.memory(a.before);
    const std::uint64_t count = a.lane_rows * a.length * a.hidden;
    for (std::uint64_t i = c.global_index(); i < count; i += c.grid_threads()) {
      before[i] = i / a.hidden % a.length == 0 ? 0.0F : h[i - a.hidden];
    }
  }
};

// Gates arrive as W_ih x + W_hh h + b, leave as their activations; c and h of the place.
struct LstmCell {
  static constexpr const char* kName = "lstm_cell";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<float> gates;  // input, forget, cell, output
    DevicePtr<float> cells;  // [lane][row][place][hidden]
    DevicePtr<float> h;      // likewise
    CellShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const CellShape& s = a.shape;
    float* all_gates = c.memory(a.gates);
    float* cells = c.memory(a.cells);
    float* h = c.memory(a.h);
    for (std::uint64_t k = c.global_index(); k < s.lane_rows * s.hidden; k += c.grid_threads()) {
      const std::uint64_t place = k / s.hidden * s.length + s.place;
      const std::uint64_t unit = k % s.hidden;
      float* gate = all_gates + place * 4 * s.hidden + unit;
      const float in = Sigmoid(gate[0]);
      const float forget = Sigmoid(gate[s.hidden]);
      const float cell = Tanh(gate[2 * s.hidden]);
      const float out = Sigmoid(gate[3 * s.hidden]);
      gate[0] = in;
      gate[s.hidden] = forget;
      gate[2 * s.hidden] = cell;
      gate[3 * s.hidden] = out;
      const std::uint64_t at = place * s.hidden + unit;
      const float before = s.place == 0 ? 0.0F : cells[at - s.hidden];
      cells[at] = forget * before + in * cell;
      h[at] = out * Tanh(cells[at]);
    }
  }
};

// dh of the place (dy plus what comes from the next one) and dc from the next one, to the gradients
// of the gates before their activations, in place of the gates; dc for the place before.
struct LstmCellGradient {
  static constexpr const char* kName = "lstm_cell_gradient";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> dy;  // [lane][row][place][hidden]
    DevicePtr<const float> dh;  // [lane][row][hidden], from the next place; null at the last
    DevicePtr<float> dc;        // likewise; at the last place it is not read
    DevicePtr<float> gates;
    DevicePtr<const float> cells;
    CellShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const CellShape& s = a.shape;
    const float* dy = c.memory(a.dy);
    const float* dh_next = a.dh.IsNull() ? nullptr : c.memory(a.dh);
    float* dc_all = c.memory(a.dc);
    float* all_gates = c.memory(a.gates);
    const float* cells = c.memory(a.cells);
    for (std::uint64_t k = c.global_index(); k < s.lane_rows * s.hidden; k += c.grid_threads()) {
      const std::uint64_t place = k / s.hidden * s.length + s.place;
      const std::uint64_t at = place * s.hidden + k % s.hidden;
      float* gate = all_gates + place * 4 * s.hidden + k % s.hidden;
      const float in = gate[0];
      const float forget = gate[s.hidden];
      const float cell = gate[2 * s.hidden];
      const float out = gate[3 * s.hidden];
      const float dh = dy[at] + (dh_next == nullptr ? 0.0F : dh_next[k]);
      const float curve = Tanh(cells[at]);
      const float dc = dh * out * (1 - curve * curve) + (dh_next == nullptr ? 0.0F : dc_all[k]);
      const float before = s.place == 0 ? 0.0F : cells[at - s.hidden];
      gate[0] = dc * cell * in * (1 - in);
      gate[s.hidden] = dc * before * forget * (1 - forget);
      gate[2 * s.hidden] = dc * in * (1 - cell * cell);
      gate[3 * s.hidden] = dh * curve * out * (1 - out);
      dc_all[k] = dc * forget;
    }
  }
};

// Gates arrive as W_ih x + b; `recurrent` is W_hh h. They leave as activations; `recurrent` keeps
// the new gate's recurrent part with its bias, which the gradient needs.
struct GruCell {
  static constexpr const char* kName = "gru_cell";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<float> gates;          // reset, update, new
    DevicePtr<float> recurrent;      // [lane][row][place][3 * hidden]; not read at place 0
    DevicePtr<const float> bias_hn;  // lane l at + l * stride
    std::uint64_t stride;
    DevicePtr<float> h;  // [lane][row][place][hidden]
    std::uint64_t rows;  // of a lane
    CellShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const CellShape& s = a.shape;
    float* all_gates = c.memory(a.gates);
    float* all_recurrent = c.memory(a.recurrent);
    float* h = c.memory(a.h);
    for (std::uint64_t k = c.global_index(); k < s.lane_rows * s.hidden; k += c.grid_threads()) {
      const std::uint64_t row = k / s.hidden;
      const std::uint64_t unit = k % s.hidden;
      const std::uint64_t place = row * s.length + s.place;
      float* gate = all_gates + place * 3 * s.hidden + unit;
      float* recurrent = all_recurrent + place * 3 * s.hidden + unit;
      const bool is_first = s.place == 0;
      const float bias = c.memory(a.bias_hn + row / a.rows * a.stride)[unit];
      const float inner = (is_first ? 0.0F : recurrent[2 * s.hidden]) + bias;
      const float reset = Sigmoid(gate[0] + (is_first ? 0.0F : recurrent[0]));
      const float update = Sigmoid(gate[s.hidden] + (is_first ? 0.0F : recurrent[s.hidden]));
      const float fresh = Tanh(gate[2 * s.hidden] + reset * inner);
      gate[0] = reset;
      gate[s.hidden] = update;
      gate[2 * s.hidden] = fresh;
      recurrent[2 * s.hidden] = inner;
      const std::uint64_t at = place * s.hidden + unit;
      const float before = is_first ? 0.0F : h[at - s.hidden];
      h[at] = (1 - update) * fresh + update * before;
    }
  }
};

// In place of the gates the gradients of W_ih x + b, in place of `recurrent` those of W_hh h (of
// the new gate with its bias). dh of the place before gets what does not pass the weights.
struct GruCellGradient {
  static constexpr const char* kName = "gru_cell_gradient";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> dy;
    DevicePtr<float> dh;  // [lane][row][hidden]; in: from the next place, not read at the last
    std::uint32_t is_last;
    DevicePtr<float> gates;
    DevicePtr<float> recurrent;
    DevicePtr<const float> h;
    CellShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const CellShape& s = a.shape;
    const float* dy = c.memory(a.dy);
    float* dh_all = c.memory(a.dh);
    float* all_gates = c.memory(a.gates);
    float* all_recurrent = c.memory(a.recurrent);
    const float* h = c.memory(a.h);
    for (std::uint64_t k = c.global_index(); k < s.lane_rows * s.hidden; k += c.grid_threads()) {
      const std::uint64_t place = k / s.hidden * s.length + s.place;
      const std::uint64_t unit = k % s.hidden;
      const std::uint64_t at = place * s.hidden + unit;
      float* gate = all_gates + place * 3 * s.hidden + unit;
      float* recurrent = all_recurrent + place * 3 * s.hidden + unit;
      const float reset = gate[0];
      const float update = gate[s.hidden];
      const float fresh = gate[2 * s.hidden];
      const float inner = recurrent[2 * s.hidden];
      const float before = s.place == 0 ? 0.0F : h[at - s.hidden];
      const float dh = dy[at] + (a.is_last != 0 ? 0.0F : dh_all[k]);
      const float d_new = dh * (1 - update) * (1 - fresh * fresh);
      const float d_update = dh * (before - fresh) * update * (1 - update);
      const float d_reset = d_new * inner * reset * (1 - reset);
      gate[0] = d_reset;
      gate[s.hidden] = d_update;
      gate[2 * s.hidden] = d_new;
      recurrent[0] = d_reset;
      recurrent[s.hidden] = d_update;
      recurrent[2 * s.hidden] = d_new * reset;
      dh_all[k] = dh * update;
    }
  }
};

// Each row of scores to probabilities of its keys: scaled, softmax over the first `place + 1` of
// them if causal, 0 beyond.
struct AttentionSoftmax {
  static constexpr const char* kName = "attention_softmax";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<float> scores;  // [count][length] rows; row i is place i % length
    std::uint64_t count;
    std::uint32_t length;
    std::uint32_t is_causal;
    float scale;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    for (std::uint64_t r = c.global_index(); r < a.count; r += c.grid_threads()) {
      float* score = c.memory(a.scores + r * a.length);
      const auto place = static_cast<std::uint32_t>(r % a.length);
      const std::uint32_t seen = a.is_causal != 0 ? place + 1 : a.length;
      float largest = score[0];
      for (std::uint32_t i = 1; i < seen; ++i) largest = score[i] > largest ? score[i] : largest;
      float sum = 0;
      for (std::uint32_t i = 0; i < seen; ++i) {
        score[i] = Exp((score[i] - largest) * a.scale);
        sum += score[i];
      }
      const float factor = 1 / sum;
      for (std::uint32_t i = 0; i < a.length; ++i) score[i] = i < seen ? score[i] * factor : 0.0F;
    }
  }
};

// Gradients of the scores in place of those of the probabilities.
struct AttentionSoftmaxGradient {
  static constexpr const char* kName = "attention_softmax_gradient";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> probabilities;  // [count][length]
    DevicePtr<float> gradient;             // likewise
    std::uint64_t count;
    std::uint32_t length;
    float scale;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    for (std::uint64_t r = c.global_index(); r < a.count; r += c.grid_threads()) {
      const float* p = c.memory(a.probabilities + r * a.length);
      float* g = c.memory(a.gradient + r * a.length);
      float sum = 0;
      for (std::uint32_t i = 0; i < a.length; ++i) sum += p[i] * g[i];
      for (std::uint32_t i = 0; i < a.length; ++i) g[i] = p[i] * (g[i] - sum) * a.scale;
    }
  }
};

}  // namespace skep::kernels::body
