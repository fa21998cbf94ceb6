// RoundLog: turns what the engine reports into one record per attempt, and keeps the figures of the
// whole run: best metric, rounds to target, result hash.
//
// One thread. Source: docs/experiments.md (rounds to target, metrics); docs/formats.md
// (result_sha256).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/engine/events.h"
#include "simulator/records.h"

namespace skep::simulator {

// Percentile q in [0, 1] by linear interpolation between order statistics, h = (N - 1) q.
// Precondition: not empty.
[[nodiscard]] double Percentile(std::vector<double> values, double q);

// R(q) of rounds to target: rounds from 1 on, `values` in round order. Nothing if not reached.
struct EvaluatedRound {
  std::uint32_t round = 0;
  double value = 0;
};
[[nodiscard]] std::optional<double> RoundsToTarget(const std::vector<EvaluatedRound>& values,
                                                   double target, bool maximise);

// What a published round contributes to the result hash.
struct PublishedRound {
  std::uint32_t round = 0;
  Hash32 model;
  Metrics metrics;  // without those that start with "time/"
};
[[nodiscard]] Hash32 ResultHash(const Hash32& config, const Hash32& data, const Hash32& layout,
                                const std::vector<PublishedRound>& rounds);

class RoundLog {
 public:
  struct Rules {
    std::string target_metric;  // "test/accuracy"
    bool maximise = true;
    std::optional<double> target;
    std::uint32_t min_test_examples = 0;
    std::vector<std::string>
        central_metrics;  // "test/accuracy", "test/loss"; empty without a test part
    std::uint32_t eval_every = 1;
    std::uint32_t rounds = 0;
  };
  explicit RoundLog(Rules rules) : rules_(std::move(rules)) {}

  // Published rounds from before a resume, oldest first.
  void Restore(const std::vector<PublishedRound>& rounds);

  void Add(const ClientMetric& metric) { client_metrics_.push_back(metric); }
  void AddUpdateNorm(double norm) { norms_.push_back(norm); }
  void Add(const aggregator::CentralEvaluated& evaluated);
  void AddTraffic(std::uint64_t up, std::uint64_t down);
  PhaseSeconds& phases() { return phases_; }

  // The attempt has ended. An abandoned one is complete at once; a published one when its
  // evaluations are in: Take.
  void End(const aggregator::AttemptEnded& ended);
  [[nodiscard]] bool has_open_record() const { return record_.has_value(); }
  // The complete record; forgets it. Precondition: has_open_record().
  [[nodiscard]] RoundRecord Take(double time_s, std::optional<double> virtual_s);

  [[nodiscard]] const std::vector<PublishedRound>& published() const { return published_; }
  [[nodiscard]] std::optional<double> best() const { return best_; }
  [[nodiscard]] std::uint32_t best_round() const { return best_round_; }
  [[nodiscard]] const Metrics& last_metrics() const { return last_metrics_; }
  [[nodiscard]] std::optional<double> rounds_to_target() const;

 private:
  void AddClientMetrics(RoundRecord& record) const;
  void Remember(const PublishedRound& round);

  Rules rules_;
  std::optional<RoundRecord> record_;
  std::vector<ClientMetric> client_metrics_;
  std::vector<double> norms_;
  Metrics central_;
  std::uint64_t bytes_up_ = 0;
  std::uint64_t bytes_down_ = 0;
  std::uint32_t abandoned_in_a_row_ = 0;
  PhaseSeconds phases_;

  std::vector<PublishedRound> published_;
  std::vector<EvaluatedRound> evaluated_;
  Metrics last_metrics_;
  std::optional<double> best_;
  std::uint32_t best_round_ = 0;
};

}  // namespace skep::simulator
