// The ABI from C11: sizes, how sizes of structures are obeyed, and the two JSON calls.
#include <skep/skep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The sizes on every 64-bit system; a field more, and old programs and a new library misread each
// other.
_Static_assert(sizeof(skep_tensor) == 40, "skep_tensor");
_Static_assert(sizeof(skep_batch) == 64, "skep_batch");
_Static_assert(sizeof(skep_device_state) == 16, "skep_device_state");
_Static_assert(sizeof(skep_data_source) == 40, "skep_data_source");
_Static_assert(sizeof(skep_trainer) == 32, "skep_trainer");
_Static_assert(sizeof(skep_progress) == 56, "skep_progress");
_Static_assert(sizeof(skep_options) == 120, "skep_options");
_Static_assert(sizeof(skep_outcome) == 304, "skep_outcome");
_Static_assert(offsetof(skep_batch, x) == 16 && offsetof(skep_batch, rows) == 40, "skep_batch");
_Static_assert(offsetof(skep_device_state, battery_level) == 8, "skep_device_state");
_Static_assert(offsetof(skep_progress, fraction) == 40, "skep_progress");
_Static_assert(offsetof(skep_options, require_charging) == 56, "skep_options");
_Static_assert(offsetof(skep_options, max_memory) == 72, "skep_options");
_Static_assert(offsetof(skep_options, device) == 104, "skep_options");
_Static_assert(offsetof(skep_outcome, round) == 16, "skep_outcome");
_Static_assert(offsetof(skep_outcome, message) == 48, "skep_outcome");

static int failures = 0;

static void Check(int is_true, const char* what, int line) {
  if (is_true) return;
  ++failures;
  printf("abi_test.c:%d: not so: %s\n", line, what);
}
#define CHECK(condition) Check((condition) ? 1 : 0, #condition, __LINE__)

static const float kX[] = {1, 2, 3, 4, 5, 6};
static const int64_t kY[] = {0, 1, 0};

static int64_t Count(void* user, const skep_task* task) {
  (void)user;
  (void)task;
  return 3;
}

static skep_status Rewind(void* user, const skep_task* task, uint64_t seed) {
  (void)task;
  (void)seed;
  *(size_t*)user = 0;
  return SKEP_OK;
}

static skep_status Next(void* user, const skep_task* task, size_t max_rows, skep_batch* out) {
  size_t* const at = user;
  const size_t rows = 3 - *at < max_rows ? 3 - *at : max_rows;
  if (out->struct_size != sizeof *out) {
    skep_task_fail(task, "a batch without its size");
    return SKEP_E_DATA;
  }
  out->x_dtype = SKEP_F32;
  out->y_dtype = SKEP_I64;
  out->x = kX + 2 * *at;
  out->y = kY + *at;
  out->rows = rows;
  out->x_cols = 2;
  out->y_cols = 1;
  *at += rows;
  return SKEP_OK;
}

static size_t position = 0;
static const skep_data_source kData = {sizeof kData, 0, &position, Count, Rewind, Next};

static skep_client* Client(void) {
  skep_options options;
  skep_client* client = NULL;
  skep_options_init(&options, sizeof options);
  options.storage_dir = "device";
  CHECK(skep_client_new(&options, &kData, NULL, &client, NULL) == SKEP_OK);
  return client;
}

static void NamesAndNumbers(void) {
  CHECK(skep_abi_version() == SKEP_ABI_VERSION);
  CHECK(strcmp(skep_version(), "0.1.0") == 0);
  CHECK(strcmp(skep_status_name(SKEP_OK), "SKEP_OK") == 0);
  CHECK(strcmp(skep_status_name(SKEP_REJECTED), "SKEP_REJECTED") == 0);
  CHECK(strcmp(skep_status_name(SKEP_E_NETWORK), "SKEP_E_NETWORK") == 0);
  CHECK(strcmp(skep_status_name(SKEP_E_INTERNAL), "SKEP_E_INTERNAL") == 0);
  CHECK(strcmp(skep_status_name(6), "SKEP_UNKNOWN") == 0);
  CHECK(strcmp(skep_status_name(-12), "SKEP_UNKNOWN") == 0);
  CHECK(skep_explain(7401) != NULL);
  CHECK(skep_explain(1) == NULL);
}

