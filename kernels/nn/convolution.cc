#include <algorithm>
#include <vector>

#include "kernels/conv_loops.h"
#include "kernels/nn/layers.h"
#include "shared/model/params.h"

namespace skep::kernels {
namespace {

// Zeros around an image, in places.
struct Border {
  std::size_t above = 0;
  std::size_t below = 0;
  std::size_t left = 0;
  std::size_t right = 0;
  [[nodiscard]] bool IsNone() const { return above + below + left + right == 0; }
};

// A copy of one image with its border, each channel `repeats` times; the image itself where that is
// the same.
class BorderedImage {
 public:
  BorderedImage() = default;
  BorderedImage(const model::Shape& image, const Border& border, std::size_t repeats)
      : image_(image),
        repeats_(repeats),
        row_((border.left + image.width + border.right) * image.channels * repeats),
        first_(border.above * row_ + border.left * image.channels * repeats) {
    if (repeats > 1 || !border.IsNone()) {
      copy_.resize((border.above + image.height + border.below) * row_);  // zeros
    }
  }

  [[nodiscard]] std::size_t row() const { return row_; }  // floats from one row to the next

  // The first float of the image's border.
  const float* Of(const float* image) {
    if (copy_.empty()) return image;
    const std::size_t width = image_.width * std::size_t{image_.channels};
    for (std::size_t i = 0; i < image_.height; ++i, image += width) {
      float* to = copy_.data() + first_ + i * row_;
      if (repeats_ == 1) {
        std::copy_n(image, width, to);
      } else {
        for (std::size_t k = 0; k < width; ++k, to += repeats_) std::fill_n(to, repeats_, image[k]);
      }
    }
    return copy_.data();
  }

 private:
  model::Shape image_;
  std::size_t repeats_ = 1;
  std::size_t row_ = 0;
  std::size_t first_ = 0;
  model::FloatVector copy_;
};

// A correlation over a part of an image: some channels, or every stride-th place.
struct Part {
  Correlation geometry{};  // without its pointers
  ConvWeightPlaces places{};
  std::size_t weight = 0;  // first of its floats in the layer's tensor,
  std::size_t bias = 0;    // in the bias,
  std::size_t packed = 0;  // in the packed weights,
  std::size_t x = 0;       // in what it reads
  std::size_t y = 0;       // and in what it writes
};

// One axis of the gradient of the input, at the positions first, first + stride, ...: taps
// `last_tap`, last_tap - stride, ... meet dy from `from`, which may lie before its start.
struct Phase {
  std::size_t first;
  std::size_t count;
  std::size_t taps;
  std::size_t last_tap;
  std::ptrdiff_t from;
};

std::vector<Phase> PhasesOf(std::size_t size, std::size_t kernel, std::size_t pad,
                            std::size_t stride) {
  std::vector<Phase> phases;
  for (std::size_t first = 0; first < std::min(stride, size); ++first) {
    const std::size_t lowest_tap = (first + pad) % stride;
    const std::size_t taps =
        lowest_tap < kernel ? (kernel - 1 - lowest_tap) / stride + 1 : std::size_t{0};
    phases.push_back({.first = first,
                      .count = (size - 1 - first) / stride + 1,
                      .taps = taps,
                      .last_tap = taps == 0 ? 0 : lowest_tap + stride * (taps - 1),
                      .from = static_cast<std::ptrdiff_t>((first + pad) / stride) + 1 -
                              static_cast<std::ptrdiff_t>(taps)});
  }
  return phases;
}

struct Margins {
  std::size_t before = 0;
  std::size_t after = 0;
};

// Zeros that all phases need around an axis of dy of `size` places.
Margins MarginsOf(const std::vector<Phase>& phases, std::size_t size) {
  Margins margins;
  for (const Phase& phase : phases) {
    if (phase.taps == 0) continue;
    const auto end = phase.from + static_cast<std::ptrdiff_t>(phase.count + phase.taps - 1);
    margins.before = std::max(margins.before,
                              static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, -phase.from)));
    margins.after = std::max(margins.after, static_cast<std::size_t>(std::max<std::ptrdiff_t>(
                                                0, end - static_cast<std::ptrdiff_t>(size))));
  }
  return margins;
}

// Where every place is a product of its own, one row of places will do.
model::ConvLayer InOneRowIfPointwise(model::ConvLayer layer) {
  if (layer.kernel_height == 1 && layer.kernel_width == 1 && layer.stride == 1) {
    layer.in.width = layer.in.Pixels();
    layer.out.width = layer.out.Pixels();
    layer.in.height = 1;
    layer.out.height = 1;
  }
  return layer;
}

