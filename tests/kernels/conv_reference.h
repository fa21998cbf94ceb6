// Convolutions and pooling in double precision, by index: one loop a formula. And a layer under
// test on rows that are neither aligned nor close together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/nn/layer.h"
#include "kernels/nn/network.h"
#include "shared/model/model_spec.h"
#include "tests/kernels/reference.h"

namespace skep::kernels::test {

// The sums of products that one value of a result is, in double.
struct ExactSums {
  explicit ExactSums(std::size_t values) : sum(values), magnitude(values), terms(values) {}
  void Add(std::size_t at, double a, double b);
  // The largest |computed - sum| / ((terms + 8) 2^-24 magnitude): at most 1 is right.
  [[nodiscard]] double WorstError(const std::vector<float>& computed) const;

  std::vector<double> sum;
  std::vector<double> magnitude;  // of |a b|
  std::vector<std::size_t> terms;
};

// Of one example each. Null bias: none.
void AddConvolved(const model::ConvLayer& layer, const float* x, const float* weight,
                  const float* bias, ExactSums& y);
void AddInputGradient(const model::ConvLayer& layer, const float* dy, const float* weight,
                      ExactSums& dx);
void AddWeightGradient(const model::ConvLayer& layer, const float* x, const float* dy,
                       ExactSums& weight, ExactSums& bias);

// The layers of one convolution, one pooling, or dense layers, ReLUs and transpositions around
// them.
[[nodiscard]] double ConvNetLoss(const model::ModelSpec& spec, const std::vector<double>& params,
                                 const float* x, const std::int32_t* labels, std::size_t rows);

// A layer made from one line for an input of [channels, height, width] or [length, features].
class LayerUnderTest {
 public:
  LayerUnderTest(const std::vector<std::uint32_t>& input, const std::string& line, Isa isa,
                 std::size_t rows, bool rectify = false);

  [[nodiscard]] const model::Layer& layer() const { return spec_.layers()[index_]; }
  [[nodiscard]] std::size_t in_values() const { return in_values_; }
  [[nodiscard]] std::size_t out_values() const { return spec_.shapes()[index_].Values(); }
  [[nodiscard]] std::size_t params() const {
    return static_cast<std::size_t>(spec_.layout()->values());
  }

  // Rows one after the other, as are those of x and dy.
  [[nodiscard]] std::vector<float> Forward(const std::vector<float>& params,
                                           const std::vector<float>& x);
  struct Gradients {
    std::vector<float> dx;
    std::vector<float> params;  // what `start` has become
  };
  // After Forward with the same values. `start`: what the sink finds.
  [[nodiscard]] Gradients Backward(const std::vector<float>& params, const std::vector<float>& x,
                                   const std::vector<float>& y, const std::vector<float>& dy,
                                   const std::vector<float>& start, bool x_is_rectified = false,
                                   bool accumulate = false, float scale = 1);

 private:
  [[nodiscard]] Pass PassOf(Unaligned& params) const;

  model::ModelSpec spec_;
  std::size_t index_;
  std::size_t in_values_;
  std::size_t rows_;
  std::unique_ptr<Layer> layer_;
};

}  // namespace skep::kernels::test
