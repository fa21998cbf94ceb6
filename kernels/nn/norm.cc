#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/nn/layers.h"
#include "kernels/point_loops.h"
#include "shared/base/check.h"

namespace skep::kernels {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kStatisticsRate = 0.1;

std::size_t Padded(std::size_t columns) {
  return (columns + kColumnPad - 1) / kColumnPad * kColumnPad;
}

// Places of one or more examples, each with all channels.
struct Places {
  std::size_t count = 0;
  std::size_t stride = 0;
};

// What the loops over columns need of each channel.
struct Columns {
  explicit Columns(std::size_t channels)
      : mean_high(channels),
        mean_low(channels),
        scale(channels),
        slope(channels),
        shift(channels),
        first(Padded(channels)),
        second(Padded(channels)) {}
  void SetMean(std::size_t c, double mean) {
    mean_high[c] = static_cast<float>(mean);
    mean_low[c] = static_cast<float>(mean - static_cast<double>(mean_high[c]));
  }
  std::vector<float> mean_high;
  std::vector<float> mean_low;
  std::vector<float> scale;
  std::vector<float> slope;
  std::vector<float> shift;
  std::vector<double> first;
  std::vector<double> second;
};

// Tensors and loops that every norm has.
class NormBase : public Layer {
 protected:
  NormBase(const model::NormLayer& layer, const LayerContext& context)
      : loops_(PointLoopsFor(context.isa)),
        pixels_(layer.shape.Pixels()),
        channels_(layer.shape.channels),
        weight_(context.Offset(layer.weight)),
        bias_(context.Offset(layer.bias)),
        rectifies_(context.rectify) {}

  // Examples whose places follow each other without gaps, as one.
  [[nodiscard]] Places PlacesOf(std::size_t rows, std::size_t row_stride) const {
    SKEP_CHECK(pixels_ == 1 || row_stride == pixels_ * channels_);
    return {rows * pixels_, pixels_ == 1 ? row_stride : channels_};
  }

  void StoreGradient(const Sink& sink, std::size_t tensor, const double* sums) const {
    loops_.sums_to_gradient({.sums = sums,
                             .count = channels_,
                             .values = sink.values.data() + tensor,
                             .scale = sink.scale,
                             .accumulate = sink.accumulate});
  }

  [[nodiscard]] NormSums SumsOf(const float* x, const Places& places, Columns& columns) const {
    return {.x = x,
            .x_stride = places.stride,
            .dy = nullptr,
            .dy_stride = 0,
            .rows = places.count,
            .columns = channels_,
            .mean_high = columns.mean_high.data(),
            .mean_low = columns.mean_low.data(),
            .first = columns.first.data(),
            .second = columns.second.data()};
  }

  void Apply(const float* x, const Places& in, const Columns& columns, const float* bias, float* y,
             std::size_t y_stride) const {
    loops_.column_norm({.x = x,
                        .x_stride = in.stride,
                        .rows = in.count,
                        .columns = channels_,
                        .mean_high = columns.mean_high.data(),
                        .mean_low = columns.mean_low.data(),
                        .scale = columns.scale.data(),
                        .bias = bias,
                        .y = y,
                        .y_stride = y_stride,
                        .relu = rectifies_});
  }

  struct Gradient {
    const float* dy;
    std::size_t dy_stride;
    float* dx;
    std::size_t dx_stride;
    bool gate;
  };
  void ApplyGradient(const float* x, const Places& in, const Columns& columns,
                     const Gradient& to) const {
    loops_.column_norm_gradient({.dy = to.dy,
                                 .dy_stride = to.dy_stride,
                                 .x = x,
                                 .x_stride = in.stride,
                                 .rows = in.count,
                                 .columns = channels_,
                                 .mean_high = columns.mean_high.data(),
                                 .mean_low = columns.mean_low.data(),
                                 .scale = columns.scale.data(),
                                 .slope = columns.slope.data(),
                                 .shift = columns.shift.data(),
                                 .dx = to.dx,
                                 .dx_stride = to.dx_stride,
                                 .gate = to.gate});
  }

