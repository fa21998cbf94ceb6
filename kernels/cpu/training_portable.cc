// The loops of training for any processor.
#include "kernels/cpu/vector_portable.h"
// The bodies are written over the vector above.
#include "kernels/cpu/base_body.h"
#include "kernels/cpu/dense_body.h"
#include "kernels/cpu/exp_body.h"
// The loss needs the exponential.
#include "kernels/cpu/loss_body.h"
#include "kernels/cpu/optimiser_body.h"

namespace skep::kernels {

const TrainingLoops kTrainingLoopsPortable{.dense_forward = Forward,
                                           .dense_input_gradient = InputGradient,
                                           .dense_weight_gradient = WeightGradient,
                                           .dense_gradients = Gradients,
                                           .softmax_loss = Loss,
                                           .sgd_update = UpdateWeights,
                                           .adam_update = UpdateAdam};

}  // namespace skep::kernels
