// How each kind of layer is made for a device: one .cc file a kind. For MakeLaneLayer alone.
#pragma once

#include <memory>

#include "kernels/cuda/lane_layer.h"

namespace skep::kernels {

using MadeLaneLayer = Result<std::unique_ptr<LaneLayer>>;

[[nodiscard]] MadeLaneLayer MakeLaneDense(const model::DenseLayer&, const LaneContext&);
[[nodiscard]] MadeLaneLayer MakeLaneConvolution(const model::ConvLayer&, const LaneContext&);
[[nodiscard]] MadeLaneLayer MakeLanePool(const model::PoolLayer&, const LaneContext&);
[[nodiscard]] MadeLaneLayer MakeLaneActivation(const model::ActivationLayer&, const LaneContext&);
[[nodiscard]] MadeLaneLayer MakeLaneTranspose(const model::TransposeLayer&, const LaneContext&);
[[nodiscard]] MadeLaneLayer MakeLaneDropout(const model::DropoutLayer&, const LaneContext&);
[[nodiscard]] MadeLaneLayer MakeLaneNorm(const model::NormLayer&, const LaneContext&);
[[nodiscard]] MadeLaneLayer MakeLaneEmbedding(const model::EmbeddingLayer&, const LaneContext&);
[[nodiscard]] MadeLaneLayer MakeLanePositions(const model::PositionsLayer&, const LaneContext&);
[[nodiscard]] MadeLaneLayer MakeLaneRecurrent(const model::RecurrentLayer&, const LaneContext&);
[[nodiscard]] MadeLaneLayer MakeLaneAttention(const model::AttentionLayer&, const LaneContext&);

}  // namespace skep::kernels
