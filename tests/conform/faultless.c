// Nothing is wrong with this one: what the harness says of the faulty ones is about their faults.
#include "tests/conform/app.h"

int main(int argc, char** argv) {
  return RunApp(argc, argv, NULL);
}
