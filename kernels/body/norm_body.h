// Normalisation: statistics of sets of values, what they make of them, and the gradients.
//
// A set is: a channel of a lane's batch (batch norm), or a group of channels of an example at all
// of its places (group norm; layer norm over a sequence is that of examples of one place). Sums are
// trees of double over the threads of a block: their order depends on shapes alone. Meanings:
// shared/model/layers.h.
#pragma once

#include <cstdint>

#include "kernels/body/kernel.h"
#include "kernels/body/math.h"

namespace skep::kernels::body {

struct NormShape {
  std::uint32_t rows;    // examples of a lane
  std::uint32_t pixels;  // places of an example
  std::uint32_t channels;
  std::uint32_t groups;    // of an example; is_batch: unused
  std::uint32_t is_batch;  // else by groups
  std::uint32_t row_unit;  // rows of one example of the model: `active` counts examples

  // Sets of a lane.
  [[nodiscard]] SKEP_HD std::uint32_t Sets() const {
    return is_batch != 0 ? channels : rows * groups;
  }
  // Values of a set, with so many active rows.
  [[nodiscard]] SKEP_HD std::uint64_t Count(std::uint32_t active) const {
    return is_batch != 0 ? std::uint64_t{active} * pixels
                         : std::uint64_t{pixels} * (channels / groups);
  }
  // Where the i-th value of a set lies in its lane.
  [[nodiscard]] SKEP_HD std::uint64_t At(std::uint64_t set, std::uint64_t i) const {
    if (is_batch != 0) return i * channels + set;
    const std::uint32_t width = channels / groups;
    return (set / groups * pixels + i / width) * channels + set % groups * width + i % width;
  }
  [[nodiscard]] SKEP_HD std::uint64_t SetOf(std::uint64_t at) const {
    const std::uint64_t channel = at % channels;
    if (is_batch != 0) return channel;
    return at / channels / pixels * groups + channel / (channels / groups);
  }
};

// Adds `value` of all threads of the block; the sum is thread 0's, and in shared[0].
template <class Context>
SKEP_HD double SumOfBlock(Context& c, double* shared, double value) {
  c.sync();  // the sum before has been read
  shared[c.thread()] = value;
  c.sync();
  for (std::uint32_t step = c.block_threads() / 2; step > 0; step /= 2) {
    if (c.thread() < step) shared[c.thread()] += shared[c.thread() + step];
    c.sync();
  }
  return shared[0];
}

// Mean and variance of each set; one block a set. Shared: a double a thread.
struct NormStatistics {
  static constexpr const char* kName = "norm_statistics";
  static constexpr bool kSynchronises = true;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<const std::uint32_t> active;  // [lanes]
    DevicePtr<double> mean;                 // [lanes][sets]
    DevicePtr<double> variance;
    NormShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const NormShape& s = a.shape;
    double* shared = c.template shared<double>();
    const std::uint64_t lane = c.block_y();
    const std::uint64_t set = c.block_x();
    const float* x = c.memory(a.x + lane * s.rows * s.pixels * s.channels);
    const std::uint64_t count = s.Count(c.memory(a.active)[lane] * s.row_unit);
    const auto divisor = static_cast<double>(count == 0 ? 1 : count);
    double sum = 0;
    for (std::uint64_t i = c.thread(); i < count; i += c.block_threads()) {
      sum += static_cast<double>(x[s.At(set, i)]);
    }
    const double mean = SumOfBlock(c, shared, sum) / divisor;
    double squares = 0;
    for (std::uint64_t i = c.thread(); i < count; i += c.block_threads()) {
      const double distance = static_cast<double>(x[s.At(set, i)]) - mean;
      squares += distance * distance;
    }
    const double variance = SumOfBlock(c, shared, squares) / divisor;
    if (c.thread() != 0) return;
    c.memory(a.mean)[lane * s.Sets() + set] = mean;
    c.memory(a.variance)[lane * s.Sets() + set] = variance;
  }
};

