// Eigen's namespace is renamed, so that no function of it is shared with a file compiled for
// another instruction set.
#define Eigen EigenV1
#define SKEP_EIGEN_LOOP kEigenPortable
#include "benchmarks/eigen_body.h"
