// StreamBatches: the batches of a task from a source whose length nobody knows beforehand.
//
// The batches are those that client/batches.h makes of the same rows; a test compares them. Reads
// two rows ahead where a last single row joins the batch before, else none. One thread. Source:
// McMahan et al. 2017, ClientUpdate of algorithm 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/example_source.h"
#include "client/trainer.h"
#include "shared/model/params.h"

namespace skep::client {

class StreamBatches {
 public:
  struct Rules {
    std::size_t values = 0;    // of an example
    std::size_t labels = 0;    // likewise
    std::size_t batch = 0;     // 0: all examples; the first epoch says how many
    std::uint32_t epochs = 0;  // exactly one of epochs and steps is > 0
    std::uint32_t steps = 0;
    bool merges_tail = false;  // a last batch of one row joins the batch before
  };
  struct View {
    const float* x = nullptr;
    const std::int32_t* y = nullptr;
    std::size_t rows = 0;  // 0: the task is over
  };

  // Starts over. `source` outlives the last batch.
  void Begin(const Rules& rules, const TaskIdentity& task, ExampleSource& source);
  // Valid until the next call. Errors of the source; SKEP-7402 if an epoch has no example.
  [[nodiscard]] Result<View> Next();

  // Of the batch that Next gave last.
  [[nodiscard]] std::uint64_t StepKey() const;
  [[nodiscard]] bool starts_epoch() const { return starts_epoch_; }
  [[nodiscard]] std::uint32_t steps() const { return steps_; }
  // Rows of the first epoch, so far: distinct ones.
  [[nodiscard]] std::size_t first_epoch_rows() const { return first_epoch_rows_; }

 private:
  [[nodiscard]] Status BeginEpoch();
  [[nodiscard]] Status ReadUpTo(std::size_t rows);
  [[nodiscard]] Status ReadAll();
  void Shift();

  Rules rules_;
  TaskIdentity task_;
  ExampleSource* source_ = nullptr;
  model::FloatVector x_;  // aligned: the loops of the first layer read it in whole lines
  std::vector<std::int32_t> y_;
  std::size_t held_ = 0;   // rows that were read
  std::size_t given_ = 0;  // of them, those that Next gave last
  bool is_at_end_ = true;  // the source has no more in this epoch
  bool starts_epoch_ = false;
  std::uint32_t epoch_ = 0;  // begun so far
  std::uint32_t steps_ = 0;
  std::size_t first_epoch_rows_ = 0;
};

}  // namespace skep::client
