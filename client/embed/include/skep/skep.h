// skep/skep.h: takes part in federated learning from inside an application. C ABI 1 of
// libskep-client.
//
// The application hands over examples batch by batch (skep_data_source) and calls
// skep_client_run_once now and then. One call is one check-in: enrol if that is still to do, ask
// the aggregator for work, download a model, train, upload what was learned. It returns when to
// come back. Examples never leave the device.
//
//     skep_options options;
//     skep_options_init(&options, sizeof options);
//     options.join_string = join_string;        // from the operator; enrols this device once
//     options.storage_dir = "/var/lib/pump/skep";
//     const skep_data_source data = {sizeof data, 0, &my_store, my_count, my_rewind, my_next};
//     skep_client* client = NULL;
//     skep_outcome outcome = {.struct_size = sizeof outcome};
//     if (skep_client_new(&options, &data, NULL, &client, &outcome) == SKEP_OK) {
//       skep_client_run_once(client, 300, &outcome);
//       come_back_in(outcome.retry_after_s);
//       skep_client_free(client);
//     }
//
// What holds for every call:
// - Ownership. The caller owns what it passes in, and the library has copied it when the call
//   returns. What the library passes to a callback is the library's and stays valid until that
//   callback returns. `user` pointers are kept, and batches differ: see there.
// - Strings are UTF-8 and end in NUL. Where one is optional, NULL and "" both mean "not given".
// - Threads. One thread at a time may use a client. skep_client_cancel and the two ..._json calls
//   may come from any thread at any time, though not from a signal handler. Clients are
//   independent of each other. There is no global state, and nothing to initialise.
// - Callbacks run on the thread that called skep_client_run_once, or on the thread of
//   skep_client_start, never two of a client at once, and no lock is held meanwhile. Only
//   skep_task_check, _rewind and _next may call others while they are in one. A callback
//   may call skep_task_... with its task, skep_client_cancel and the ..._json calls, and nothing
//   else of its client. It must return in the ordinary way: no longjmp, no C++ exception.
// - Manners. No call exits the process, installs a signal handler, writes to stdout or stderr, or
//   writes a file outside storage_dir. After fork() the child must not use the client.
// - Errors. Calls return a skep_status. A number SKEP-nnnn says more; skep_explain has its text.
// - Versions. Each structure but skep_tensor begins with struct_size: set it to sizeof that
//   structure. The library touches no byte beyond the smaller of its own and the caller's size, so
//   old binaries work with a newer library; fields that the caller lacks take their default.
//
// Plain C11, also C++20; C++ applications will like skep/client.hpp better.
#ifndef SKEP_SKEP_H
#define SKEP_SKEP_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SKEP_API __attribute__((visibility("default")))
#else
#define SKEP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The ABI of this header. Compare with skep_abi_version() if the library is loaded by hand.
#define SKEP_ABI_VERSION 1u

// One enrolled device: one storage_dir.
typedef struct skep_client skep_client;
// One piece of work. Valid only inside the callback that got it.
typedef struct skep_task skep_task;

// --- Results -------------------------------------------------------------------------------------

// 0: a contribution was accepted. > 0: none was made, and that is normal. < 0: an error. Values not
// listed here may come from a newer library; the sign says how to treat them.
typedef int32_t skep_status;
enum {
  SKEP_OK = 0,            // the aggregator has stored the update, or the evaluation's metrics
  SKEP_NO_WORK = 1,       // nothing to do now, not selected, or the task does not suit this device
  SKEP_NOT_ELIGIBLE = 2,  // a condition of skep_options is not met or unknown; the message names it
  SKEP_CANCELLED = 3,     // by skep_client_cancel, _stop or _free
  SKEP_LIMIT = 4,         // a limit or the budget was reached; the next run goes on from there
  SKEP_REJECTED = 5,      // the aggregator refused the update, for instance as it came too late
  SKEP_E_NETWORK = -1,    // the aggregator cannot be reached
  SKEP_E_AUTH = -2,       // join string, certificate, name or clock: one does not trust the other
  SKEP_E_PROTOCOL = -3,   // an answer that makes no sense
  SKEP_E_DATA = -4,       // the data source failed, broke its contract, or does not suit the plan
  SKEP_E_STORAGE = -5,    // disk full, wrong owner or mode, or damaged beyond repair
  SKEP_E_ARGUMENT = -6,   // a call or a structure that this header does not allow
  SKEP_E_TRAINER = -7,    // the trainer failed or broke its contract
  SKEP_E_BUSY = -8,       // the client is in a run, or another process has its storage_dir
  SKEP_E_MEMORY = -9,     // allocation failed
  SKEP_E_BUFFER = -10,    // the buffer is too small
  SKEP_E_INTERNAL = -11   // a fault of the library: please report it
};

