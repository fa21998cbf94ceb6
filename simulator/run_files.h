// RunFiles: the run directory while a run writes it; one Recorder for all of its files.
//
// Makes the directory, or goes on with one. Nothing in it holds an absolute path except log.txt, so
// that it can be moved. One thread. Source: docs/reference (run directory).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulator/checkpoint.h"
#include "simulator/metrics_log.h"
#include "simulator/plan.h"
#include "simulator/records.h"
#include "simulator/run_db.h"

namespace skep::simulator {

// Makes the folder that `pattern` (run.output) names: {name} and {time} are replaced, "-2", "-3",
// ... appended if it exists and is not empty. SKEP-4001.
[[nodiscard]] Result<std::string> MakeRunFolder(const std::string& pattern, const std::string& name,
                                                WallMs now);

// SKEP-1201: `folder` is no run directory, for want of `file`, or why it cannot be looked at.
[[nodiscard]] Error NoRunIn(const std::string& folder, const std::string& file);

// What an existing run directory says about the run that goes on.
struct ResumeState {
  MetricsHistory history;
  std::optional<ResumePoint> point;  // nothing: from the beginning
};

class RunFiles final : public Recorder {
 public:
  // Writes experiment.toml and partition.csv, and opens the others.
  [[nodiscard]] static Result<std::unique_ptr<RunFiles>> Create(const std::string& folder,
                                                                const Plan& plan);
  // Cuts the files back to the resume point. A run.db that is missing or damaged is made anew from
  // metrics.jsonl, with a sentence in `notes`.
  [[nodiscard]] static Result<std::unique_ptr<RunFiles>> Resume(const std::string& folder,
                                                                const Plan& plan,
                                                                const ResumeState& state,
                                                                std::vector<std::string>& notes);
  ~RunFiles() override;

  // Another recorder that is told everything, after the files; must outlive this.
  void Follow(Recorder& recorder) { followers_.push_back(&recorder); }
  [[nodiscard]] CheckpointWriter& checkpoints() { return *checkpoints_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }

  void On(const RunStart& start) override;
  void On(const ClientRecord& client) override;
  void On(const ClientMetric& metric) override;
  void On(const RoundRecord& round) override;
  void On(const NoteRecord& note) override;
  void On(const CheckpointRecord& checkpoint) override;
  void On(const RunEnd& end) override;
  void On(const Activity& activity) override;

  // Last: the models (not of a run that was stopped at once), and one closed run.db.
  [[nodiscard]] Status Finish(const RunEnd& end, const model::Params& model, bool is_stopped_now);

 private:
  class TextLog;
  RunFiles(std::string folder, const Plan& plan);
  template <class Record>
  void Tell(const Record& record);
  [[nodiscard]] Status Health() const;

  std::string folder_;
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<RunDb> db_;
  std::unique_ptr<TextLog> log_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::vector<Recorder*> followers_;
};

// The [model] section as JSON, for the metadata of model files.
[[nodiscard]] std::string ModelJson(const model::ModelSpec& model, const std::string& architecture);

// SKEP-1103: the run of `folder` was started with other keys than `plan`.
[[nodiscard]] Status CheckSameConfiguration(const std::string& folder,
                                            const MetricsHistory& history, const Plan& plan);

// Reads what resume needs of `folder`. SKEP-4001: no run directory, or one of another
// configuration.
[[nodiscard]] Result<ResumeState> ReadResumeState(const std::string& folder, const Plan& plan,
                                                  std::vector<std::string>& notes);

}  // namespace skep::simulator
