// Batch, group and layer norm.
#include "kernels/cuda/grids.h"
#include "kernels/cuda/lane_layers.h"
#include "shared/base/try.h"

namespace skep::kernels {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;

// What each set of a batch is normalised with, and what its gradients need.
struct Sets {
  DevicePtr<double> mean;
  DevicePtr<double> variance;
  DevicePtr<double> means;
  DevicePtr<double> products;
};

std::uint32_t PlacesAsRows(const model::NormLayer& layer) {
  return layer.kind == model::NormLayer::Kind::kLayer ? layer.shape.Pixels() : 1;
}

body::NormShape ShapeFor(const model::NormLayer& layer, std::uint32_t rows) {
  const std::uint32_t unit = PlacesAsRows(layer);
  return {.rows = rows * unit,
          .pixels = layer.shape.Pixels() / unit,
          .channels = layer.shape.channels,
          .groups = layer.kind == model::NormLayer::Kind::kGroup ? layer.groups : 1,
          .is_batch = layer.kind == model::NormLayer::Kind::kBatch ? 1U : 0U,
          .row_unit = unit};
}

class LaneNorm final : public LaneLayer {
 public:
  LaneNorm(const model::NormLayer& layer, const LaneContext& context, const Sets& sets)
      : layer_(layer),
        sets_(sets),
        weight_(context.Offset(layer.weight)),
        bias_(context.Offset(layer.bias)),
        is_batch_(layer.kind == model::NormLayer::Kind::kBatch),
        running_mean_(is_batch_ ? context.Offset(layer.running_mean) : 0),
        running_var_(is_batch_ ? context.Offset(layer.running_var) : 0),
        rectifies_(context.rectify) {}

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    const body::NormShape shape = ShapeFor(layer_, pass.rows);
    SKEP_TRY(queue.Launch<body::NormStatistics>(
        GridOfBlocks(shape.Sets(), shape.Count(pass.rows), sizeof(double), pass.lanes),
        {.x = x.data,
         .active = pass.active,
         .mean = sets_.mean,
         .variance = sets_.variance,
         .shape = shape}));
    return queue.Launch<body::NormApply>(GridFor(Count(shape), pass.lanes),
                                         {.x = x.data,
                                          .y = y.data,
                                          .mean = sets_.mean,
                                          .variance = sets_.variance,
                                          .weight = pass.params + weight_,
                                          .bias = pass.params + bias_,
                                          .stride = pass.params_stride,
                                          .epsilon = kEpsilon,
                                          .rectify = rectifies_ ? 1U : 0U,
                                          .shape = shape});
  }

  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink& sink) override {
    const body::NormShape shape = ShapeFor(layer_, pass.rows);
    if (!back.dx.data.IsNull()) SKEP_TRY(InputGradient(queue, pass, back, shape));
    return queue.Launch<body::NormParameterGradient>(
        GridOfBlocks(shape.channels, std::uint64_t{shape.rows} * shape.pixels, sizeof(double),
                     pass.lanes),
        {.x = back.x.data,
         .dy = back.dy.data,
         .active = pass.active,
         .mean = sets_.mean,
         .variance = sets_.variance,
         .weight = sink.values + weight_,
         .bias = sink.values + bias_,
         .stride = sink.stride,
         .epsilon = kEpsilon,
         .scale = sink.scale,
         .accumulate = sink.accumulate ? 1U : 0U,
         .shape = shape});
  }

  Status EndStep(Queue& queue, const LanePass& pass) override {
    if (!is_batch_) return Ok();
    return queue.Launch<body::NormMove>(GridFor(layer_.shape.channels, pass.lanes),
                                        {.mean = sets_.mean,
                                         .variance = sets_.variance,
                                         .active = pass.active,
                                         .running_mean = pass.params + running_mean_,
                                         .running_var = pass.params + running_var_,
                                         .stride = pass.params_stride,
                                         .momentum = kMomentum,
                                         .shape = ShapeFor(layer_, pass.rows)});
  }

 private:
  static std::uint64_t Count(const body::NormShape& shape) {
    return std::uint64_t{shape.rows} * shape.pixels * shape.channels;
  }

  Status InputGradient(Queue& queue, const LanePass& pass, const LaneBackward& back,
                       const body::NormShape& shape) {
    SKEP_TRY(queue.Launch<body::NormGradientMeans>(
        GridOfBlocks(shape.Sets(), shape.Count(pass.rows), sizeof(double), pass.lanes),
        {.x = back.x.data,
         .dy = back.dy.data,
         .active = pass.active,
         .mean = sets_.mean,
         .variance = sets_.variance,
         .weight = pass.params + weight_,
         .stride = pass.params_stride,
         .means = sets_.means,
         .products = sets_.products,
         .epsilon = kEpsilon,
         .shape = shape}));
    return queue.Launch<body::NormInputGradient>(GridFor(Count(shape), pass.lanes),
                                                 {.x = back.x.data,
                                                  .dy = back.dy.data,
                                                  .dx = back.dx.data,
                                                  .active = pass.active,
                                                  .mean = sets_.mean,
                                                  .variance = sets_.variance,
                                                  .means = sets_.means,
                                                  .products = sets_.products,
                                                  .weight = pass.params + weight_,
                                                  .stride = pass.params_stride,
                                                  .epsilon = kEpsilon,
                                                  .rectify = back.x_is_rectified ? 1U : 0U,
                                                  .shape = shape});
  }

  model::NormLayer layer_;
  Sets sets_;
  std::uint64_t weight_;
  std::uint64_t bias_;
  bool is_batch_;
  std::uint64_t running_mean_;
  std::uint64_t running_var_;
  bool rectifies_;
};

}  // namespace

MadeLaneLayer MakeLaneNorm(const model::NormLayer& layer, const LaneContext& context) {
  Sets sets;
  const std::uint64_t count = std::uint64_t{context.lanes} * ShapeFor(layer, context.rows).Sets();
  for (DevicePtr<double>* of : {&sets.mean, &sets.variance, &sets.means, &sets.products}) {
    SKEP_ASSIGN(*of, context.arena.Make<double>(count, "the statistics of a norm"));
  }
  return std::unique_ptr<LaneLayer>(std::make_unique<LaneNorm>(layer, context, sets));
}

}  // namespace skep::kernels