struct NormApply {
  static constexpr const char* kName = "norm_apply";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<float> y;
    DevicePtr<const double> mean;
    DevicePtr<const double> variance;
    DevicePtr<const float> weight;  // lane l at + l * stride
    DevicePtr<const float> bias;
    std::uint64_t stride;
    double epsilon;
    std::uint32_t rectify;
    NormShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const NormShape& s = a.shape;
    const std::uint64_t lane = c.block_y();
    const std::uint64_t count = std::uint64_t{s.rows} * s.pixels * s.channels;
    const float* x = c.memory(a.x + lane * count);
    float* y = c.memory(a.y + lane * count);
    const double* mean = c.memory(a.mean + lane * s.Sets());
    const double* variance = c.memory(a.variance + lane * s.Sets());
    const float* weight = c.memory(a.weight + lane * a.stride);
    const float* bias = c.memory(a.bias + lane * a.stride);
    for (std::uint64_t i = c.global_index(); i < count; i += c.grid_threads()) {
      const std::uint64_t set = s.SetOf(i);
      const auto centred = static_cast<float>(static_cast<double>(x[i]) - mean[set]);
      const auto inverse = static_cast<float>(1 / sqrt(variance[set] + a.epsilon));
      const float value = centred * inverse * weight[i % s.channels] + bias[i % s.channels];
      y[i] = a.rectify != 0 && value < 0 ? 0.0F : value;
    }
  }
};

// Of each set, the means of g = dy * weight and of g * (x - mean) / deviation; one block a set.
// Shared: a double a thread.
struct NormGradientMeans {
  static constexpr const char* kName = "norm_gradient_means";
  static constexpr bool kSynchronises = true;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<const float> dy;
    DevicePtr<const std::uint32_t> active;
    DevicePtr<const double> mean;
    DevicePtr<const double> variance;
    DevicePtr<const float> weight;
    std::uint64_t stride;
    DevicePtr<double> means;     // [lanes][sets]
    DevicePtr<double> products;  // [lanes][sets]
    double epsilon;
    NormShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const NormShape& s = a.shape;
    double* shared = c.template shared<double>();
    const std::uint64_t lane = c.block_y();
    const std::uint64_t set = c.block_x();
    const std::uint64_t values = std::uint64_t{s.rows} * s.pixels * s.channels;
    const float* x = c.memory(a.x + lane * values);
    const float* dy = c.memory(a.dy + lane * values);
    const float* weight = c.memory(a.weight + lane * a.stride);
    const std::uint64_t count = s.Count(c.memory(a.active)[lane] * s.row_unit);
    const auto divisor = static_cast<double>(count == 0 ? 1 : count);
    const double mean = c.memory(a.mean)[lane * s.Sets() + set];
    const double inverse = 1 / sqrt(c.memory(a.variance)[lane * s.Sets() + set] + a.epsilon);
    double sum = 0;
    double products = 0;
    for (std::uint64_t i = c.thread(); i < count; i += c.block_threads()) {
      const std::uint64_t at = s.At(set, i);
      const double g = static_cast<double>(dy[at]) * static_cast<double>(weight[at % s.channels]);
      sum += g;
      products += g * (static_cast<double>(x[at]) - mean) * inverse;
    }
    const double all = SumOfBlock(c, shared, sum) / divisor;
    const double all_products = SumOfBlock(c, shared, products) / divisor;
    if (c.thread() != 0) return;
    c.memory(a.means)[lane * s.Sets() + set] = all;
    c.memory(a.products)[lane * s.Sets() + set] = all_products;
  }
};

// dx = (g - mean of g - xhat * mean of g xhat) / deviation; 0 in rows that are not active, and
// where x is not above 0 if `rectify`.
struct NormInputGradient {
  static constexpr const char* kName = "norm_input_gradient";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<const float> dy;
    DevicePtr<float> dx;
    DevicePtr<const std::uint32_t> active;
    DevicePtr<const double> mean;
    DevicePtr<const double> variance;
    DevicePtr<const double> means;
    DevicePtr<const double> products;
    DevicePtr<const float> weight;
    std::uint64_t stride;
    double epsilon;
    std::uint32_t rectify;
    NormShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const NormShape& s = a.shape;
    const std::uint64_t lane = c.block_y();
    const std::uint64_t row_values = std::uint64_t{s.pixels} * s.channels;
    const std::uint64_t count = s.rows * row_values;
    const std::uint64_t active = c.memory(a.active)[lane] * s.row_unit * row_values;
    const float* x = c.memory(a.x + lane * count);
    const float* dy = c.memory(a.dy + lane * count);
    float* dx = c.memory(a.dx + lane * count);
    const float* weight = c.memory(a.weight + lane * a.stride);
    const std::uint64_t sets = lane * s.Sets();
    for (std::uint64_t i = c.global_index(); i < count; i += c.grid_threads()) {
      if (i >= active || (a.rectify != 0 && !(x[i] > 0))) {
        dx[i] = 0;
        continue;
      }
      const std::uint64_t set = sets + s.SetOf(i);
      const double inverse = 1 / sqrt(c.memory(a.variance)[set] + a.epsilon);
      const double hat = (static_cast<double>(x[i]) - c.memory(a.mean)[set]) * inverse;
      const double g = static_cast<double>(dy[i]) * static_cast<double>(weight[i % s.channels]);
      dx[i] = static_cast<float>(inverse *
                                 (g - c.memory(a.means)[set] - hat * c.memory(a.products)[set]));
    }
  }
};

