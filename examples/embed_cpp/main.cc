// A C++ application whose device takes part: one check-in, with readings of a pump as its data.
//
//     pump --join-file join.txt --storage state
//
// A scheduler (cron, WorkManager, a timer of your own) calls it again after the time that it
// prints.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <skep/client.hpp>
#include <string>
#include <vector>

// The application's own data: four vibration values a reading, and whether the bearing was worn.
class Readings : public skep::DataSource {
 public:
  Readings() : order_(kRows) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    for (std::size_t i = 0; i < kRows; ++i) {
      is_worn_.push_back(static_cast<std::int64_t>(i % 2));
      for (std::size_t j = 0; j < kColumns; ++j)
        x_.push_back(static_cast<float>((i * 37 + j * 11) % 100) / 100.0F + (i % 2 ? 0.5F : 0.0F));
    }
  }
  std::size_t count(skep::TaskView) override { return kRows; }
  // The same seed must give the same order on every run of the program.
  void rewind(skep::TaskView, std::uint64_t seed) override {
    std::sort(order_.begin(), order_.end());
    for (std::size_t i = kRows - 1; i > 0; --i) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      std::swap(order_[i], order_[(seed >> 33) % (i + 1)]);
    }
    taken_ = 0;
  }
  void next(skep::TaskView, std::size_t max_rows, skep::Batch& out) override {
    batch_x_.clear();
    batch_y_.clear();
    for (; taken_ < kRows && batch_y_.size() < max_rows; ++taken_) {
      const auto row = x_.begin() + static_cast<std::ptrdiff_t>(order_[taken_] * kColumns);
      batch_x_.insert(batch_x_.end(), row, row + kColumns);
      batch_y_.push_back(is_worn_[order_[taken_]]);
    }
    out.x = batch_x_.data(), out.x_dtype = SKEP_F32, out.x_cols = kColumns;
    out.y = batch_y_.data(), out.y_dtype = SKEP_I64, out.y_cols = 1;
    out.rows = batch_y_.size();
  }

 private:
  static constexpr std::size_t kRows = 412;
  static constexpr std::size_t kColumns = 4;
  std::vector<float> x_, batch_x_;
  std::vector<std::int64_t> is_worn_, batch_y_;
  std::vector<std::size_t> order_;  // of the rows in this epoch
  std::size_t taken_ = 0;           // rows of it that were handed out
};

int main(int argc, char** argv) try {
  if (argc != 5 || std::string(argv[1]) != "--join-file" || std::string(argv[3]) != "--storage") {
    std::fprintf(stderr, "usage: %s --join-file FILE --storage FOLDER\n", argv[0]);
    return 2;
  }
  std::string join;  // may be empty once the device is enrolled
  std::getline(std::ifstream(argv[2]) >> std::ws, join);
  skep::Client client({.join_string = join,
                       .storage_dir = argv[4],
                       .eligibility = {.idle = false, .unmetered = false}},
                      std::make_shared<Readings>());
  client.on_progress([](const skep::Progress& p) {
    if (p.phase == SKEP_PHASE_TRAIN) std::printf("  %3.0f %% trained\n", 100 * p.fraction);
  });
  const skep::Outcome outcome = client.run_once(std::chrono::minutes{5});
  std::printf("%s: %s; come back in %lld s\n", skep_status_name(outcome.status),
              outcome.message.c_str(), static_cast<long long>(outcome.retry_after.count()));
  return outcome.failed() ? 1 : 0;
} catch (const skep::Error& e) {
  std::fprintf(stderr, "SKEP-%d: %s\n", e.code, e.what());
  return 1;
}
