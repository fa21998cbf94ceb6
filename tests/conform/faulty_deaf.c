// Fault: it does not end at SIGTERM. Caught by check 11.
#define STOP_SIGNAL SIGUSR1
#include "tests/conform/app.h"

int main(int argc, char** argv) {
  signal(SIGTERM, SIG_IGN);
  return RunApp(argc, argv, NULL);
}