// Gradients of weight and bias: one block a channel. Shared: a double a thread.
struct NormParameterGradient {
  static constexpr const char* kName = "norm_parameter_gradient";
  static constexpr bool kSynchronises = true;
  struct Args {
    DevicePtr<const float> x;
    DevicePtr<const float> dy;
    DevicePtr<const std::uint32_t> active;
    DevicePtr<const double> mean;
    DevicePtr<const double> variance;
    DevicePtr<float> weight;  // where the gradients go; lane l at + l * stride
    DevicePtr<float> bias;
    std::uint64_t stride;
    double epsilon;
    float scale;
    std::uint32_t accumulate;
    NormShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const NormShape& s = a.shape;
    double* shared = c.template shared<double>();
    const std::uint64_t lane = c.block_y();
    const std::uint64_t channel = c.block_x();
    const std::uint64_t values = std::uint64_t{s.rows} * s.pixels * s.channels;
    const float* x = c.memory(a.x + lane * values);
    const float* dy = c.memory(a.dy + lane * values);
    const std::uint64_t places = std::uint64_t{c.memory(a.active)[lane]} * s.row_unit * s.pixels;
    double sum = 0;
    double products = 0;
    for (std::uint64_t p = c.thread(); p < places; p += c.block_threads()) {
      const std::uint64_t at = p * s.channels + channel;
      const std::uint64_t set = lane * s.Sets() + s.SetOf(at);
      const double inverse = 1 / sqrt(c.memory(a.variance)[set] + a.epsilon);
      const double hat = (static_cast<double>(x[at]) - c.memory(a.mean)[set]) * inverse;
      sum += static_cast<double>(dy[at]);
      products += static_cast<double>(dy[at]) * hat;
    }
    const auto bias = static_cast<float>(SumOfBlock(c, shared, sum));
    const auto weight = static_cast<float>(SumOfBlock(c, shared, products));
    if (c.thread() != 0) return;
    float* to_weight = c.memory(a.weight + lane * a.stride) + channel;
    float* to_bias = c.memory(a.bias + lane * a.stride) + channel;
    *to_weight = a.accumulate != 0 ? a.scale * weight + *to_weight : weight;
    *to_bias = a.accumulate != 0 ? a.scale * bias + *to_bias : bias;
  }
};

// Running statistics move towards those of the batch; a lane without examples rests.
struct NormMove {
  static constexpr const char* kName = "norm_move";
  static constexpr bool kSynchronises = false;
  struct Args {
    DevicePtr<const double> mean;
    DevicePtr<const double> variance;
    DevicePtr<const std::uint32_t> active;
    DevicePtr<float> running_mean;  // lane l at + l * stride
    DevicePtr<float> running_var;
    std::uint64_t stride;
    double momentum;
    NormShape shape;
  };
  template <class Context>
  SKEP_HD static void Run(Context& c, const Args& a) {
    const NormShape& s = a.shape;
    const std::uint64_t lane = c.block_y();
    const std::uint64_t count = s.Count(c.memory(a.active)[lane] * s.row_unit);
    if (count == 0) return;
    float* mean = c.memory(a.running_mean + lane * a.stride);
    float* variance = c.memory(a.running_var + lane * a.stride);
    for (std::uint64_t i = c.global_index(); i < s.channels; i += c.grid_threads()) {
      const std::uint64_t set = lane * s.channels + i;
      mean[i] = Moved(mean[i], c.memory(a.mean)[set], a.momentum);
      if (count < 2) continue;  // the variance of one value says nothing
      const auto all = static_cast<double>(count);
      const float moved =
          Moved(variance[i], c.memory(a.variance)[set] * all / (all - 1), a.momentum);
      variance[i] = moved < 0 ? 0.0F : moved;
    }
  }

 private:
  SKEP_HD static float Moved(float running, double now, double momentum) {
    return static_cast<float>((1 - momentum) * static_cast<double>(running) + momentum * now);
  }
};

}  // namespace skep::kernels::body
