// An application whose n-th allocation fails: one check-in over skep/skep.h in a process of its
// own.
//
//   short_memory FOLDER N [CHECK_INS]
//
// N = 0: none fails; prints how many there were and how many bytes are held behind each tenth of
// the check-ins. Exit: 0 contributed or had no work, 1 another outcome, 2 no client; dies if an
// exception leaves the library.
#include <skep/skep.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include <execinfo.h>
#include <malloc.h>

namespace {

std::atomic<long> allocations{0};
std::atomic<long> fails_at{0};
std::atomic<long> held{0};

void* Take(std::size_t bytes) {
  if (allocations.fetch_add(1) + 1 == fails_at) throw std::bad_alloc();
  void* const place = std::malloc(bytes == 0 ? 1 : bytes);
  if (place == nullptr) throw std::bad_alloc();
  held += static_cast<long>(malloc_usable_size(place));
  return place;
}

void Give(void* place) {
  if (place == nullptr) return;
  held -= static_cast<long>(malloc_usable_size(place));
  std::free(place);
}

constexpr std::size_t kRows = 16;
struct Rows {
  std::array<float, 2 * kRows> x{};
  std::array<std::int64_t, kRows> y{};
  std::size_t at = 0;
};

std::int64_t Count(void*, const skep_task*) {
  return kRows;
}
skep_status Rewind(void* user, const skep_task*, std::uint64_t) {
  static_cast<Rows*>(user)->at = 0;
  return SKEP_OK;
}
skep_status Next(void* user, const skep_task*, std::size_t most, skep_batch* out) {
  Rows& rows = *static_cast<Rows*>(user);
  const std::size_t count = most < kRows - rows.at ? most : kRows - rows.at;
  out->x_dtype = SKEP_F32;
  out->y_dtype = SKEP_I64;
  out->x = rows.x.data() + 2 * rows.at;
  out->y = rows.y.data() + rows.at;
  out->rows = count;
  out->x_cols = 2;
  out->y_cols = 1;
  rows.at += count;
  return SKEP_OK;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return Take(bytes);
}
void* operator new[](std::size_t bytes) {
  return Take(bytes);
}
void operator delete(void* place) noexcept {
  Give(place);
}
void operator delete[](void* place) noexcept {
  Give(place);
}
void operator delete(void* place, std::size_t) noexcept {
  Give(place);
}
void operator delete[](void* place, std::size_t) noexcept {
  Give(place);
}

// What ends the process is found by the place that it comes from.
[[noreturn]] void ShowPlace() {
  std::array<void*, 64> frames{};
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), frames.size()), 2);
  std::abort();
}

int main(int count, char** words) {
  if (count < 3) return 64;
  std::set_terminate(ShowPlace);
  const long check_ins = count > 3 ? std::atol(words[3]) : 1;
  skep_options options;
  skep_options_init(&options, sizeof options);
  options.storage_dir = words[1];
  options.require_charging = options.require_idle = options.require_unmetered = 0;
  options.min_seconds_between_runs = 0;
  options.max_bytes_per_day = std::uint64_t{1} << 40U;
  options.device = "cpu:portable";
  Rows rows;
  const skep_data_source source{sizeof source, 0, &rows, &Count, &Rewind, &Next};
  skep_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  fails_at = allocations + std::atol(words[2]);
  if (std::atol(words[2]) == 0) fails_at = 0;
  const long before = allocations;
  skep_client* client = nullptr;
  if (skep_client_new(&options, &source, nullptr, &client, &outcome) != SKEP_OK) {
    std::printf("no client: %d %s\n", outcome.status, outcome.message);
    return 2;
  }
  skep_status status = SKEP_OK;
  for (long i = 0; i < check_ins && status >= 0; ++i) {
    status = skep_client_run_once(client, 60, &outcome);
    if (check_ins > 10 && (i + 1) % (check_ins / 10) == 0) std::printf("held %ld\n", held.load());
  }
  skep_client_free(client);
  std::printf("allocations %ld\nstatus %d %s\n", allocations - before, status, outcome.message);
  return status >= 0 ? 0 : 1;
}
