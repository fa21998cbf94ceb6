// How each kind of layer is made: one .cc file a kind. For MakeLayer alone.
#pragma once

#include <memory>

#include "kernels/nn/layer.h"

namespace skep::kernels {

[[nodiscard]] std::unique_ptr<Layer> MakeDense(const model::DenseLayer&, const LayerContext&);
[[nodiscard]] std::unique_ptr<Layer> MakeConvolution(const model::ConvLayer&, const LayerContext&);
[[nodiscard]] std::unique_ptr<Layer> MakePool(const model::PoolLayer&, const LayerContext&);
[[nodiscard]] std::unique_ptr<Layer> MakeActivation(const model::ActivationLayer&,
                                                    const LayerContext&);
[[nodiscard]] std::unique_ptr<Layer> MakeTranspose(const model::TransposeLayer&,
                                                   const LayerContext&);
[[nodiscard]] std::unique_ptr<Layer> MakeDropout(const model::DropoutLayer&, const LayerContext&);
[[nodiscard]] std::unique_ptr<Layer> MakeNorm(const model::NormLayer&, const LayerContext&);
[[nodiscard]] std::unique_ptr<Layer> MakeEmbedding(const model::EmbeddingLayer&,
                                                   const LayerContext&);
[[nodiscard]] std::unique_ptr<Layer> MakePositions(const model::PositionsLayer&,
                                                   const LayerContext&);
[[nodiscard]] std::unique_ptr<Layer> MakeRecurrent(const model::RecurrentLayer&,
                                                   const LayerContext&);
[[nodiscard]] std::unique_ptr<Layer> MakeAttention(const model::AttentionLayer&,
                                                   const LayerContext&);

}  // namespace skep::kernels
