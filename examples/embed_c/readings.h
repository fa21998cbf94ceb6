// The application's own data: four vibration values of a machine a reading, and whether a bearing
// was worn. Made up here, so that the project runs as it is: put your own in their place.
#ifndef READINGS_H
#define READINGS_H

#include <skep/skep.h>

enum { kRows = 412, kColumns = 4 };

typedef struct Readings {
  float x[kRows][kColumns];
  int64_t is_worn[kRows];
  size_t first;  // where this epoch starts
  size_t taken;  // rows of it that were handed out
} Readings;

static void Measure(Readings* r) {
  for (size_t i = 0; i < kRows; ++i) {
    r->is_worn[i] = (int64_t)(i % 2);
    for (size_t j = 0; j < kColumns; ++j)
      r->x[i][j] = (float)((i * 37 + j * 11) % 100) / 100.0F + (float)r->is_worn[i] * 0.5F;
  }
}

static int64_t Count(void* user, const skep_task* task) {
  (void)user, (void)task;
  return kRows;
}

// The same seed must give the same order on every run of the program.
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

#endif  // READINGS_H