// What a run came to.
typedef struct skep_outcome {
  uint32_t struct_size;  // in: sizeof(skep_outcome)
  skep_status status;
  int32_t code;            // the nnnn of SKEP-nnnn, or 0
  uint32_t retry_after_s;  // seconds: come back after that, not sooner
  uint64_t round;          // 0 where no task was received
  uint64_t num_examples;   // distinct examples that were used
  uint64_t bytes_down;     // on the socket, during this run
  uint64_t bytes_up;
  char message[256];  // one sentence for a log; never holds training data
} skep_outcome;

// --- Data: what every application provides -------------------------------------------------------

// Types of elements.
typedef int32_t skep_dtype;
enum {
  SKEP_F32 = 1,   // IEEE 754, as float
  SKEP_F16 = 2,   // IEEE 754 half precision
  SKEP_BF16 = 3,  // the upper half of a float
  SKEP_I8 = 4,
  SKEP_I32 = 5,
  SKEP_I64 = 6,
  SKEP_U8 = 7
};

// Rows of examples, row-major and densely packed. The three pointers are the data source's: they
// stay valid until the next call of next or rewind, or the end of the task.
typedef struct skep_batch {
  uint32_t struct_size;         // in, set by whoever asks for the batch
  skep_dtype x_dtype;           // F32, F16, U8 (read as value / 255) or I32 (token ids)
  skep_dtype y_dtype;           // I64: classes 0 ... k-1 in the plan's order, or -1 for a place of
                                // a sequence that does not count; F32: numbers
  uint32_t reserved;            // 0
  const void* x;                // rows * x_cols elements
  const void* y;                // rows * y_cols elements
  const float* example_weight;  // rows elements; NULL means 1.0 each, as the library's own training
                                // demands
  size_t rows;                  // 1 ... max_rows; 0 ends the epoch
  size_t x_cols;                // constant over a task
  size_t y_cols;                // constant over a task; 1 for classes
} skep_batch;

// Where examples come from. All three functions are required, and the data must not change during a
// task. Each returns SKEP_OK or an error: SKEP_E_DATA, after skep_task_fail with the reason. A task
// of kind SKEP_TASK_EVALUATE should get held-out examples.
typedef struct skep_data_source {
  uint32_t struct_size;
  uint32_t reserved;  // 0
  void* user;         // passed to each function; must outlive the client

  // How many examples there are for this task, 0 for "sit this one out", or < 0: a skep_status.
  // Cheap: it may be called often. May differ by a tenth from what an epoch then yields. A source
  // with named columns compares them with skep_task_text(task, "data.spec", "") here.
  int64_t (*count)(void* user, const skep_task* task);

  // Starts an epoch. The same seed on the same data gives the same order, other seeds other orders.
  skep_status (*rewind)(void* user, const skep_task* task, uint64_t seed);

  // The next 1 ... max_rows rows of the epoch in `out`, or out->rows = 0 at its end. Takes at most
  // 1 s. The library checks each batch: its width (SKEP-7101), that values are finite (7102) and
  // labels in range (7103), and the number of rows (7104).
  skep_status (*next)(void* user, const skep_task* task, size_t max_rows, skep_batch* out);
} skep_data_source;

// --- Trainer: optional, for applications with a training runtime of their own --------------------

// A named tensor of the model, row-major and densely packed. Frozen in ABI 1, as it travels in
// arrays. All of it is the library's: train may write to the elements, nobody to anything else.
typedef struct skep_tensor {
  const char* name;      // the plan's, such as "fc1.weight"
  void* data;            // the elements
  const int64_t* shape;  // `rank` extents
  size_t nbytes;         // of the elements together
  skep_dtype dtype;
  uint32_t rank;
} skep_tensor;

// skep_trainer.capabilities, a sum of these. A task that asks for more is declined.
enum {
  SKEP_CAN_PROXIMAL = 1,  // adds mu/2 |w - w0|^2 to the loss; w0 is the model as it was received
  SKEP_CAN_PARTIAL = 2    // when train stops early, the tensors hold work that can be used
};