  const PointLoops& loops_;
  std::size_t pixels_;
  std::size_t channels_;
  std::size_t weight_;
  std::size_t bias_;
  bool rectifies_;
};

// One mean a channel, over the batch in training and from the running statistics else.
class BatchNorm final : public NormBase {
 public:
  BatchNorm(const model::NormLayer& layer, const LayerContext& context)
      : NormBase(layer, context),
        running_mean_(context.Offset(layer.running_mean)),
        running_var_(context.Offset(layer.running_var)),
        columns_(channels_),
        mean_(channels_),
        variance_(channels_),
        inverse_(channels_) {}

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    const Places in = PlacesOf(pass.rows, x.stride);
    const float* weight = pass.params.data() + weight_;
    if (pass.is_training) {
      Measure(x.data, in);
    } else {
      TakeRunning(pass.params);
    }
    for (std::size_t c = 0; c < channels_; ++c) {
      inverse_[c] = 1 / std::sqrt(variance_[c] + kEpsilon);
      columns_.SetMean(c, mean_[c]);
      columns_.scale[c] = static_cast<float>(inverse_[c] * static_cast<double>(weight[c]));
    }
    Apply(x.data, in, columns_, pass.params.data() + bias_, y.data,
          PlacesOf(pass.rows, y.stride).stride);
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink& sink) override {
    const Places in = PlacesOf(pass.rows, back.x.stride);
    const std::size_t dy_stride = PlacesOf(pass.rows, back.dy.stride).stride;
    NormSums sums = SumsOf(back.x.data, in, columns_);
    sums.dy = back.dy.data;
    sums.dy_stride = dy_stride;
    loops_.column_products(sums);
    if (back.dx.data != nullptr) {
      SetGradient(pass.params, static_cast<double>(in.count));
      ApplyGradient(back.x.data, in, columns_,
                    {.dy = back.dy.data,
                     .dy_stride = dy_stride,
                     .dx = back.dx.data,
                     .dx_stride = PlacesOf(pass.rows, back.dx.stride).stride,
                     .gate = back.x_is_rectified});
    }
    for (std::size_t c = 0; c < channels_; ++c) columns_.second[c] *= inverse_[c];
    StoreGradient(sink, weight_, columns_.second.data());
    StoreGradient(sink, bias_, columns_.first.data());
    if (sink.accumulate) return;
    std::fill_n(sink.values.data() + running_mean_, channels_, 0.0F);
    std::fill_n(sink.values.data() + running_var_, channels_, 0.0F);
  }

  void EndStep(std::span<float> params) override {
    for (std::size_t c = 0; c < channels_; ++c) {
      Move(params[running_mean_ + c], mean_[c]);
      // The variance of one value says nothing.
      if (measured_ < 2) continue;
      const auto count = static_cast<double>(measured_);
      float& running = params[running_var_ + c];
      Move(running, variance_[c] * count / (count - 1));
      if (running < 0) running = 0;
    }
  }

 private:
  void Measure(const float* x, const Places& in) {
    const NormSums sums = SumsOf(x, in, columns_);
    const auto count = static_cast<double>(in.count);
    measured_ = in.count;
    loops_.column_sums(sums);
    for (std::size_t c = 0; c < channels_; ++c) {
      mean_[c] = columns_.first[c] / count;
      columns_.SetMean(c, mean_[c]);
    }
    loops_.column_squares(sums);
    for (std::size_t c = 0; c < channels_; ++c) variance_[c] = columns_.second[c] / count;
  }

  void TakeRunning(std::span<const float> params) {
    for (std::size_t c = 0; c < channels_; ++c) {
      mean_[c] = static_cast<double>(params[running_mean_ + c]);
      // Below 0 after noise or a server's optimiser.
      const auto running = static_cast<double>(params[running_var_ + c]);
      variance_[c] = running < 0 ? 0 : running;
    }
  }

  // With u = (x - mean) inverse: dx = weight inverse (dy - mean of dy - u mean of dy u).
  void SetGradient(std::span<const float> params, double count) {
    for (std::size_t c = 0; c < channels_; ++c) {
      const double scale = inverse_[c] * static_cast<double>(params[weight_ + c]);
      const double slope = -scale * columns_.second[c] * inverse_[c] * inverse_[c] / count;
      const double shift = -scale * columns_.first[c] / count;
      // A single value is its own mean, whatever it is.
      const bool is_free = measured_ > 1;
      columns_.scale[c] = is_free ? static_cast<float>(scale) : 0;
      columns_.slope[c] = is_free ? static_cast<float>(slope) : 0;
      columns_.shift[c] = is_free ? static_cast<float>(shift) : 0;
    }
  }

