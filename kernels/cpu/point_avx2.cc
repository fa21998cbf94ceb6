// The loops of layers without products for AVX2 with FMA.
#include "kernels/cpu/vector_avx2.h"
// Doubles and random words beside the vector above.
#include "kernels/cpu/point_avx2.h"
// The bodies are written over both, and over the exponential.
#include "kernels/cpu/base_body.h"
// It needs the base.
#include "kernels/cpu/exp_body.h"
// These need it.
#include "kernels/cpu/point_body.h"
// Norms, embeddings and losses.
#include "kernels/cpu/point_embedding_body.h"
#include "kernels/cpu/point_loss_body.h"
#include "kernels/cpu/point_norm_body.h"

namespace skep::kernels {

const PointLoops kPointLoopsAvx2{.relu = MapRelu,
                                 .tanh = MapTanh,
                                 .sigmoid = MapSigmoid,
                                 .gelu = MapGelu,
                                 .tanh_gradient = MapTanhGradient,
                                 .sigmoid_gradient = MapSigmoidGradient,
                                 .gelu_gradient = MapGeluGradient,
                                 .dropout = Drop,
                                 .column_sums = SumColumns,
                                 .column_squares = SumSquares,
                                 .column_products = SumProducts,
                                 .column_norm = NormColumns,
                                 .column_norm_gradient = NormColumnsGradient,
                                 .row_norm = NormRows,
                                 .row_norm_gradient = NormRowsGradient,
                                 .sums_to_gradient = AddSumsToGradient,
                                 .add_vector = AddToRows,
                                 .embedding_forward = Gather,
                                 .embedding_gradient = Scatter,
                                 .sigmoid_loss = SigmoidLoss,
                                 .squared_loss = SquaredLoss};

}  // namespace skep::kernels
