// A data source of a few rows, for tests of the layers over skep/skep.h. Not thread-safe.
#pragma once

#include <skep/client.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace skep::test {

// `rows` examples of two features; example i is (i, -i) and of class i mod 10. Counts its calls,
// and does before each of them what a test says.
struct Rows : DataSource {
  explicit Rows(std::size_t n = 100) : rows(n) {}

  std::size_t count(TaskView task) override {
    if (before_count) before_count(task);
    return rows;
  }
  void rewind(TaskView, std::uint64_t seed) override {
    if (before_rewind) before_rewind();
    at = 0;
    seeds.push_back(seed);
  }
  void next(TaskView, std::size_t max_rows, Batch& out) override {
    if (before_next) before_next();
    x.clear();
    y.clear();
    for (; at < rows && y.size() < max_rows; ++at) {
      x.push_back(static_cast<float>(at));
      x.push_back(-static_cast<float>(at));
      y.push_back(static_cast<std::int64_t>(at % 10));
    }
    out.x_dtype = SKEP_F32;
    out.y_dtype = SKEP_I64;
    out.x = x.data();
    out.y = y.data();
    out.rows = y.size();
    out.x_cols = 2;
    out.y_cols = 1;
  }

  std::size_t rows;
  std::size_t at = 0;
  std::vector<std::uint64_t> seeds;
  std::vector<float> x;
  std::vector<std::int64_t> y;
  std::function<void(TaskView)> before_count;
  std::function<void()> before_rewind;
  std::function<void()> before_next;
};

// Options for a device that is always ready. `script`: see StubScript.
inline Options Ready(const std::string& script = "", const std::string& storage_dir = "device") {
  return {.endpoint = script,
          .storage_dir = storage_dir,
          .eligibility = {.charging = false, .idle = false, .unmetered = false, .min_battery = 0},
          .log_level = SKEP_LOG_DEBUG};
}

}  // namespace skep::test
