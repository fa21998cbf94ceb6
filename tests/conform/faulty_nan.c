// Fault: its trainer gives a model with a value that is no number. Caught by check 3.
#include <math.h>

#include "tests/conform/app.h"

static skep_status Train(void* user, skep_task* task, skep_tensor* model, size_t count,
                         uint64_t* num_examples) {
  (void)user, (void)task;
  if (count > 0) ((float*)model[0].data)[0] = NAN;
  *num_examples = kRows;
  return SKEP_OK;
}

int main(int argc, char** argv) {
  const skep_trainer trainer = {sizeof trainer, 0, NULL, Train, NULL};
  return RunApp(argc, argv, &trainer);
}
