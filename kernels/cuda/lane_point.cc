// Layers whose values do not mix: activation, transposition, dropout, positions, embedding.
#include <cmath>

#include "kernels/cuda/grids.h"
#include "kernels/cuda/lane_layers.h"
#include "shared/base/check.h"
#include "shared/base/try.h"

namespace skep::kernels {
namespace {

std::uint64_t CountOf(const LanePass& pass, const model::Shape& shape) {
  return std::uint64_t{pass.lanes} * pass.rows * shape.Values();
}

DevicePtr<const float> GateOf(const LaneBackward& back) {
  return back.x_is_rectified ? DevicePtr<const float>(back.x.data) : DevicePtr<const float>{};
}

std::uint32_t CurveOf(model::Activation kind) {
  switch (kind) {
    case model::Activation::kRelu:
      return body::kReluCurve;
    case model::Activation::kTanh:
      return body::kTanhCurve;
    case model::Activation::kSigmoid:
      return body::kSigmoidCurve;
    case model::Activation::kGelu:
      break;
  }
  return body::kGeluCurve;
}

class LaneActivation final : public LaneLayer {
 public:
  explicit LaneActivation(const model::ActivationLayer& layer)
      : shape_(layer.shape), kind_(CurveOf(layer.kind)) {}

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    const std::uint64_t count = CountOf(pass, shape_);
    return queue.Launch<body::Activate>(GridFor(count),
                                        {.x = x.data, .y = y.data, .count = count, .kind = kind_});
  }
  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink&) override {
    if (back.dx.data.IsNull()) return Ok();
    const std::uint64_t count = CountOf(pass, shape_);
    return queue.Launch<body::ActivateGradient>(GridFor(count),
                                                {.x = back.x.data,
                                                 .y = back.y.data,
                                                 .dy = back.dy.data,
                                                 .dx = back.dx.data,
                                                 .count = count,
                                                 .kind = kind_,
                                                 .rectify = back.x_is_rectified ? 1U : 0U});
  }

 private:
  model::Shape shape_;
  std::uint32_t kind_;
};

class LaneTranspose final : public LaneLayer {
 public:
  explicit LaneTranspose(const model::TransposeLayer& layer)
      : m_(layer.to_channel_last ? layer.channels : layer.pixels),
        n_(layer.to_channel_last ? layer.pixels : layer.channels) {}

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    return Put(queue, pass, {.x = x.data, .y = y.data, .gate = {}, .rows = 0, .m = m_, .n = n_});
  }
  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink&) override {
    if (back.dx.data.IsNull()) return Ok();
    return Put(
        queue, pass,
        {.x = back.dy.data, .y = back.dx.data, .gate = GateOf(back), .rows = 0, .m = n_, .n = m_});
  }

 private:
  static Status Put(Queue& queue, const LanePass& pass, body::Transpose::Args args) {
    args.rows = std::uint64_t{pass.lanes} * pass.rows;
    return queue.Launch<body::Transpose>(GridFor(args.rows * args.m * args.n), args);
  }

  std::uint32_t m_;
  std::uint32_t n_;
};

class LaneDropout final : public LaneLayer {
 public:
  explicit LaneDropout(const model::DropoutLayer& layer)
      : shape_(layer.shape),
        index_(layer.index),
        threshold_(static_cast<std::uint32_t>(std::ceil(layer.probability * 0x1p24))),
        factor_(static_cast<float>(1 / (1 - layer.probability))) {}

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    return Put(queue, pass, x.data, y.data, {});
  }
  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink&) override {
    if (back.dx.data.IsNull()) return Ok();
    return Put(queue, pass, back.dy.data, back.dx.data, GateOf(back));
  }

 private:
  Status Put(Queue& queue, const LanePass& pass, DevicePtr<const float> x, DevicePtr<float> y,
             DevicePtr<const float> gate) const {
    const std::uint64_t count = std::uint64_t{pass.rows} * shape_.Values();
    return queue.Launch<body::Drop>(GridFor((count + 3) / 4, pass.lanes), {.x = x,
                                                                           .y = y,
                                                                           .gate = gate,
                                                                           .keys = pass.step_keys,
                                                                           .count = count,
                                                                           .layer = index_,
                                                                           .threshold = threshold_,
                                                                           .factor = factor_});
  }

  model::Shape shape_;
  std::uint32_t index_;
  std::uint32_t threshold_;
  float factor_;
};

