// skep/client.hpp: takes part in federated learning from a C++20 application. A layer over
// skep/skep.h.
//
//     struct Readings : skep::DataSource { ... };   // count, rewind, next over your own store
//
//     skep::Client client({.join_string = join_string, .storage_dir = "/var/lib/pump/skep",
//                          .eligibility = {.charging = false}},
//                         std::make_shared<Readings>());
//     const skep::Outcome outcome = client.run_once(std::chrono::minutes{5});
//     scheduler.wake_in(outcome.retry_after);
//
// Header-only: no C++ type crosses the boundary of the library, so the application's compiler and
// standard library may differ from those that built it. skep/skep.h has what is not repeated here:
// threads, manners, and the contracts of data and training in full.
//
// Exceptions. Data sources, trainers and callbacks may throw; nothing passes through C. What a data
// source throws ends the run with SKEP_E_DATA, what a trainer throws with SKEP_E_TRAINER, and
// std::bad_alloc with SKEP_E_MEMORY; the text stays on this device (log callback, debug level).
// What any other callback throws is dropped. Client's own calls throw skep::Error, except where it
// is said that they do not: a run that comes to nothing is a result, not an exception.
//
// GCC 11 or clang 14 and later, with libstdc++ or libc++ 14 and later.
#pragma once

#include <skep/skep.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace skep {
// The names of the layer are the application's own: those of a library that is linked statically
// must not meet them.
inline namespace app {

using Status = skep_status;             // SKEP_OK, or what else skep.h lists
using Tensor = skep_tensor;             // name, data, shape, nbytes, dtype, rank
using Batch = skep_batch;               // rows of examples
using DeviceState = skep_device_state;  // charging, idle, ...: 1 yes, 0 no, -1 unknown
using Progress = skep_progress;         // phase, fraction, loss, bytes

class Error : public std::runtime_error {
 public:
  Error(Status s, int c, const std::string& text) : std::runtime_error(text), status(s), code(c) {}

  const Status status;  // < 0
  const int code;       // the nnnn of SKEP-nnnn, or 0; skep_explain has its text
};

// What a run came to.
struct Outcome {
  Status status = SKEP_OK;
  int code = 0;                        // the nnnn of SKEP-nnnn, or 0
  std::chrono::seconds retry_after{};  // come back after that, not sooner
  std::uint64_t round = 0;             // 0 where no task was received
  std::uint64_t num_examples = 0;      // distinct examples that were used
  std::uint64_t bytes_down = 0;        // on the socket, during this run
  std::uint64_t bytes_up = 0;
  std::string message{};  // one sentence for a log; never holds training data

  [[nodiscard]] bool contributed() const { return status == SKEP_OK; }
  [[nodiscard]] bool failed() const { return status < 0; }
};

// --- Options -------------------------------------------------------------------------------------

// When the device may work. An unknown state does not meet a required one. Without a battery the
// conditions on power are met.
struct Eligibility {
  bool charging = true;
  bool idle = true;
  bool unmetered = true;
  float min_battery = 0.3F;  // share of a full one, ignored while charging
};

// What a run may take. Reaching a limit ends it with SKEP_LIMIT. Ranges: skep_options.
struct Limits {
  unsigned threads = 1;                                   // for the library's arithmetic
  float cpu = 0.7F;                                       // share of a core per thread, over 60 s
  std::string device = "auto";                            // auto, cpu, cuda:N
  std::uint64_t memory = std::uint64_t{256} << 20;        // bytes, of a run
  std::uint64_t storage = std::uint64_t{512} << 20;       // bytes, of the files in storage_dir
  std::uint64_t bytes_per_day = std::uint64_t{64} << 20;  // both directions, per UTC day
  std::chrono::seconds per_run{600};
  std::chrono::seconds between_runs{900};  // after a contribution
};

struct Options {
  std::string join_string{};  // enrols this device at its first run; may stay set afterwards
  std::string endpoint{};     // HOST:PORT; optional, must then agree with the enrolment
  std::string population{};   // required only if the enrolment covers several
  std::string app_version{};  // told to the aggregator; optional
  std::string policy_json{};  // the least this device insists on; optional
  std::string proxy{};        // http://HOST:PORT; optional
  std::filesystem::path storage_dir{};  // required: a folder of mode 0700 on a local disk
  Eligibility eligibility{};
  Limits limits{};
  int log_level = SKEP_LOG_INFO;  // least important level that on_log gets
};

// --- Tasks, data and training --------------------------------------------------------------------

// What a data source may know of the task. Valid during the call that received it.
class TaskView {
 public:
  explicit TaskView(const skep_task* task) : task_(task) {}

  [[nodiscard]] std::string_view id() const { return skep_task_id(task_); }
  [[nodiscard]] std::uint64_t round() const { return skep_task_round(task_); }
  // Held-out examples are asked for.
  [[nodiscard]] bool evaluating() const { return skep_task_kind(task_) == SKEP_TASK_EVALUATE; }
  // Values of the plan; the keys are listed at skep_task_number.
  [[nodiscard]] double number(const char* key, double otherwise) const {
    return skep_task_number(task_, key, otherwise);
  }
  [[nodiscard]] std::string_view text(const char* key, const char* otherwise = "") const {
    return skep_task_text(task_, key, otherwise);
  }

 private:
  const skep_task* task_;
};

// What a trainer works with. Valid during the call that received it.
class Task : public TaskView {
 public:
  explicit Task(skep_task* task) : TaskView(task), task_(task) {}

  // What to rewind with for epoch 0, 1, ...
  [[nodiscard]] std::uint64_t seed(std::uint32_t epoch) const {
    return skep_task_seed(task_, epoch);
  }
  // SKEP_OK: go on. Anything else: return it from train or evaluate at once.
  [[nodiscard]] Status check() const { return skep_task_check(task_); }
  // The application's data source, with the checks of the library and of check().
  [[nodiscard]] Status rewind(std::uint64_t seed) { return skep_task_rewind(task_, seed); }
  [[nodiscard]] Status next(std::size_t max_rows, Batch& out) {
    out.struct_size = sizeof out;
    return skep_task_next(task_, max_rows, &out);
  }
  // Share of the work done, 0 ... 1 or -1, and the latest loss or NaN.
  void progress(double fraction, double loss) { skep_task_progress(task_, fraction, loss); }
  // A result such as "accuracy", at most 32. Only names that the plan lists leave the device.
  Status metric(const char* name, double value) { return skep_task_metric(task_, name, value); }

 private:
  skep_task* task_;
};

// Where examples come from: the one thing that every application writes. May throw. The data must
// not change during a task.
struct DataSource {
  virtual ~DataSource() = default;
  // How many examples there are for this task; 0 sits it out. Cheap, may differ by a tenth from
  // what an epoch yields.
  virtual std::size_t count(TaskView task) = 0;
  // Starts an epoch. The same seed gives the same order; other seeds, other orders.
  virtual void rewind(TaskView task, std::uint64_t seed) = 0;
  // The next 1 ... max_rows rows, or out.rows = 0 at the end of the epoch. What `out` points to
  // stays valid until the next call of next or rewind.
  virtual void next(TaskView task, std::size_t max_rows, Batch& out) = 0;
};

// Trains in place of the library: LibTorch, ExecuTorch, LiteRT, your own. Optional. May throw.
struct Trainer {
  virtual ~Trainer() = default;
  // A sum of SKEP_CAN_...; asked once, when the client is made.
  [[nodiscard]] virtual std::uint32_t capabilities() const { return 0; }
  // Changes the elements of `model` in place. num_examples: distinct examples used, > 0; the weight
  // of the update. Returns SKEP_OK, or at once what task.next or task.check gave.
  virtual Status train(Task& task, std::span<Tensor> model, std::uint64_t& num_examples) = 0;
  // Reports by task.metric.
  virtual Status evaluate(Task& task, std::span<const Tensor> model,
                          std::uint64_t& num_examples) = 0;
};

// The elements of a tensor of type F32. Throws std::invalid_argument with its name if it is not.
[[nodiscard]] inline std::span<float> floats(Tensor& tensor) {
  if (tensor.dtype != SKEP_F32)
    throw std::invalid_argument(std::string(tensor.name) + " is not of type F32");
  return {static_cast<float*>(tensor.data), tensor.nbytes / sizeof(float)};
}
[[nodiscard]] inline std::span<const float> floats(const Tensor& tensor) {
  Tensor copy = tensor;
  return floats(copy);
}
[[nodiscard]] inline std::span<const std::int64_t> shape(const Tensor& tensor) {
  return {tensor.shape, tensor.rank};
}

// --- Inside: options as skep.h has them, and what every layer needs ---

namespace detail {

inline std::uint32_t whole(std::chrono::seconds s) {
  if (s.count() <= 0) return 0;
  return s.count() > INT64_C(0xFFFFFFFF) ? UINT32_MAX : static_cast<std::uint32_t>(s.count());
}

inline void check(Status status) {
  if (status != SKEP_OK) throw Error(status, 0, skep_status_name(status));
}

// Points into the options that it was made of.
class PlainOptions {
 public:
  explicit PlainOptions(const Options& o) : storage_dir_(o.storage_dir.string()) {
    skep_options_init(&c_, sizeof c_);
    c_.join_string = o.join_string.c_str();
    c_.endpoint = o.endpoint.c_str();
    c_.population = o.population.c_str();
    c_.app_version = o.app_version.c_str();
    c_.policy_json = o.policy_json.c_str();
    c_.storage_dir = storage_dir_.c_str();
    c_.proxy = o.proxy.c_str();
    c_.log_level = o.log_level;
    c_.require_charging = o.eligibility.charging;
    c_.require_idle = o.eligibility.idle;
    c_.require_unmetered = o.eligibility.unmetered;
    c_.min_battery = o.eligibility.min_battery;
    c_.device = o.limits.device.c_str();
    c_.max_threads = o.limits.threads;
    c_.max_cpu = o.limits.cpu;
    c_.max_memory = o.limits.memory;
    c_.max_storage = o.limits.storage;
    c_.max_bytes_per_day = o.limits.bytes_per_day;
    c_.max_seconds_per_run = whole(o.limits.per_run);
    c_.min_seconds_between_runs = whole(o.limits.between_runs);
  }
  PlainOptions(const PlainOptions&) = delete;
  PlainOptions& operator=(const PlainOptions&) = delete;
  [[nodiscard]] const skep_options* get() const { return &c_; }

 private:
  std::string storage_dir_;
  skep_options c_{};
};

// A text of unknown length, as the ..._json calls give it.
template <class Get>
[[nodiscard]] std::string text_of(Get&& get) {
  std::string text;
  std::size_t size = 0;
  Status status = get(text.data(), &size);
  while (status == SKEP_E_BUFFER) {  // the text may have grown since it was measured
    text.resize(size);
    status = get(text.data(), &size);
  }
  check(status);
  text.resize(size);
  return text;
}

using GetOfFolder = Status (*)(const skep_options*, char*, std::size_t*, skep_outcome*);
[[nodiscard]] inline std::string text_of_folder(GetOfFolder get, const Options& options) {
  const PlainOptions c(options);
  skep_outcome why_not{};
  why_not.struct_size = sizeof why_not;
  return text_of([&](char* buf, std::size_t* len) {
    const Status status = get(c.get(), buf, len, &why_not);
    if (status < 0 && status != SKEP_E_BUFFER) throw Error(status, why_not.code, why_not.message);
    return status;
  });
}

}  // namespace detail

// --- Looking at a folder, without a client -------------------------------------------------------

// What Client::status_json and history_json say of options.storage_dir; a client may be at work in
// it. Throw Error: SKEP_E_STORAGE where it is no folder of a client's.
[[nodiscard]] inline std::string status_json(const Options& options) {
  return detail::text_of_folder(&skep_status_json, options);
}
[[nodiscard]] inline std::string history_json(const Options& options) {
  return detail::text_of_folder(&skep_history_json, options);
}

// One step of a diagnosis.
struct Step {
  std::string name{};
  int code = 0;          // the nnnn of SKEP-nnnn, or 0: it is well
  std::string found{};   // what was found
  std::string advice{};  // what to do, or empty
};
// Tries what a check-in needs, up to the first step that fails, and tells of each as it is done.
// Contributes nothing. The status of the last step.
inline Status diagnose(const Options& options, const std::function<void(const Step&)>& tell) {
  const detail::PlainOptions c(options);
  const auto step = [](void* user, const char* name, std::int32_t code, const char* found,
                       const char* advice) {
    (*static_cast<const std::function<void(const Step&)>*>(user))({name, code, found, advice});
  };
  return skep_diagnose(c.get(), step, const_cast<std::function<void(const Step&)>*>(&tell));
}

// --- Client --------------------------------------------------------------------------------------

// One enrolled device. Movable, not copyable; a moved-from client can only be destroyed or assigned
// to. One thread at a time, except for cancel, history_json and status_json: any thread (of a
// client that is not being moved or destroyed). The destructor cancels and waits.
class Client {
 public:
  // Opens options.storage_dir; no network. Without a trainer the library trains the plan's layers.
  // Throws Error: SKEP_E_ARGUMENT (the text names the option), SKEP_E_BUSY, SKEP_E_STORAGE.
  Client(const Options& options, std::shared_ptr<DataSource> data,
         std::shared_ptr<Trainer> trainer = nullptr)
      : state_(std::make_unique<State>()) {
    if (!data) throw Error(SKEP_E_ARGUMENT, 7003, "a data source is required");
    state_->data = std::move(data);
    state_->trainer = std::move(trainer);
    open(options);
  }

  // Callbacks. They run on the thread of the run; an empty function removes one. Each throws Error
  // with SKEP_E_BUSY during a run and between start and stop.
  //
  // Asked for the state of the device, in place of the library's own probes; arrives all unknown.
  void on_device_state(std::function<void(DeviceState&)> f) {
    hook(&skep_client_on_device_state, state_->device_state, std::move(f), &State::on_device_state);
  }
  void on_progress(std::function<void(const Progress&)> f) {
    hook(&skep_client_on_progress, state_->progress, std::move(f), &State::on_progress);
  }
  // After every run, also those of start().
  void on_outcome(std::function<void(const Outcome&)> f) {
    hook(&skep_client_on_outcome, state_->outcome, std::move(f), &State::on_outcome);
  }
  // SKEP_LOG_... and one line, without its end.
  void on_log(std::function<void(int, std::string_view)> f) {
    hook(&skep_client_on_log, state_->log, std::move(f), &State::on_log);
  }

  // Enrols now instead of at the first run; SKEP_OK also if the device is enrolled already. The
  // operator sees `name` beside the device.
  Outcome enrol(const std::string& name = {}) {
    skep_outcome outcome{};
    outcome.struct_size = sizeof outcome;
    skep_client_enrol(state_->handle, name.c_str(), &outcome);
    return convert(outcome);
  }

  // One check-in on this thread, for at most `budget`; from WorkManager, BGTaskScheduler, a timer.
  // Does not throw what the run came to.
  Outcome run_once(std::chrono::seconds budget = std::chrono::minutes{10}) {
    skep_outcome outcome{};
    outcome.struct_size = sizeof outcome;
    skep_client_run_once(state_->handle, detail::whole(budget), &outcome);
    return convert(outcome);
  }

  // A thread of the library's that checks in again and again, until stop(). For services.
  void start() { detail::check(skep_client_start(state_->handle)); }
  void stop() noexcept { skep_client_stop(state_->handle); }

  // Ends the run that is on, which comes to SKEP_CANCELLED. Any thread, also in a callback.
  void cancel() noexcept { skep_client_cancel(state_->handle); }

  // Withdraws: wipes keys, cache and history. Afterwards the client can only be destroyed.
  void forget() { detail::check(skep_client_forget(state_->handle)); }

  // One JSON object each: contributions, newest first / enrolment, next check-in, last outcome.
  [[nodiscard]] std::string history_json() const { return json(&skep_client_history_json); }
  [[nodiscard]] std::string status_json() const { return json(&skep_client_status_json); }

 private:
  // What the library's callbacks point to: its address stays when the client is moved.
  struct State {
    skep_client* handle = nullptr;
    std::shared_ptr<DataSource> data;
    std::shared_ptr<Trainer> trainer;
    std::function<void(DeviceState&)> device_state;
    std::function<void(const Progress&)> progress;
    std::function<void(const Outcome&)> outcome;
    std::function<void(int, std::string_view)> log;

    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() { skep_client_free(handle); }  // before what the callbacks use goes away

    static State& of(void* user) { return *static_cast<State*>(user); }

    // Calls f; what it throws becomes `status`.
    template <class F>
    static Status guard(Status status, const skep_task* task, F&& f) noexcept {
      try {
        return f();
      } catch (const std::bad_alloc&) {
        return SKEP_E_MEMORY;
      } catch (const std::exception& e) {
        skep_task_fail(task, e.what());
      } catch (...) {
        skep_task_fail(task, "an exception that is no std::exception");
      }
      return status;
    }
    template <class F>
    static void drop(F&& f) noexcept {
      try {
        f();
      } catch (...) {
      }
    }

    static std::int64_t count(void* user, const skep_task* task) {
      std::int64_t n = 0;
      const Status status = guard(SKEP_E_DATA, task, [&]() -> Status {
        n = static_cast<std::int64_t>(of(user).data->count(TaskView(task)));
        return SKEP_OK;
      });
      return status == SKEP_OK ? n : status;
    }
    static Status rewind(void* user, const skep_task* task, std::uint64_t seed) {
      return guard(SKEP_E_DATA, task, [&]() -> Status {
        of(user).data->rewind(TaskView(task), seed);
        return SKEP_OK;
      });
    }
    static Status next(void* user, const skep_task* task, std::size_t max_rows, Batch* out) {
      return guard(SKEP_E_DATA, task, [&]() -> Status {
        of(user).data->next(TaskView(task), max_rows, *out);
        return SKEP_OK;
      });
    }
    static Status train(void* user, skep_task* task, Tensor* model, std::size_t count,
                        std::uint64_t* num_examples) {
      return guard(SKEP_E_TRAINER, task, [&] {
        Task view(task);
        return of(user).trainer->train(view, {model, count}, *num_examples);
      });
    }
    static Status evaluate(void* user, skep_task* task, const Tensor* model, std::size_t count,
                           std::uint64_t* num_examples) {
      return guard(SKEP_E_TRAINER, task, [&] {
        Task view(task);
        return of(user).trainer->evaluate(view, {model, count}, *num_examples);
      });
    }

    static void on_device_state(void* user, DeviceState* out) {
      drop([&] { of(user).device_state(*out); });
    }
    static void on_progress(void* user, const Progress* progress) {
      drop([&] { of(user).progress(*progress); });
    }
    static void on_outcome(void* user, const skep_outcome* outcome) {
      drop([&] { of(user).outcome(convert(*outcome)); });
    }
    static void on_log(void* user, std::int32_t level, const char* line) {
      drop([&] { of(user).log(level, line); });
    }
  };

  void open(const Options& o) {
    const detail::PlainOptions c(o);
    State& s = *state_;
    const skep_data_source data{sizeof data, 0, &s, &State::count, &State::rewind, &State::next};
    const std::uint32_t can = s.trainer ? s.trainer->capabilities() : 0;
    const skep_trainer trainer{sizeof trainer, can, &s, &State::train, &State::evaluate};
    skep_outcome why_not{};
    why_not.struct_size = sizeof why_not;
    const Status status =
        skep_client_new(c.get(), &data, s.trainer ? &trainer : nullptr, &s.handle, &why_not);
    if (status != SKEP_OK) throw Error(status, why_not.code, why_not.message);
  }

  template <class Set, class F, class Trampoline>
  void hook(Set set, F& slot, F f, Trampoline trampoline) {
    detail::check(
        set(state_->handle, nullptr, nullptr));  // during a run the old function must stay
    slot = std::move(f);
    if (slot) detail::check(set(state_->handle, trampoline, state_.get()));
  }

  [[nodiscard]] std::string json(Status (*get)(const skep_client*, char*, std::size_t*)) const {
    return detail::text_of(
        [&](char* buf, std::size_t* len) { return get(state_->handle, buf, len); });
  }

  static Outcome convert(const skep_outcome& o) {
    return {o.status,   o.code,         std::chrono::seconds{o.retry_after_s},
            o.round,    o.num_examples, o.bytes_down,
            o.bytes_up, o.message};
  }

  std::unique_ptr<State> state_;
};

}  // namespace app
}  // namespace skep
