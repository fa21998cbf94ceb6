// Fault: it keeps a log of its own outside of its folder. Caught by check 20.
#include "tests/conform/app.h"

int main(int argc, char** argv) {
  FILE* const file = fopen("/tmp/skep-conform-faulty.log", "w");
  if (file != NULL) {
    fputs("started\n", file);
    fclose(file);
  }
  return RunApp(argc, argv, NULL);
}
