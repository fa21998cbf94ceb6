// Eigen's namespace is renamed, so that no function of it is shared with a file compiled for
// another instruction set.
#define Eigen EigenV4
#define SKEP_EIGEN_LOOP kEigenAvx512
#include "benchmarks/eigen_body.h"
