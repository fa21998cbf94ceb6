// What the simulator's tests share: a small table with three sites, plans made of experiment texts,
// and recorders that keep what they are told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/plan.h"
#include "simulator/records.h"
#include "simulator/simulation.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::simulator {

// A folder with table.csv (300 rows, 2 classes, 3 sites) and experiments beside it.
class ExperimentFolder {
 public:
  ExperimentFolder();

  [[nodiscard]] const test::TemporaryFolder& folder() const { return folder_; }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  // Twelve clients, four a round, six rounds; `sets` as for --set.
  [[nodiscard]] Plan MakePlanWith(const std::vector<std::string>& sets = {}) const;

 private:
  test::TemporaryFolder folder_;
};

// The experiment that MakePlanWith reads.
[[nodiscard]] std::string SmallExperiment();

struct Recording final : public Recorder {
  void On(const RunStart& start) override { starts.push_back(start); }
  void On(const ClientRecord& client) override { clients.push_back(client); }
  void On(const ClientMetric& metric) override { client_metrics.push_back(metric); }
  void On(const RoundRecord& round) override { rounds.push_back(round); }
  void On(const NoteRecord& note) override { notes.push_back(note); }
  void On(const CheckpointRecord& checkpoint) override { checkpoints.push_back(checkpoint); }
  void On(const RunEnd& run_end) override { end = run_end; }
  using Recorder::On;

  std::vector<RunStart> starts;
  std::vector<ClientRecord> clients;
  std::vector<ClientMetric> client_metrics;
  std::vector<RoundRecord> rounds;
  std::vector<NoteRecord> notes;
  std::vector<CheckpointRecord> checkpoints;
  std::optional<RunEnd> end;
};

// Keeps the model of every round, and fails at `fail_at` if that is not 0.
class MemoryCheckpoints final : public CheckpointWriter {
 public:
  [[nodiscard]] Status Write(const RoundState& state) override {
    if (state.round == fail_at) return Error{4001, "no space left", ""};
    models.push_back(std::make_shared<const model::Params>(state.model));
    own.push_back(state.own);
    return Ok();
  }
  std::uint32_t fail_at = 0;
  std::vector<model::ParamsPtr> models;  // of rounds 1, 2, ... since the start or the resume
  std::vector<OwnStates> own;            // likewise: what clients keep for themselves
};

struct Outcome {
  RunEnd end;
  Recording recording;
  MemoryCheckpoints checkpoints;
};
// Runs `setup` to its end.
[[nodiscard]] Outcome RunToEnd(SimulationSetup setup, std::uint32_t fail_at = 0);

// Where `outcome` stood after `round`.
[[nodiscard]] ResumePoint PointAfter(const Outcome& outcome, std::uint32_t round);

// A start record of a run that never was, with names and figures of all kinds.
[[nodiscard]] RunStart SampleStart();
[[nodiscard]] RoundRecord SampleRound(std::uint32_t round);

}  // namespace skep::simulator