// Image by image, over packed weights and a copy of the image with its border. A group is a part of
// its own; a depthwise layer is one part, over an image whose channels are repeated to be as many
// as the outputs.
class Convolution final : public Layer {
 public:
  Convolution(const model::ConvLayer& layer, const LayerContext& context)
      : loops_(ConvLoopsFor(context.isa)),
        layer_(InOneRowIfPointwise(layer)),
        weight_(context.Offset(layer.weight)),
        bias_(layer.has_bias ? context.Offset(layer.bias) : 0),
        rectifies_(context.rectify),
        is_depthwise_(layer.groups > 1 && layer.groups == layer.in.channels),
        repeats_(is_depthwise_ ? layer.out.channels / layer.in.channels : 1),
        channels_(layer.in.channels * repeats_) {
    const std::size_t groups = is_depthwise_ ? 1 : layer_.groups;
    group_inputs_ = is_depthwise_ ? 1 : layer_.in.channels / groups;
    group_outputs_ = layer_.out.channels / groups;
    x_ = BorderedImage(layer_.in,
                       {.above = layer_.pad_height,
                        .below = layer_.pad_height,
                        .left = layer_.pad_width,
                        .right = layer_.pad_width},
                       repeats_);
    for (std::size_t g = 0; g < groups; ++g) AddForward(g);
    sums_.resize(PackedEnd(forward_));
    bias_sums_.resize(RoundUp(layer_.out.channels));
    AddBackward(groups);
    packed_.resize(std::max(PackedEnd(forward_), PackedEnd(backward_)));
    if (repeats_ > 1) repeated_dx_.resize(std::size_t{layer_.in.Pixels()} * channels_);
  }

  void Forward(const Pass& pass, ConstRows x, Rows y) override {
    PackAll(forward_, pass);
    const float* bias = layer_.has_bias ? pass.params.data() + bias_ : nullptr;
    for (std::size_t r = 0; r < pass.rows; ++r) {
      const float* image = x_.Of(x.data + r * x.stride);
      for (const Part& part : forward_) {
        Correlation op = part.geometry;
        op.x = image + part.x;
        op.weights = packed_.data() + part.packed;
        op.bias = bias == nullptr ? nullptr : bias + part.bias;
        op.y = y.data + r * y.stride + part.y;
        op.relu = rectifies_;
        Correlate(op);
      }
    }
  }

  void Backward(const Pass& pass, const BackwardPass& back, const Sink& sink) override {
    if (back.dx.data != nullptr) PackAll(backward_, pass);
    for (std::size_t r = 0; r < pass.rows; ++r) {
      const float* dy = back.dy.data + r * back.dy.stride;
      const float* x = back.x.data + r * back.x.stride;
      AddSums(x, dy, r == 0);
      if (back.dx.data != nullptr) {
        InputGradient(dy, back.x_is_rectified ? x : nullptr, back.dx.data + r * back.dx.stride);
      }
    }
    UnpackAll(sink);
  }

 private:
  [[nodiscard]] std::size_t RoundUp(std::size_t floats) const {
    return (floats + loops_.lanes - 1) / loops_.lanes * loops_.lanes;
  }

  // Floats of the packed weights of all `parts`.
  [[nodiscard]] std::size_t PackedEnd(const std::vector<Part>& parts) const {
    if (parts.empty()) return 0;
    const ConvWeightPlaces& last = parts.back().places;
    return parts.back().packed + last.rows * last.columns * last.inputs * RoundUp(last.outputs);
  }

  // What the parts of both directions have in common, but for what they read and write.
  void FinishPart(Part& part, std::vector<Part>& parts) const {
    ConvTaps& taps = part.geometry.taps;
    part.geometry.outputs = part.places.outputs;
    taps.tap_rows = part.places.rows;
    taps.tap_columns = part.places.columns;
    taps.tap_column = part.geometry.x_column;
    taps.depth = part.places.inputs;
    part.geometry.panel = is_depthwise_ ? RoundUp(part.places.outputs) / loops_.lanes
                                        : loops_.panel(part.geometry.columns, part.places.outputs);
    part.packed = PackedEnd(parts);
    parts.push_back(part);
  }

  // A run of taps of a row is one piece of memory, if all its channels count.
  static void JoinColumns(Part& part, std::size_t channels) {
    ConvTaps& taps = part.geometry.taps;
    if (taps.depth != channels) return;
    taps.depth *= taps.tap_columns;
    taps.tap_columns = 1;
  }