// Trains in place of the library. It does not form, clip, mask or compress the update: the library
// subtracts the model that it had handed over.
//
// A trainer takes batches from skep_task_next; one with a loader of its own calls skep_task_check
// at least every 250 ms. When either gives anything but SKEP_OK, return that status at once.
typedef struct skep_trainer {
  uint32_t struct_size;
  uint32_t capabilities;  // SKEP_CAN_...
  void* user;             // passed to each function; must outlive the client

  // Trains for the epochs or steps that the task asks for (skep_task_number) and leaves the result
  // in the `count` tensors. num_examples: how many distinct examples were used, > 0. It becomes the
  // weight of this update, uncut: above the plan's largest weight the task fails (SKEP-7413).
  skep_status (*train)(void* user, skep_task* task, skep_tensor* model, size_t count,
                       uint64_t* num_examples);

  // Evaluates the model, which must not be changed, and reports with skep_task_metric. NULL
  // declines tasks of evaluation.
  skep_status (*evaluate)(void* user, skep_task* task, const skep_tensor* model, size_t count,
                          uint64_t* num_examples);
} skep_trainer;

// --- Options -------------------------------------------------------------------------------------

enum { SKEP_LOG_ERROR = 0, SKEP_LOG_WARNING = 1, SKEP_LOG_INFO = 2, SKEP_LOG_DEBUG = 3 };

// Fill with skep_options_init, then change what should differ. [default; range]
typedef struct skep_options {
  uint32_t struct_size;
  int32_t log_level;        // SKEP_LOG_...: the least important that is logged [INFO]
  const char* join_string;  // enrols this device at its first run; may stay set afterwards
  const char* endpoint;     // "HOST:PORT"; optional, must then agree with the enrolment
  const char* population;   // required only if the enrolment covers several
  const char* app_version;  // the application's, told to the aggregator; optional
  const char* storage_dir;  // required: a folder of mode 0700 on a local disk, made if missing
  const char* policy_json;  // the least this device insists on, as {"privacy": {...},
                            // "secure_aggregation": {...}} with the keys of client.toml; optional

  // When the device may work. An unknown state does not meet a required one. Without a battery the
  // conditions on power are met.
  uint8_t require_charging;   // [1]
  uint8_t require_idle;       // [1]
  uint8_t require_unmetered;  // [1]
  uint8_t reserved;           // 0
  float min_battery;          // share of a full one, ignored while charging [0.3; 0 ... 1]

  // What a run may take. Reaching a limit ends it with SKEP_LIMIT.
  float max_cpu;                 // share of a core per thread, over 60 s [0.7; 0.05 ... 1]
  uint32_t max_threads;          // for the library's arithmetic [1; 1 ... 64]
  uint64_t max_memory;           // bytes, of a run [256 MiB; at least 16 MiB]
  uint64_t max_storage;          // bytes, of the files in storage_dir [512 MiB; at least 16 MiB]
  uint64_t max_bytes_per_day;    // both directions, per UTC day [64 MiB; at least 1 MiB]
  uint32_t max_seconds_per_run;  // [600; 10 ... 21600]
  uint32_t min_seconds_between_runs;  // after a contribution [900; 0 ... 2592000]
  const char* device;  // "auto", "cpu" or "cuda:N" for the library's own training ["auto"];
                       // "cpu:avx2" and so on repeat results on processors that differ
  const char* proxy;   // "http://HOST:PORT" with HTTP CONNECT; optional. Variables of the
                       // environment are not read.
} skep_options;

// --- Callbacks of a client: all optional ---------------------------------------------------------

// The state of the device: 1 yes, 0 no, -1 unknown.
typedef struct skep_device_state {
  uint32_t struct_size;
  int8_t charging;
  int8_t idle;
  int8_t unmetered;
  int8_t thermal_ok;    // 0 stops every run; unknown does not
  float battery_level;  // 0 ... 1, or -1 for unknown
  uint32_t reserved;    // 0
} skep_device_state;

// Phases of a run, as skep_progress names them.
enum {
  SKEP_PHASE_DOWNLOAD = 1,
  SKEP_PHASE_TRAIN = 2,  // also while a task of evaluation is worked on
  SKEP_PHASE_ENCODE = 3,
  SKEP_PHASE_UPLOAD = 4,
  SKEP_PHASE_CHECK_IN = 5,
  SKEP_PHASE_WAIT = 6  // for the aggregator's answer
};

// How far a run is.
typedef struct skep_progress {
  uint32_t struct_size;
  int32_t phase;        // SKEP_PHASE_...
  const char* task_id;  // "" before there is a task
  uint64_t round;       // 0 before there is a task
  uint64_t bytes_down;  // on the socket, since the run began
  uint64_t bytes_up;
  double fraction;  // of this phase, 0 ... 1, or -1 for unknown
  double loss;      // NaN until it is known
} skep_progress;

