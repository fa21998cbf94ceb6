#include "shared/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace skep {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "SKEP-9001 %s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace skep
