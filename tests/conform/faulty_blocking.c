// Fault: its trainer works on without ever asking whether it should stop. Caught by check 11.
#include <poll.h>

#include "tests/conform/app.h"

static skep_status Train(void* user, skep_task* task, skep_tensor* model, size_t count,
                         uint64_t* num_examples) {
  (void)user, (void)task, (void)model, (void)count;
  (void)poll(NULL, 0, 30000);
  *num_examples = kRows;
  return SKEP_OK;
}

int main(int argc, char** argv) {
  const skep_trainer trainer = {sizeof trainer, 0, NULL, Train, NULL};
  return RunApp(argc, argv, &trainer);
}
