// Checkpoints: the models of a run directory, and the place from which an interrupted run goes on.
//
// Writes checkpoints/round-000021.safetensors every so many rounds and keeps the last few,
// best.safetensors for the best round so far, model.safetensors at the end. Where clients keep
// tensors of their own, round-000021.private.safetensors beside the model has those of all clients
// that took part. Each appears whole or not at all. Called by the simulation after every published
// round. One thread. Source: docs/formats.md (safetensors); docs/reference (run directory).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shared/model/model_spec.h"
#include "shared/model/safetensors.h"
#include "simulator/metrics_log.h"
#include "simulator/records.h"
#include "simulator/simulation.h"

namespace skep::simulator {

struct CheckpointRules {
  std::string folder;       // the run directory
  std::uint32_t every = 1;  // 0: only at the end
  std::uint32_t keep = 2;
  std::string target_metric;  // "test/accuracy": what makes a round the best
  bool maximise = true;
  model::Metadata metadata;  // of every file, without what depends on the round
};

class Checkpoints final : public CheckpointWriter, public Recorder {
 public:
  // `recorder` is told of every checkpoint. `health` may end the run: the state of the run's other
  // files. Both must outlive this.
  Checkpoints(CheckpointRules rules, Recorder& recorder, std::function<Status()> health);

  // Takes over what happened before a resume: best.safetensors is there already.
  void Restore(const std::vector<PublishedRound>& published);
  // Learns which round is the best; must come before Write of the same round.
  void On(const RoundRecord& round) override;
  using Recorder::On;

  [[nodiscard]] Status Write(const RoundState& state) override;
  // At the end of a run: model.safetensors, and the checkpoint of the last round if none is there.
  // `round` 0: nothing was published.
  [[nodiscard]] Status Finish(std::uint32_t round, const model::Params& model);

 private:
  [[nodiscard]] Status WriteCheckpoint(std::uint32_t round, const model::Params& model);
  [[nodiscard]] Status WriteBest(std::uint32_t round, const std::string& checkpoint);
  void ForgetOld();
  [[nodiscard]] model::Metadata MetadataOf(std::uint32_t round, const Hash32& hash) const;

  CheckpointRules rules_;
  Recorder& recorder_;
  std::function<Status()> health_;
  std::optional<double> best_;
  std::uint32_t best_round_ = 0;
  std::optional<model::Params> best_model_;  // not yet in best.safetensors
  OwnStates own_;                            // of the latest round
  std::uint32_t last_written_ = 0;
};

// The rounds of which `folder` (a run directory) holds a checkpoint, latest first.
[[nodiscard]] std::vector<std::uint32_t> CheckpointRounds(const std::string& folder);
[[nodiscard]] std::string CheckpointPath(const std::string& folder, std::uint32_t round);

// The latest checkpoint of `folder` that is whole and agrees with `history` and `config`. Nothing:
// the run begins anew. Damaged ones are passed over, each with a sentence in `notes`.
[[nodiscard]] std::optional<ResumePoint> FindResumePoint(const std::string& folder,
                                                         const MetricsHistory& history,
                                                         const Hash32& config,
                                                         const model::LayoutPtr& layout,
                                                         std::vector<std::string>& notes);

}  // namespace skep::simulator