// Asked for the state of the device, at most once a second. `out` arrives with everything unknown:
// fill in what is known. Replaces the library's own probes.
typedef void (*skep_state_fn)(void* user, skep_device_state* out);
// Told about progress, at most some ten times a second. Return soon.
typedef void (*skep_progress_fn)(void* user, const skep_progress* progress);
// Told what each run came to, those of skep_client_start too. Its last callback.
typedef void (*skep_outcome_fn)(void* user, const skep_outcome* outcome);
// Given each line of the log: SKEP_LOG_..., and the text without a line end.
typedef void (*skep_log_fn)(void* user, int32_t level, const char* line);

// --- The library ---------------------------------------------------------------------------------

// SKEP_ABI_VERSION of the library that is loaded. Any thread.
SKEP_API uint32_t skep_abi_version(void);
// Its version, like "0.1.0". Static. Any thread.
SKEP_API const char* skep_version(void);
// "SKEP_E_NETWORK" and so on; "SKEP_UNKNOWN" for a value it does not know. Static. Any thread.
SKEP_API const char* skep_status_name(skep_status status);
// What SKEP-nnnn means and what to do about it, NULL if there is no such. Static. Any thread.
SKEP_API const char* skep_explain(int32_t code);

// --- Looking at a folder, without a client -------------------------------------------------------
//
// For tools. A client, of this process or of another one, may be at work in the folder meanwhile.

// What skep_client_status_json and skep_client_history_json say, with their rules for buf and len.
// `why_not` may be NULL. SKEP_E_STORAGE: storage_dir is no folder of a client's, or not to be read.
SKEP_API skep_status skep_status_json(const skep_options* options, char* buf, size_t* len,
                                      skep_outcome* why_not);
SKEP_API skep_status skep_history_json(const skep_options* options, char* buf, size_t* len,
                                       skep_outcome* why_not);

// Told of each step of a diagnosis: its name, SKEP-nnnn or 0, what was found, and what to do about
// it or "".
typedef void (*skep_step_fn)(void* user, const char* name, int32_t code, const char* found,
                             const char* advice);
// Tries what a check-in needs, one step after the other up to the first that fails: folder, disk,
// clock, proxy, name, tcp, tls, certificate, device, eligibility. Contributes nothing. Returns the
// status of the last step.
SKEP_API skep_status skep_diagnose(const skep_options* options, skep_step_fn fn, void* user);

// --- A client ------------------------------------------------------------------------------------

// Sets every option to its default, and struct_size. `size` is sizeof(skep_options) as the caller
// was compiled; nothing beyond it is written.
SKEP_API void skep_options_init(skep_options* options, size_t size);

// Opens storage_dir and gives a client in *out. No network: a device enrols at its first run.
// `trainer` may be NULL: then the library trains the layers of the plan itself. `why_not` may be
// NULL; else its status, code and message say what is wrong. On an error *out is NULL.
// SKEP_E_ARGUMENT: an option out of range (SKEP-7001, the message names it), a struct_size that is
// none of that structure (7002), or no data source (7003). SKEP_E_BUSY: another client has the
// folder (4002). SKEP_E_STORAGE: the folder cannot be used (40xx). SKEP_E_MEMORY.
SKEP_API skep_status skep_client_new(const skep_options* options, const skep_data_source* data,
                                     const skep_trainer* trainer, skep_client** out,
                                     skep_outcome* why_not);

// Cancels, waits for the end of a run that skep_client_start began, and frees the client. NULL is
// allowed. Not from a callback.
SKEP_API void skep_client_free(skep_client* client);

// Sets a callback, or removes it (NULL). `user` is passed back and must outlive the client or the
// next call. SKEP_E_BUSY during a run, and between start and stop.
SKEP_API skep_status skep_client_on_device_state(skep_client* client, skep_state_fn fn, void* user);
SKEP_API skep_status skep_client_on_progress(skep_client* client, skep_progress_fn fn, void* user);
SKEP_API skep_status skep_client_on_outcome(skep_client* client, skep_outcome_fn fn, void* user);
SKEP_API skep_status skep_client_on_log(skep_client* client, skep_log_fn fn, void* user);

// Enrols now, by the join string, instead of at the first run: for an application that wants to
// tell its user at once. `name` may be NULL; the operator sees it beside the device. SKEP_OK also
// if the device is enrolled already.
SKEP_API skep_status skep_client_enrol(skep_client* client, const char* name,
                                       skep_outcome* outcome);

// One check-in, on this thread, for at most `budget_s` seconds and max_seconds_per_run. For
// WorkManager, BGTaskScheduler, a timer. Survives being killed: the next run goes on with what was
// finished. Called sooner than the last retry_after_s it returns SKEP_NO_WORK and touches no
// network. Returns outcome->status; `outcome` may be NULL. SKEP_E_BUSY: a run is on, or started.
SKEP_API skep_status skep_client_run_once(skep_client* client, uint32_t budget_s,
                                          skep_outcome* outcome);