  void AddForward(std::size_t group) {
    const auto height = static_cast<std::ptrdiff_t>(layer_.kernel_height);
    const auto width = static_cast<std::ptrdiff_t>(layer_.kernel_width);
    const auto inputs = static_cast<std::ptrdiff_t>(group_inputs_);
    Part part;
    part.places = {.rows = layer_.kernel_height,
                   .columns = layer_.kernel_width,
                   .inputs = group_inputs_,
                   .outputs = group_outputs_,
                   .row = width,
                   .column = 1,
                   .input = height * width,
                   .output = inputs * height * width};
    part.weight =
        group * group_outputs_ * group_inputs_ * layer_.kernel_height * layer_.kernel_width;
    part.bias = group * group_outputs_;
    part.x = group * group_inputs_;
    part.y = group * group_outputs_;
    part.geometry.rows = layer_.out.height;
    part.geometry.columns = layer_.out.width;
    part.geometry.x_row = layer_.stride * x_.row();
    part.geometry.x_column = channels_;
    part.geometry.taps.tap_row = x_.row();
    part.geometry.y_column = layer_.out.channels;
    part.geometry.y_row = layer_.out.width * std::size_t{layer_.out.channels};
    FinishPart(part, forward_);
    // Taps lie a place apart, results `stride` of them.
    forward_.back().geometry.x_column = layer_.stride * channels_;
    JoinColumns(forward_.back(), channels_);
  }

  // The gradient of the input is a correlation over dy with the weights turned round. With a
  // stride, positions that are a multiple of it apart meet the same taps: each phase is one with
  // stride 1.
  void AddBackward(std::size_t groups) {
    const auto rows =
        PhasesOf(layer_.in.height, layer_.kernel_height, layer_.pad_height, layer_.stride);
    const auto columns =
        PhasesOf(layer_.in.width, layer_.kernel_width, layer_.pad_width, layer_.stride);
    const Margins vertical = MarginsOf(rows, layer_.out.height);
    const Margins horizontal = MarginsOf(columns, layer_.out.width);
    dy_ = BorderedImage(layer_.out,
                        {.above = vertical.before,
                         .below = vertical.after,
                         .left = horizontal.before,
                         .right = horizontal.after},
                        1);
    for (const Phase& row : rows) {
      for (const Phase& column : columns) {
        if (row.taps * column.taps == 0) {
          leaves_places_ = true;
          continue;
        }
        const auto above = row.from + static_cast<std::ptrdiff_t>(vertical.before);
        const auto left = column.from + static_cast<std::ptrdiff_t>(horizontal.before);
        const std::size_t x = static_cast<std::size_t>(above) * dy_.row() +
                              static_cast<std::size_t>(left) * layer_.out.channels;
        for (std::size_t g = 0; g < groups; ++g) AddPhase(row, column, g, x);
      }
    }
  }

  void AddPhase(const Phase& row, const Phase& column, std::size_t group, std::size_t x) {
    const auto height = static_cast<std::ptrdiff_t>(layer_.kernel_height);
    const auto width = static_cast<std::ptrdiff_t>(layer_.kernel_width);
    const auto stride = static_cast<std::ptrdiff_t>(layer_.stride);
    const std::size_t inputs = is_depthwise_ ? channels_ : group_inputs_;
    Part part;
    part.places = {.rows = row.taps,
                   .columns = column.taps,
                   .inputs = is_depthwise_ ? 1 : group_outputs_,
                   .outputs = inputs,
                   .row = -stride * width,
                   .column = -stride,
                   .input = static_cast<std::ptrdiff_t>(group_inputs_) * height * width,
                   .output = height * width};
    part.weight = (group * group_outputs_ * group_inputs_ * layer_.kernel_height + row.last_tap) *
                      layer_.kernel_width +
                  column.last_tap;
    part.x = x + group * group_outputs_;
    part.y = (row.first * layer_.in.width + column.first) * channels_ + group * inputs;
    part.geometry.rows = row.count;
    part.geometry.columns = column.count;
    part.geometry.x_row = dy_.row();
    part.geometry.x_column = layer_.out.channels;
    part.geometry.taps.tap_row = dy_.row();
    part.geometry.y_row = channels_ * layer_.in.width * layer_.stride;
    part.geometry.y_column = layer_.stride * channels_;
    FinishPart(part, backward_);
    JoinColumns(backward_.back(), layer_.out.channels);
  }