static void NoByteBeyondTheCallersSize(void) {
  // An older program's shorter structure, in front of bytes that are none of the library's.
  union {
    skep_options options;
    unsigned char bytes[sizeof(skep_options)];
  } old;
  memset(old.bytes, 0x5A, sizeof old.bytes);
  skep_options_init(&old.options, offsetof(skep_options, device));
  CHECK(old.options.struct_size == offsetof(skep_options, device));
  CHECK(old.options.min_seconds_between_runs == 900);
  for (size_t i = offsetof(skep_options, device); i < sizeof old.bytes; ++i)
    CHECK(old.bytes[i] == 0x5A);

  union {
    skep_outcome outcome;
    unsigned char bytes[sizeof(skep_outcome)];
  } shorter;
  skep_client* const client = Client();
  memset(shorter.bytes, 0x5A, sizeof shorter.bytes);
  shorter.outcome.struct_size = offsetof(skep_outcome, message);
  CHECK(skep_client_run_once(client, 60, &shorter.outcome) == SKEP_OK);
  CHECK(shorter.outcome.num_examples == 3);
  CHECK(shorter.outcome.struct_size == offsetof(skep_outcome, message));
  for (size_t i = offsetof(skep_outcome, message); i < sizeof shorter.bytes; ++i)
    CHECK(shorter.bytes[i] == 0x5A);
  CHECK(skep_client_run_once(client, 60, NULL) == SKEP_OK);
  skep_client_free(client);
}

static void SizesThatNoVersionHad(void) {
  skep_options options;
  skep_data_source data = kData;
  skep_client* client = (skep_client*)&options;
  skep_outcome why_not = {.struct_size = sizeof why_not};
  skep_options_init(&options, sizeof options);
  options.storage_dir = "device";
  data.struct_size = 1;
  CHECK(skep_client_new(&options, &data, NULL, &client, &why_not) == SKEP_E_ARGUMENT);
  CHECK(why_not.code == 7002);
  CHECK(client == NULL);
  options.struct_size = 0;
  CHECK(skep_client_new(&options, &kData, NULL, &client, &why_not) == SKEP_E_ARGUMENT);
  CHECK(why_not.code == 7002);
  CHECK(why_not.status == SKEP_E_ARGUMENT);
  CHECK(strstr(why_not.message, "skep_options") != NULL);
}

static void BuffersAreMeasuredFirst(void) {
  skep_client* const client = Client();
  char small[8] = "unused";
  size_t size = 0;
  CHECK(skep_client_history_json(client, NULL, &size) == SKEP_E_BUFFER);
  const size_t needed = size;
  size = sizeof small;
  CHECK(skep_client_history_json(client, small, &size) == SKEP_E_BUFFER);
  CHECK(size == needed);
  CHECK(strcmp(small, "unused") == 0);

  // The history grows between the two calls: the second measures again.
  CHECK(skep_client_run_once(client, 60, NULL) == SKEP_OK);
  char* buf = malloc(needed);
  CHECK(skep_client_history_json(client, buf, &size) == SKEP_E_BUFFER);
  CHECK(size > needed);
  free(buf);
  buf = malloc(size);
  const size_t exact = size;
  CHECK(skep_client_history_json(client, buf, &size) == SKEP_OK);
  CHECK(size + 1 == exact);
  CHECK(strlen(buf) == size);
  CHECK(buf[size - 1] == '}');
  free(buf);
  skep_client_free(client);
}

int main(void) {
  NamesAndNumbers();
  NoByteBeyondTheCallersSize();
  SizesThatNoVersionHad();
  BuffersAreMeasuredFirst();
  skep_client_free(NULL);
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
