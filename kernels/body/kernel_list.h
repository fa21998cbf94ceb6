// All kernels. A kernel's number is its place here, the same for programs and for libskep-cuda.so,
// which are built together.
#pragma once

#include "kernels/body/batch_body.h"
#include "kernels/body/dense_body.h"
#include "kernels/body/image_body.h"
#include "kernels/body/kernel.h"
#include "kernels/body/loss_body.h"
#include "kernels/body/norm_body.h"
#include "kernels/body/optimiser_body.h"
#include "kernels/body/point_body.h"
#include "kernels/body/sequence_body.h"
#include "kernels/body/shortcut_body.h"

namespace skep::kernels {

using Kernels =
    KernelPack<body::GatherHeads, body::GatherInputs, body::Advance,                      //
               body::AddBias, body::SumRows, body::RectifyGradient,                       //
               body::CountLabels, body::LossGradient, body::AddLoss,                      //
               body::ClipScale, body::SgdStep, body::AdamStep,                            //
               body::AddShortcut, body::KeepShortcutGradient, body::AddShortcutGradient,  //
               body::Activate, body::ActivateGradient, body::Transpose, body::Drop,       //
               body::AddPositions, body::Embed, body::EmbedGradient,                      //
               body::LayOutWindows, body::GatherWindows, body::PoolWindows, body::PoolGradient,
               body::NormStatistics, body::NormApply, body::NormGradientMeans,
               body::NormInputGradient, body::NormParameterGradient, body::NormMove,
               body::ShiftPlaces, body::LstmCell, body::LstmCellGradient, body::GruCell,
               body::GruCellGradient, body::AttentionSoftmax, body::AttentionSoftmaxGradient>;

}  // namespace skep::kernels
