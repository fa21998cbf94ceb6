// The loops of sequences for AVX-512 (F, DQ, VL).
#include "kernels/cpu/vector_avx512.h"
// The bodies are written over the vector above.
#include "kernels/cpu/base_body.h"
// The exponential needs the base.
#include "kernels/cpu/exp_body.h"
// Gates and softmax need the exponential.
#include "kernels/cpu/sequence_gates_body.h"
#include "kernels/cpu/sequence_product_body.h"
#include "kernels/cpu/sequence_softmax_body.h"

namespace skep::kernels {

const SequenceLoops kSequenceLoopsAvx512{.pack_panels = PackPanels,
                                         .panel_product = Product,
                                         .pack_rows = PackRows,
                                         .panel_gradient = Gradient,
                                         .column_sums = SumColumns,
                                         .lstm_step = StepLstm,
                                         .lstm_step_gradient = StepLstmGradient,
                                         .gru_step = StepGru,
                                         .gru_step_gradient = StepGruGradient,
                                         .score_softmax = Softmax,
                                         .score_softmax_gradient = SoftmaxGradient};

}  // namespace skep::kernels
