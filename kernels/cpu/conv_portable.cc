// The loops of convolutions and pooling for any processor.
#include "kernels/cpu/vector_portable.h"
// The bodies are written over the vector above.
#include "kernels/cpu/base_body.h"
#include "kernels/cpu/conv_body.h"
// These share its pieces and tiles.
#include "kernels/cpu/conv_gradient_body.h"
// This one those of both.
#include "kernels/cpu/conv_depthwise_body.h"
#include "kernels/cpu/conv_pool_body.h"

namespace skep::kernels {

const ConvLoops kConvLoopsPortable{.lanes = kLanes,
                                   .panel = Panel,
                                   .pack = Pack,
                                   .unpack = Unpack,
                                   .correlate = Correlate,
                                   .sums = Sums,
                                   .correlate_depthwise = CorrelateDepthwise,
                                   .sums_depthwise = SumsDepthwise,
                                   .bias_sums = BiasSums,
                                   .pool_maximum = PoolMaximum,
                                   .pool_average = PoolAverage,
                                   .pool_maximum_gradient = PoolMaximumGradient,
                                   .pool_average_gradient = PoolAverageGradient};

}  // namespace skep::kernels