  static void Move(float& running, double measured) {
    running = static_cast<float>((1 - kStatisticsRate) * static_cast<double>(running) +
                                 kStatisticsRate * measured);
  }

  std::size_t running_mean_;
  std::size_t running_var_;
  std::size_t measured_ = 0;  // values of a channel in the last batch of training
  Columns columns_;
  std::vector<double> mean_;
  std::vector<double> variance_;
  std::vector<double> inverse_;
};

// One mean a group of channels of an example.
class GroupNorm final : public NormBase {
 public:
  GroupNorm(const model::NormLayer& layer, const LayerContext& context)
      : NormBase(layer, context),
        groups_(layer.groups),
        group_channels_(channels_ / groups_),
        columns_(channels_),
        groups_of_batch_(context.capacity * groups_),
        weight_sums_(Padded(channels_)),
        bias_sums_(Padded(channels_)) {}

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    const float* weight = pass.params.data() + weight_;
    for (std::size_t r = 0; r < pass.rows; ++r) {
      const float* in = x.data + r * x.stride;
      Measure(in, r);
      ForEachChannel(r, [&](const Group& group, std::size_t c) {
        columns_.scale[c] = static_cast<float>(group.inverse * static_cast<double>(weight[c]));
      });
      Apply(in, Example(), columns_, pass.params.data() + bias_, y.data + r * y.stride, channels_);
    }
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink& sink) override {
    std::fill(weight_sums_.begin(), weight_sums_.end(), 0.0);
    std::fill(bias_sums_.begin(), bias_sums_.end(), 0.0);
    const float* weight = pass.params.data() + weight_;
    for (std::size_t r = 0; r < pass.rows; ++r) {
      const float* x = back.x.data + r * back.x.stride;
      const float* dy = back.dy.data + r * back.dy.stride;
      SetMeans(r);
      NormSums sums = SumsOf(x, Example(), columns_);
      sums.dy = dy;
      sums.dy_stride = channels_;
      loops_.column_products(sums);
      ForEachChannel(r, [&](const Group& group, std::size_t c) {
        weight_sums_[c] += columns_.second[c] * group.inverse;
        bias_sums_[c] += columns_.first[c];
      });
      if (back.dx.data == nullptr) continue;
      for (std::size_t g = 0; g < groups_; ++g) SetGradient(weight, r, g);
      ApplyGradient(x, Example(), columns_,
                    {.dy = dy,
                     .dy_stride = channels_,
                     .dx = back.dx.data + r * back.dx.stride,
                     .dx_stride = channels_,
                     .gate = back.x_is_rectified});
    }
    StoreGradient(sink, weight_, weight_sums_.data());
    StoreGradient(sink, bias_, bias_sums_.data());
  }

 private:
  struct Group {
    double mean;
    double inverse;
  };

  [[nodiscard]] Places Example() const { return {pixels_, channels_}; }
  [[nodiscard]] double Values() const { return static_cast<double>(pixels_ * group_channels_); }
  // visit(group, channel) for the channels of an example.
  template <class Visit>
  void ForEachChannel(std::size_t row, const Visit& visit) {
    for (std::size_t g = 0; g < groups_; ++g) {
      const Group& group = groups_of_batch_[row * groups_ + g];
      const std::size_t begin = g * group_channels_;
      for (std::size_t c = begin; c < begin + group_channels_; ++c) visit(group, c);
    }
  }
  [[nodiscard]] double SumOfGroup(const std::vector<double>& values, std::size_t group) const {
    double sum = 0;
    const std::size_t begin = group * group_channels_;
    for (std::size_t c = begin; c < begin + group_channels_; ++c) sum += values[c];
    return sum;
  }

  void SetMeans(std::size_t row) {
    ForEachChannel(row,
                   [&](const Group& group, std::size_t c) { columns_.SetMean(c, group.mean); });
  }

  // Leaves the means in columns_.
  void Measure(const float* x, std::size_t row) {
    const NormSums sums = SumsOf(x, Example(), columns_);
    Group* groups = &groups_of_batch_[row * groups_];
    loops_.column_sums(sums);
    for (std::size_t g = 0; g < groups_; ++g) {
      groups[g].mean = SumOfGroup(columns_.first, g) / Values();
    }
    SetMeans(row);
    loops_.column_squares(sums);
    for (std::size_t g = 0; g < groups_; ++g) {
      groups[g].inverse = 1 / std::sqrt(SumOfGroup(columns_.second, g) / Values() + kEpsilon);
    }
  }

  // With g = dy weight and u = (x - mean) inverse: dx = inverse (g - mean of g - u mean of g u).
  void SetGradient(const float* weight, std::size_t row, std::size_t group) {
    const std::size_t begin = group * group_channels_;
    // A single value is its own mean, whatever it is: no gradient, not even of rounding.
    const bool is_free = pixels_ * group_channels_ > 1;
    const double inverse = is_free ? groups_of_batch_[row * groups_ + group].inverse : 0;
    double sum = 0;
    double product = 0;
    for (std::size_t c = begin; c < begin + group_channels_; ++c) {
      const auto w = static_cast<double>(weight[c]);
      sum += w * columns_.first[c];
      product += w * columns_.second[c] * inverse;
      columns_.scale[c] = static_cast<float>(inverse * w);
    }
    const auto slope = static_cast<float>(-inverse * inverse * product / Values());
    const auto shift = static_cast<float>(-inverse * sum / Values());
    std::fill_n(columns_.slope.data() + begin, group_channels_, slope);
    std::fill_n(columns_.shift.data() + begin, group_channels_, shift);
  }

  std::size_t groups_;
  std::size_t group_channels_;
  Columns columns_;
  std::vector<Group> groups_of_batch_;
  std::vector<double> weight_sums_;
  std::vector<double> bias_sums_;
};

