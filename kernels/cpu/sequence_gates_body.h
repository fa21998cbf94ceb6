// Gates of recurrent layers, written once over `Vector`: include after exp_body.h.
//
// All that happens to a unit in one step, or in the gradient of one, is one pass over it.
#pragma once

#include "kernels/sequence_loops.h"

namespace skep::kernels {
namespace {

// Derivatives, from the value of the function: s (1 - s), 1 - t^2.
Reg SlopeOfSigmoid(Reg s) {
  return Vector::Mul(s, Vector::Sub(Vector::Set(1.0F), s));
}

Reg SlopeOfTanh(Reg t) {
  return Vector::Mul(Vector::Sub(Vector::Set(1.0F), t), Vector::Add(Vector::Set(1.0F), t));
}

void StepLstm(const LstmStep& op) {
  const std::size_t hidden = op.hidden;
  for (std::size_t r = 0; r < op.rows; ++r) {
    float* gates = op.gates + r * op.gates_row;
    for (std::size_t j = 0; j < hidden; j += kLanes) {
      const Mask lanes = Vector::FirstLanes(Least(kLanes, hidden - j));
      const Reg input = Sigmoid(Vector::Load(gates + j, lanes));
      const Reg forget = Sigmoid(Vector::Load(gates + hidden + j, lanes));
      const Reg candidate = Tanh(Vector::Load(gates + 2 * hidden + j, lanes));
      const Reg output = Sigmoid(Vector::Load(gates + 3 * hidden + j, lanes));
      const std::size_t at = r * hidden + j;
      const Reg cell = Vector::Fma(forget, Vector::Load(op.cell_before + at, lanes),
                                   Vector::Mul(input, candidate));
      const Reg state = Vector::Mul(output, Tanh(cell));
      Vector::Store(gates + j, input, lanes);
      Vector::Store(gates + hidden + j, forget, lanes);
      Vector::Store(gates + 2 * hidden + j, candidate, lanes);
      Vector::Store(gates + 3 * hidden + j, output, lanes);
      Vector::Store(op.cell + at, cell, lanes);
      Vector::Store(op.state + at, state, lanes);
      Vector::Store(op.y + r * op.y_row + j, state, lanes);
    }
  }
}

// Asks for one vector of each gate of the row after this one: rows are too short for the processor
// to see what comes.
void PrefetchGates(const float* gates, std::size_t row, std::size_t hidden, std::size_t count) {
#pragma GCC unroll 4
  for (std::size_t gate = 0; gate < count; ++gate) {
    __builtin_prefetch(gates + row + gate * hidden);
  }
}

void StepLstmGradient(const LstmStepGradient& op) {
  const std::size_t hidden = op.hidden;
  for (std::size_t r = 0; r < op.rows; ++r) {
    const float* gates = op.gates + r * op.gates_row;
    float* gradients = op.gradients + r * op.gradients_row;
    for (std::size_t j = 0; j < hidden; j += kLanes) {
      const Mask lanes = Vector::FirstLanes(Least(kLanes, hidden - j));
      const std::size_t at = r * hidden + j;
      PrefetchGates(gates + j, op.gates_row, hidden, 4);
      __builtin_prefetch(op.cell_before + at + hidden);
      __builtin_prefetch(op.dy + (r + 1) * op.dy_row + j);
      const Reg input = Vector::Load(gates + j, lanes);
      const Reg forget = Vector::Load(gates + hidden + j, lanes);
      const Reg candidate = Vector::Load(gates + 2 * hidden + j, lanes);
      const Reg output = Vector::Load(gates + 3 * hidden + j, lanes);
      const Reg cell_tanh = Tanh(Vector::Load(op.cell + at, lanes));
      const Reg dstate = Vector::Add(Vector::Load(op.dy + r * op.dy_row + j, lanes),
                                     Vector::Load(op.dstate + at, lanes));
      const Reg dcell = Vector::Fma(Vector::Mul(dstate, output), SlopeOfTanh(cell_tanh),
                                    Vector::Load(op.dcell + at, lanes));
      const Reg dinput = Vector::Mul(Vector::Mul(dcell, candidate), SlopeOfSigmoid(input));
      const Reg dforget = Vector::Mul(Vector::Mul(dcell, Vector::Load(op.cell_before + at, lanes)),
                                      SlopeOfSigmoid(forget));
      const Reg dcandidate = Vector::Mul(Vector::Mul(dcell, input), SlopeOfTanh(candidate));
      const Reg doutput = Vector::Mul(Vector::Mul(dstate, cell_tanh), SlopeOfSigmoid(output));
      Vector::Store(gradients + j, dinput, lanes);
      Vector::Store(gradients + hidden + j, dforget, lanes);
      Vector::Store(gradients + 2 * hidden + j, dcandidate, lanes);
      Vector::Store(gradients + 3 * hidden + j, doutput, lanes);
      Vector::Store(op.dcell + at, Vector::Mul(dcell, forget), lanes);
    }
  }
}

void StepGru(const GruStep& op) {
  const std::size_t hidden = op.hidden;
  for (std::size_t r = 0; r < op.rows; ++r) {
    float* gates = op.gates + r * op.gates_row;
    for (std::size_t j = 0; j < hidden; j += kLanes) {
      const Mask lanes = Vector::FirstLanes(Least(kLanes, hidden - j));
      const std::size_t at = r * hidden + j;
      const Reg reset = Sigmoid(Vector::Load(gates + j, lanes));
      const Reg update = Sigmoid(Vector::Load(gates + hidden + j, lanes));
      const Reg candidate = Tanh(Vector::Fma(reset, Vector::Load(op.recurrent_new + at, lanes),
                                             Vector::Load(gates + 2 * hidden + j, lanes)));
      // (1 - z) n + z h
      const Reg before = Vector::Load(op.state_before + at, lanes);
      const Reg state = Vector::Fma(update, Vector::Sub(before, candidate), candidate);
      Vector::Store(gates + j, reset, lanes);
      Vector::Store(gates + hidden + j, update, lanes);
      Vector::Store(gates + 2 * hidden + j, candidate, lanes);
      Vector::Store(op.state + at, state, lanes);
      Vector::Store(op.y + r * op.y_row + j, state, lanes);
    }
  }
}

void StepGruGradient(const GruStepGradient& op) {
  const std::size_t hidden = op.hidden;
  for (std::size_t r = 0; r < op.rows; ++r) {
    const float* gates = op.gates + r * op.gates_row;
    const float* state_before = op.state_before + r * op.state_before_row;
    float* gradients = op.gradients + r * op.gradients_row;
    float* recurrent = op.recurrent_gradients + r * op.gradients_row;
    for (std::size_t j = 0; j < hidden; j += kLanes) {
      const Mask lanes = Vector::FirstLanes(Least(kLanes, hidden - j));
      const std::size_t at = r * hidden + j;
      PrefetchGates(gates + j, op.gates_row, hidden, 3);
      const Reg reset = Vector::Load(gates + j, lanes);
      const Reg update = Vector::Load(gates + hidden + j, lanes);
      const Reg candidate = Vector::Load(gates + 2 * hidden + j, lanes);
      const Reg dstate = Vector::Add(Vector::Add(Vector::Load(op.dy + r * op.dy_row + j, lanes),
                                                 Vector::Load(op.direct + at, lanes)),
                                     Vector::Load(op.dstate + at, lanes));
      const Reg beside = Vector::Sub(Vector::Set(1.0F), update);
      const Reg dnew = Vector::Mul(Vector::Mul(dstate, beside), SlopeOfTanh(candidate));
      const Reg change = Vector::Sub(Vector::Load(state_before + j, lanes), candidate);
      const Reg dupdate = Vector::Mul(Vector::Mul(dstate, change), SlopeOfSigmoid(update));
      const Reg dreset = Vector::Mul(Vector::Mul(dnew, Vector::Load(op.recurrent_new + at, lanes)),
                                     SlopeOfSigmoid(reset));
      Vector::Store(gradients + j, dreset, lanes);
      Vector::Store(gradients + hidden + j, dupdate, lanes);
      Vector::Store(gradients + 2 * hidden + j, dnew, lanes);
      Vector::Store(recurrent + j, dreset, lanes);
      Vector::Store(recurrent + hidden + j, dupdate, lanes);
      Vector::Store(recurrent + 2 * hidden + j, Vector::Mul(dnew, reset), lanes);
      Vector::Store(op.direct + at, Vector::Mul(dstate, update), lanes);
    }
  }
}

}  // namespace
}  // namespace skep::kernels