// Starts a thread that checks in again and again, when the aggregator and the limits say, until
// skep_client_stop. For services. SKEP_E_BUSY: a run is on, or it was started already.
SKEP_API skep_status skep_client_start(skep_client* client);
// Cancels the thread's run and waits for the thread, if there is one. Not from a callback.
SKEP_API void skep_client_stop(skep_client* client);

// Ends the run that is on, within 250 ms outside callbacks; it comes to SKEP_CANCELLED. Returns at
// once. Nothing happens if no run is on. Any thread, also from a callback.
SKEP_API void skep_client_cancel(skep_client* client);

// Withdraws: wipes keys, cache and history from storage_dir. What was spent of a privacy budget
// stays on record. Afterwards only skep_client_free may follow; other calls give SKEP_E_ARGUMENT
// (SKEP-7004). To take part again, make a client with a new join string. SKEP_E_BUSY: a run is on,
// or between start and stop. SKEP_E_STORAGE: something could not be deleted.
SKEP_API skep_status skep_client_forget(skep_client* client);

// One JSON object each. History: {"contributions": [...]}, newest first. Status: enrolment, next
// check-in, last outcome, today's bytes, eligibility.
// `*len` is the size of `buf` when called. After SKEP_OK it is the length of the text, which a NUL
// follows in `buf`. After SKEP_E_BUFFER it is the size that is needed, NUL included. So start with
// *len = 0 (`buf` may then be NULL) and loop, as the text may grow in between. Any thread.
SKEP_API skep_status skep_client_history_json(const skep_client* client, char* buf, size_t* len);
SKEP_API skep_status skep_client_status_json(const skep_client* client, char* buf, size_t* len);

// --- A task: inside the callbacks of data source and trainer -------------------------------------
//
// On the thread of the callback; a worker of the trainer's own must not call these.

enum { SKEP_TASK_TRAIN = 1, SKEP_TASK_EVALUATE = 2 };

// SKEP_TASK_...
SKEP_API int32_t skep_task_kind(const skep_task* task);
// Names the task in logs. Valid as long as the task.
SKEP_API const char* skep_task_id(const skep_task* task);
// The round of the task's run.
SKEP_API uint64_t skep_task_round(const skep_task* task);
// The seed to rewind with for `epoch` = 0, 1, ...
SKEP_API uint64_t skep_task_seed(const skep_task* task, uint32_t epoch);

// SKEP_OK: go on. Anything else (cancelled, not eligible any more, a limit): return it at once. May
// sleep, to keep to max_cpu.
SKEP_API skep_status skep_task_check(const skep_task* task);

// A value of the plan, or the other one if the plan does not have it. Numbers:
//   client.learning_rate, .batch_size, .momentum, .nesterov, .weight_decay, .gradient_clip,
//   .proximal_mu, .num_classes, .number; .local_epochs and .local_steps, of which exactly one is
//   above 0; what an algorithm adds, such as training.feddyn_alpha.
// Texts, valid as long as the task (`fallback` is returned as it is):
//   training.algorithm, training.weighting, client.optimizer, client.batch_tail,
//   model.architecture, model.loss, model.input, model.layer.0001 ..., model.init.0001 ...,
//   data.task, data.spec.
SKEP_API double skep_task_number(const skep_task* task, const char* key, double fallback);
SKEP_API const char* skep_task_text(const skep_task* task, const char* key, const char* fallback);

// For trainers: the application's own data source, seen through the library, which checks its
// batches and does what skep_task_check does. The caller sets out->struct_size. What the batch
// points to stays valid until the next call of either.
SKEP_API skep_status skep_task_rewind(skep_task* task, uint64_t seed);
SKEP_API skep_status skep_task_next(skep_task* task, size_t max_rows, skep_batch* out);

// For trainers: share of the work done, 0 ... 1 or -1, and the latest loss or NaN.
SKEP_API void skep_task_progress(skep_task* task, double fraction, double loss);

// For trainers: a result of evaluation or training, such as "accuracy". Only names that the plan
// lists leave the device, and only finite values. SKEP_E_ARGUMENT: more than 32 names.
SKEP_API skep_status skep_task_metric(skep_task* task, const char* name, double value);

// Says why the callback is about to return an error. Shown to the log callback at debug level only;
// the aggregator learns no more than that the task failed.
SKEP_API void skep_task_fail(const skep_task* task, const char* local_message);

#ifdef __cplusplus
}
#endif

#endif  // SKEP_SKEP_H
