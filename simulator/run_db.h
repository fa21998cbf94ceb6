// run.db: the SQLite database of one run, for people, reports and comparisons.
//
// The writer takes records as they come and commits once a round; it repeats metrics.jsonl, so
// losing its last transaction loses nothing that resume does not redo. A write that fails is
// remembered (status) and ends the run at the next checkpoint. Reading opens the file read-only.
// One thread. Source: docs/formats.md (run.db).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulator/metrics_log.h"
#include "simulator/records.h"
#include "simulator/run_history.h"

namespace skep::simulator {

class RunDb final : public Recorder {
 public:
  // A new database; SKEP-4001 if it exists or cannot be written.
  [[nodiscard]] static Result<std::unique_ptr<RunDb>> Create(const std::string& path);
  // Goes on with a database: forgets what is later than `round`, and adds what `known` (every
  // attempt up to there) has and a crash took.
  [[nodiscard]] static Result<std::unique_ptr<RunDb>> Resume(const std::string& path,
                                                             std::uint32_t round,
                                                             const std::vector<RoundRecord>& known);
  // In place of one that is missing or damaged; a damaged file is kept as `path`.damaged. Holds
  // `known` and `rest` as soon as it is told the start of the run.
  [[nodiscard]] static Result<std::unique_ptr<RunDb>> Rebuild(const std::string& path,
                                                              std::vector<RoundRecord> known,
                                                              LoggedRecords rest);
  ~RunDb() override;

  void On(const RunStart& start) override;
  void On(const ClientRecord& client) override;
  void On(const ClientMetric& metric) override;
  void On(const RoundRecord& round) override;
  void On(const NoteRecord& note) override;
  void On(const RunEnd& end) override;
  using Recorder::On;

  // Leaves one file that can be copied and opened read-only. Call after the end of the run.
  void Close();

  // SKEP-4001 once a write failed.
  [[nodiscard]] const Status& status() const;

 private:
  class Impl;
  explicit RunDb(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Why the run cannot go on with this database, in words ("is missing"); nothing if it can. Reads
// all of it.
[[nodiscard]] std::optional<std::string> RunDbDamage(const std::string& path);

// SKEP-4001: no database, unreadable, or not of this format.
[[nodiscard]] Result<RunHistory> ReadRunDb(const std::string& path);

}  // namespace skep::simulator
