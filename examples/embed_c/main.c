// A C application whose device takes part: one check-in, with readings of a pump as its data.
//
//     pump --join-file join.txt --storage state
//
// A scheduler (cron, WorkManager, a timer of your own) calls it again after the time that it
// prints.
#include <skep/skep.h>
#include <stdio.h>
#include <string.h>

enum { kRows = 412, kColumns = 4 };

// The application's own data: four vibration values a reading, and whether the bearing was worn.
typedef struct Readings {
  float x[kRows][kColumns];
  int64_t is_worn[kRows];
  size_t first;  // where this epoch starts
  size_t taken;  // rows of it that were handed out
} Readings;

static int64_t Count(void* user, const skep_task* task) {
  (void)user, (void)task;
  return kRows;
}

static skep_status Rewind(void* user, const skep_task* task, uint64_t seed) {
  Readings* const r = user;
  (void)task;
  r->first = (size_t)(seed % kRows);  // rows come in a ring; a real store would shuffle
  r->taken = 0;
  return SKEP_OK;
}

static skep_status Next(void* user, const skep_task* task, size_t max_rows, skep_batch* out) {
  Readings* const r = user;
  const size_t at = (r->first + r->taken) % kRows;
  (void)task;
  size_t rows = kRows - r->taken < max_rows ? kRows - r->taken : max_rows;
  if (rows > kRows - at) rows = kRows - at;  // a batch may be smaller than asked for
  out->x = r->x[at], out->x_dtype = SKEP_F32, out->x_cols = kColumns;
  out->y = &r->is_worn[at], out->y_dtype = SKEP_I64, out->y_cols = 1;
  out->rows = rows;
  r->taken += rows;
  return SKEP_OK;
}

static void Measure(Readings* r) {
  for (size_t i = 0; i < kRows; ++i) {
    r->is_worn[i] = (int64_t)(i % 2);
    for (size_t j = 0; j < kColumns; ++j)
      r->x[i][j] = (float)((i * 37 + j * 11) % 100) / 100.0F + (float)r->is_worn[i] * 0.5F;
  }
}

int main(int argc, char** argv) {
  static Readings readings;
  char join[4096] = "";
  if (argc != 5 || strcmp(argv[1], "--join-file") != 0 || strcmp(argv[3], "--storage") != 0)
    return fprintf(stderr, "usage: %s --join-file FILE --storage FOLDER\n", argv[0]), 2;
  FILE* const file = fopen(argv[2], "r");
  if (file != NULL && fgets(join, sizeof join, file) != NULL) join[strcspn(join, "\r\n")] = '\0';
  if (file != NULL) fclose(file);

  Measure(&readings);
  skep_options options;
  skep_options_init(&options, sizeof options);
  options.join_string = join;  // may be empty once enrolled
  options.storage_dir = argv[4];
  options.require_idle = options.require_unmetered = 0;
  const skep_data_source data = {sizeof data, 0, &readings, Count, Rewind, Next};
  skep_client* client = NULL;
  skep_outcome outcome = {.struct_size = sizeof outcome};
  if (skep_client_new(&options, &data, NULL, &client, &outcome) == SKEP_OK)
    skep_client_run_once(client, 300, &outcome);
  skep_client_free(client);
  printf("%s: %s; come back in %u s\n", skep_status_name(outcome.status), outcome.message,
         (unsigned)outcome.retry_after_s);
  return outcome.status < 0 ? 1 : 0;
}