// One mean a place.
class PlaceNorm final : public NormBase {
 public:
  PlaceNorm(const model::NormLayer& layer, const LayerContext& context)
      : NormBase(layer, context),
        moments_(context.capacity * pixels_),
        weight_sums_(Padded(channels_)),
        bias_sums_(Padded(channels_)) {}

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    const Places in = PlacesOf(pass.rows, x.stride);
    loops_.row_norm({.x = x.data,
                     .x_stride = in.stride,
                     .rows = in.count,
                     .columns = channels_,
                     .weight = pass.params.data() + weight_,
                     .bias = pass.params.data() + bias_,
                     .epsilon = kEpsilon,
                     .moments = moments_.data(),
                     .y = y.data,
                     .y_stride = PlacesOf(pass.rows, y.stride).stride,
                     .relu = rectifies_});
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink& sink) override {
    const Places in = PlacesOf(pass.rows, back.x.stride);
    const bool is_asked = back.dx.data != nullptr;
    loops_.row_norm_gradient(
        {.dy = back.dy.data,
         .dy_stride = PlacesOf(pass.rows, back.dy.stride).stride,
         .x = back.x.data,
         .x_stride = in.stride,
         .rows = in.count,
         .columns = channels_,
         .weight = pass.params.data() + weight_,
         .moments = moments_.data(),
         .dx = back.dx.data,
         .dx_stride = is_asked ? PlacesOf(pass.rows, back.dx.stride).stride : 0,
         .gate = back.x_is_rectified,
         .weight_sums = weight_sums_.data(),
         .bias_sums = bias_sums_.data()});
    StoreGradient(sink, weight_, weight_sums_.data());
    StoreGradient(sink, bias_, bias_sums_.data());
  }

 private:
  std::vector<Moments> moments_;
  std::vector<double> weight_sums_;
  std::vector<double> bias_sums_;
};

}  // namespace

std::unique_ptr<Layer> MakeNorm(const model::NormLayer& layer, const LayerContext& context) {
  if (layer.kind == model::NormLayer::Kind::kBatch) {
    return std::make_unique<BatchNorm>(layer, context);
  }
  // One group of all channels of a single place is that place.
  const bool is_place = layer.kind == model::NormLayer::Kind::kLayer ||
                        (layer.groups == 1 && layer.shape.Pixels() == 1);
  if (is_place) return std::make_unique<PlaceNorm>(layer, context);
  return std::make_unique<GroupNorm>(layer, context);
}

}  // namespace skep::kernels
