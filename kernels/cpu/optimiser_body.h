// The updates of optimisers, written once over `Vector`: include after base_body.h.
#pragma once

#include "kernels/training_loops.h"

namespace skep::kernels {
namespace {

void UpdateWeights(const SgdUpdate& op) {
  const Reg negative_rate = Vector::Set(-op.learning_rate);
  const Reg scale = Vector::Set(op.gradient_scale);
  const Reg decay = Vector::Set(op.weight_decay);
  const Reg momentum = Vector::Set(op.momentum);
  for (std::size_t i = 0; i < op.count; i += kLanes) {
    const Mask lanes = Vector::FirstLanes(Least(kLanes, op.count - i));
    const Reg weight = Vector::Load(op.weights + i, lanes);
    Reg step = Vector::Mul(Vector::Load(op.gradient + i, lanes), scale);
    if (op.weight_decay != 0) step = Vector::Fma(decay, weight, step);
    if (op.velocity != nullptr) {
      const Reg velocity = Vector::Fma(momentum, Vector::Load(op.velocity + i, lanes), step);
      Vector::Store(op.velocity + i, velocity, lanes);
      step = op.nesterov ? Vector::Fma(momentum, velocity, step) : velocity;
    }
    Vector::Store(op.weights + i, Vector::Fma(negative_rate, step, weight), lanes);
  }
}

void UpdateAdam(const AdamUpdate& op) {
  const Reg step = Vector::Set(-op.step_size);
  const Reg scale = Vector::Set(op.gradient_scale);
  const Reg decay = Vector::Set(op.gradient_decay);
  const Reg factor = Vector::Set(op.weight_factor);
  const Reg beta1 = Vector::Set(op.beta1);
  const Reg beta2 = Vector::Set(op.beta2);
  const Reg rest1 = Vector::Set(op.rest1);
  const Reg rest2 = Vector::Set(op.rest2);
  const Reg root = Vector::Set(op.root_scale);
  const Reg epsilon = Vector::Set(op.epsilon);
  for (std::size_t i = 0; i < op.count; i += kLanes) {
    const Mask lanes = Vector::FirstLanes(Least(kLanes, op.count - i));
    const Reg before = Vector::Load(op.weights + i, lanes);
    Reg gradient = Vector::Mul(Vector::Load(op.gradient + i, lanes), scale);
    if (op.gradient_decay != 0) gradient = Vector::Fma(decay, before, gradient);
    const Reg weight = Vector::Mul(before, factor);
    const Reg first =
        Vector::Fma(rest1, gradient, Vector::Mul(beta1, Vector::Load(op.first + i, lanes)));
    const Reg second = Vector::Fma(Vector::Mul(rest2, gradient), gradient,
                                   Vector::Mul(beta2, Vector::Load(op.second + i, lanes)));
    Vector::Store(op.first + i, first, lanes);
    Vector::Store(op.second + i, second, lanes);
    const Reg size = Vector::Fma(root, Vector::Sqrt(second), epsilon);
    Vector::Store(op.weights + i, Vector::Fma(step, Vector::Div(first, size), weight), lanes);
  }
}

}  // namespace
}  // namespace skep::kernels