  void Correlate(const Correlation& op) const {
    if (is_depthwise_) {
      loops_.correlate_depthwise(op);
    } else {
      loops_.correlate(op);
    }
  }

  void PackAll(const std::vector<Part>& parts, const Pass& pass) {
    for (const Part& part : parts) {
      loops_.pack({.weights = pass.params.data() + weight_ + part.weight,
                   .places = part.places,
                   .panel = part.geometry.panel,
                   .packed = packed_.data() + part.packed});
    }
  }

  void UnpackAll(const Sink& sink) const {
    for (const Part& part : forward_) {
      loops_.unpack({.sums = sums_.data() + part.packed,
                     .places = part.places,
                     .weights = sink.values.data() + weight_ + part.weight,
                     .scale = sink.scale,
                     .accumulate = sink.accumulate});
    }
    if (!layer_.has_bias) return;
    loops_.unpack({.sums = bias_sums_.data(),
                   .places = {.rows = 1,
                              .columns = 1,
                              .inputs = 1,
                              .outputs = layer_.out.channels,
                              .row = 0,
                              .column = 0,
                              .input = 0,
                              .output = 1},
                   .weights = sink.values.data() + bias_,
                   .scale = sink.scale,
                   .accumulate = sink.accumulate});
  }

  void AddSums(const float* x, const float* dy, bool is_first) {
    const float* image = x_.Of(x);
    for (const Part& part : forward_) {
      const Correlation& geometry = part.geometry;
      const ConvSums op{.x = image + part.x,
                        .x_row = geometry.x_row,
                        .x_column = geometry.x_column,
                        .taps = geometry.taps,
                        .dy = dy + part.y,
                        .dy_row = geometry.y_row,
                        .dy_column = geometry.y_column,
                        .rows = geometry.rows,
                        .columns = geometry.columns,
                        .outputs = geometry.outputs,
                        .sums = sums_.data() + part.packed,
                        .is_first = is_first};
      if (is_depthwise_) {
        loops_.sums_depthwise(op);
      } else {
        loops_.sums(op);
      }
    }
    if (!layer_.has_bias) return;
    loops_.bias_sums({.dy = dy,
                      .places = layer_.out.Pixels(),
                      .outputs = layer_.out.channels,
                      .sums = bias_sums_.data(),
                      .is_first = is_first});
  }

  void InputGradient(const float* dy, const float* gate, float* dx) {
    const float* image = dy_.Of(dy);
    float* to = repeats_ == 1 ? dx : repeated_dx_.data();
    const std::size_t floats = std::size_t{layer_.in.Pixels()} * channels_;
    if (leaves_places_) std::fill_n(to, floats, 0.0F);
    for (const Part& part : backward_) {
      Correlation op = part.geometry;
      op.x = image + part.x;
      op.weights = packed_.data() + part.packed;
      op.y = to + part.y;
      op.gate = gate == nullptr || repeats_ > 1 ? nullptr : gate + part.y;
      Correlate(op);
    }
    if (repeats_ > 1) SumRepeats(gate, dx);
  }

  void SumRepeats(const float* gate, float* dx) const {
    const float* from = repeated_dx_.data();
    for (std::size_t i = 0; i < layer_.in.Values(); ++i, from += repeats_) {
      float sum = 0;
      for (std::size_t k = 0; k < repeats_; ++k) sum += from[k];
      dx[i] = gate == nullptr || gate[i] > 0 ? sum : 0;
    }
  }

  const ConvLoops& loops_;
  model::ConvLayer layer_;
  std::size_t weight_;
  std::size_t bias_;
  bool rectifies_;
  bool is_depthwise_;     // each output has one channel of its own
  std::size_t repeats_;   // outputs of a channel of a depthwise layer; else 1
  std::size_t channels_;  // of x_
  std::size_t group_inputs_ = 1;
  std::size_t group_outputs_ = 1;
  BorderedImage x_;
  BorderedImage dy_;
  std::vector<Part> forward_;
  std::vector<Part> backward_;
  bool leaves_places_ = false;  // some positions of the input meet no tap
  model::FloatVector packed_;   // weights, for one direction at a time
  model::FloatVector sums_;     // their gradient, in the order of the forward pass
  model::FloatVector bias_sums_;
  model::FloatVector repeated_dx_;
};

}  // namespace

std::unique_ptr<Layer> MakeConvolution(const model::ConvLayer& layer, const LayerContext& context) {
  return std::make_unique<Convolution>(layer, context);
}

}  // namespace skep::kernels
