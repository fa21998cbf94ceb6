// AppSource: the application's data source with every batch checked, for the built-in trainer and
// for one of the application's own.
//
// Trusts nothing that comes out of it but its pointers. One thread: the application's. Source: Skep
// client library, section 6 (contracts of DataSource).
#pragma once

#include <skep/skep.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "client/embed/task.h"
#include "client/example_source.h"
#include "client/trainer.h"

namespace skep::embed {

class AppSource final : public client::ExampleSource {
 public:
  // All outlive it. `counted`: examples that the source said there are.
  AppSource(const skep_data_source& functions, const skep_task& task,
            const client::TrainingPlan& plan, std::size_t counted);

  // A tenth more than were counted.
  [[nodiscard]] std::size_t most_rows() const override { return most_rows_; }
  [[nodiscard]] Status Rewind(std::uint64_t seed) override;
  // As values and classes. SKEP-7107 for numbers as labels, and for weights of examples: the
  // built-in trainer has no use for them.
  [[nodiscard]] Result<std::size_t> Next(std::size_t most, float* x, std::int32_t* y) override;

  // The batch as the application gave it. SKEP-7101 to 7107; SKEP-7414 if the first one does not
  // suit the model.
  [[nodiscard]] Result<skep_batch> NextBatch(std::size_t most);

  // Examples of all epochs that were handed on.
  [[nodiscard]] std::size_t rows_given() const { return rows_given_; }

 private:
  [[nodiscard]] Status Failed(skep_status status) const;
  [[nodiscard]] Status CheckShape(const skep_batch& batch, std::size_t most);
  [[nodiscard]] Status CheckValues(const skep_batch& batch) const;
  [[nodiscard]] Status CheckLabels(const skep_batch& batch) const;

  const skep_data_source& functions_;
  const skep_task& task_;
  const client::TrainingPlan& plan_;
  std::size_t most_rows_;
  std::size_t row_ = 0;  // of the epoch, behind the last batch
  std::size_t rows_given_ = 0;
  bool has_begun_ = false;  // a first batch came
  skep_dtype x_dtype_ = 0;  // of it, likewise
  skep_dtype y_dtype_ = 0;
};

}  // namespace skep::embed
