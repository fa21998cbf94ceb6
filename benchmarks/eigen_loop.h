// The yardstick of step_benchmark: SGD steps on a multilayer perceptron as one writes them with
// Eigen by hand.
//
// Matrix products on mapped memory, the update as one product straight into the weights, nothing
// else of the framework. One table an instruction set. Weights lie as in the flat parameter vector:
// [outputs, inputs], then the bias, layer by layer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skep::bench {

struct EigenLoop {
  // A workspace for layers `widths[0]` -> ... -> `widths[count - 1]`, ReLU between them, steps of
  // at most `max_batch` rows.
  void* (*make)(const std::size_t* widths, std::size_t count, std::size_t max_batch);
  void (*free)(void* workspace);
  // One step; returns the mean loss before it.
  double (*step)(void* workspace, float* params, const float* x, const std::int32_t* y,
                 std::size_t rows, float rate);
};

extern const EigenLoop kEigenPortable;
extern const EigenLoop kEigenAvx2;
extern const EigenLoop kEigenAvx512;

}  // namespace skep::bench
