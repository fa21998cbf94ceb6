// A small application that embeds the library: what the faulty programs beside it have in common.
//
//     PROGRAM --join-file FILE --storage FOLDER
//
// Its data have the columns of the harness's own table. Each program includes this file once, with
// its fault between the parts that are right.
#ifndef SKEP_TESTS_CONFORM_APP_H
#define SKEP_TESTS_CONFORM_APP_H

#include <pthread.h>
#include <signal.h>
#include <skep/skep.h>
#include <stdio.h>
#include <string.h>

#ifndef STOP_SIGNAL
#define STOP_SIGNAL SIGTERM
#endif

enum { kRows = 120, kColumns = 3, kClasses = 3 };

typedef struct Readings {
  float x[kRows][kColumns];
  int64_t y[kRows];
  size_t taken;
} Readings;

static int64_t Count(void* user, const skep_task* task) {
  (void)user, (void)task;
  return kRows;
}

static skep_status Rewind(void* user, const skep_task* task, uint64_t seed) {
  (void)task, (void)seed;
  ((Readings*)user)->taken = 0;
  return SKEP_OK;
}

static skep_status Next(void* user, const skep_task* task, size_t max_rows, skep_batch* out) {
  Readings* const r = user;
  const size_t left = kRows - r->taken;
  (void)task;
  out->rows = left < max_rows ? left : max_rows;
  if (out->rows == 0) return SKEP_OK;
  out->x = r->x[r->taken], out->x_dtype = SKEP_F32, out->x_cols = kColumns;
  out->y = &r->y[r->taken], out->y_dtype = SKEP_I64, out->y_cols = 1;
  r->taken += out->rows;
  return SKEP_OK;
}

static void PrintOutcome(void* user, const skep_outcome* outcome) {
  (void)user;
  printf("%s %d: %s\n", skep_status_name(outcome->status), outcome->code, outcome->message);
  fflush(stdout);
}

// Takes part until STOP_SIGNAL. `trainer` may be NULL.
static int RunApp(int argc, char** argv, const skep_trainer* trainer) {
  static Readings readings;
  char join[4096] = "";
  if (argc != 5 || strcmp(argv[1], "--join-file") != 0 || strcmp(argv[3], "--storage") != 0)
    return 2;
  FILE* const file = fopen(argv[2], "r");
  if (file != NULL && fgets(join, sizeof join, file) != NULL) join[strcspn(join, "\r\n")] = '\0';
  if (file != NULL) fclose(file);
  for (size_t i = 0; i < kRows; ++i) {
    readings.y[i] = (int64_t)(i % kClasses);
    for (size_t j = 0; j < kColumns; ++j)
      readings.x[i][j] = (float)(i % kClasses) + (float)((i * 7 + j) % 10) / 20.0F;
  }
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, STOP_SIGNAL);
  pthread_sigmask(SIG_BLOCK, &awaited, NULL);
  skep_options options;
  skep_options_init(&options, sizeof options);
  options.join_string = join;
  options.storage_dir = argv[4];
  options.require_charging = options.require_idle = options.require_unmetered = 0;
  options.min_seconds_between_runs = 0;
  options.device = "cpu";
  const skep_data_source data = {sizeof data, 0, &readings, Count, Rewind, Next};
  skep_client* client = NULL;
  skep_outcome outcome = {.struct_size = sizeof outcome};
  if (skep_client_new(&options, &data, trainer, &client, &outcome) != SKEP_OK) {
    PrintOutcome(NULL, &outcome);
    return 1;
  }
  skep_client_on_outcome(client, PrintOutcome, NULL);
  skep_client_start(client);
  int number = 0;
  sigwait(&awaited, &number);
  skep_client_stop(client);
  skep_client_free(client);
  return 0;
}

#endif