class LanePositions final : public LaneLayer {
 public:
  LanePositions(const model::PositionsLayer& layer, const LaneContext& context)
      : values_(layer.length * layer.features), weight_(context.Offset(layer.weight)) {}

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    return queue.Launch<body::AddPositions>(GridFor(std::uint64_t{pass.rows} * values_, pass.lanes),
                                            {.x = x.data,
                                             .y = y.data,
                                             .weight = pass.params + weight_,
                                             .weight_stride = pass.params_stride,
                                             .rows = pass.rows,
                                             .values = values_});
  }
  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink& sink) override {
    const std::uint64_t count = std::uint64_t{pass.lanes} * pass.rows * values_;
    if (!back.dx.data.IsNull()) {
      SKEP_TRY(queue.device().CopyWithin(queue.stream(), back.dx.data.address, back.dy.data.address,
                                         count * sizeof(float)));
    }
    if (!back.dx.data.IsNull() && back.x_is_rectified) {
      SKEP_TRY(queue.Launch<body::RectifyGradient>(
          GridFor(count), {.x = back.x.data, .dx = back.dx.data, .count = count}));
    }
    return queue.Launch<body::SumRows>(GridFor(values_, pass.lanes),
                                       {.x = back.dy.data,
                                        .to = sink.values + weight_,
                                        .to_stride = sink.stride,
                                        .rows = pass.rows,
                                        .width = values_,
                                        .columns = values_,
                                        .accumulate = sink.accumulate ? 1U : 0U,
                                        .scale = sink.scale});
  }

 private:
  std::uint32_t values_;
  std::uint64_t weight_;
};

class LaneEmbedding final : public LaneLayer {
 public:
  LaneEmbedding(const model::EmbeddingLayer& layer, const LaneContext& context)
      : layer_(layer), weight_(context.Offset(layer.weight)) {}

  Status Forward(Queue& queue, const LanePass& pass, LaneRows x, LaneRows y) override {
    const std::uint64_t places = std::uint64_t{pass.rows} * layer_.length;
    return queue.Launch<body::Embed>(GridFor(places * layer_.features, pass.lanes),
                                     {.x = x.data,
                                      .y = y.data,
                                      .weight = pass.params + weight_,
                                      .weight_stride = pass.params_stride,
                                      .places = places,
                                      .symbols = layer_.symbols,
                                      .features = layer_.features});
  }
  Status Backward(Queue& queue, const LanePass& pass, const LaneBackward& back,
                  const LaneSink& sink) override {
    SKEP_CHECK(back.dx.data.IsNull());  // it is the first layer
    return queue.Launch<body::EmbedGradient>(
        GridFor(std::uint64_t{layer_.symbols} * layer_.features, pass.lanes),
        {.x = back.x.data,
         .dy = back.dy.data,
         .to = sink.values + weight_,
         .to_stride = sink.stride,
         .places = std::uint64_t{pass.rows} * layer_.length,
         .symbols = layer_.symbols,
         .features = layer_.features,
         .accumulate = sink.accumulate ? 1U : 0U,
         .scale = sink.scale});
  }

 private:
  model::EmbeddingLayer layer_;
  std::uint64_t weight_;
};

}  // namespace

MadeLaneLayer MakeLaneActivation(const model::ActivationLayer& layer, const LaneContext&) {
  return std::unique_ptr<LaneLayer>(std::make_unique<LaneActivation>(layer));
}
MadeLaneLayer MakeLaneTranspose(const model::TransposeLayer& layer, const LaneContext&) {
  return std::unique_ptr<LaneLayer>(std::make_unique<LaneTranspose>(layer));
}
MadeLaneLayer MakeLaneDropout(const model::DropoutLayer& layer, const LaneContext&) {
  return std::unique_ptr<LaneLayer>(std::make_unique<LaneDropout>(layer));
}
MadeLaneLayer MakeLanePositions(const model::PositionsLayer& layer, const LaneContext& context) {
  return std::unique_ptr<LaneLayer>(std::make_unique<LanePositions>(layer, context));
}
MadeLaneLayer MakeLaneEmbedding(const model::EmbeddingLayer& layer, const LaneContext& context) {
  return std::unique_ptr<LaneLayer>(std::make_unique<LaneEmbedding>(layer, context));
}

}  // namespace skep::kernels
