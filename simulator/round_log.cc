#include "simulator/round_log.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "shared/base/bytes.h"
#include "shared/base/sha256.h"

namespace skep::simulator {
namespace {

constexpr std::uint64_t kUndefinedBits =
    0x7ff8000000000000;  // stands for an absent metric in the result hash

std::vector<double> ValuesOf(const std::vector<ClientMetric>& metrics, const std::string& name,
                             std::uint32_t min_examples) {
  std::vector<double> values;
  for (const ClientMetric& metric : metrics) {
    if (metric.name == name && metric.examples >= min_examples) values.push_back(metric.value);
  }
  return values;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double StandardDeviation(const std::vector<double>& values) {
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

bool IsTimed(const std::string& name) {
  return name.starts_with("time/");
}

}  // namespace

double Percentile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = static_cast<double>(values.size() - 1) * q;
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (position - static_cast<double>(below));
}

std::optional<double> RoundsToTarget(const std::vector<EvaluatedRound>& values, double target,
                                     bool maximise) {
  const double sign = maximise ? 1.0 : -1.0;
  const double goal = sign * target;
  double best_before = 0;
  double round_before = 0;
  bool has_before = false;
  for (const EvaluatedRound& value : values) {
    const double best = has_before ? std::max(best_before, sign * value.value) : sign * value.value;
    if (best >= goal) {
      if (value.round == 1) return 1.0;
      // b_0 = 0 where larger is better; a falling metric has no such start and counts the round
      // itself.
      if (!has_before && !maximise) return value.round;
      const double rise = best - best_before;
      return round_before + (value.round - round_before) * (goal - best_before) / rise;
    }
    best_before = best;
    round_before = value.round;
    has_before = true;
  }
  return std::nullopt;
}

Hash32 ResultHash(const Hash32& config, const Hash32& data, const Hash32& layout,
                  const std::vector<PublishedRound>& rounds) {
  std::set<std::string> names;
  for (const PublishedRound& round : rounds) {
    for (const auto& [name, value] : round.metrics) names.insert(name);
  }
  Sha256 hash;
  hash.Update(AsBytes("skep-result-1\n"));
  for (const Hash32* part : {&config, &data, &layout}) hash.Update(part->bytes);
  for (const PublishedRound& round : rounds) {
    Bytes entry;
    AppendLittle(entry, std::uint64_t{round.round});
    Append(entry, round.model.bytes);
    for (const std::string& name : names) {
      const auto found = round.metrics.find(name);
      const bool is_defined = found != round.metrics.end() && found->second.has_value();
      Append(entry, AsBytes(name));
      entry.push_back(0);
      AppendLittle(entry,
                   is_defined ? std::bit_cast<std::uint64_t>(*found->second) : kUndefinedBits);
    }
    hash.Update(entry);
  }
  return hash.Finish();
}

void RoundLog::Restore(const std::vector<PublishedRound>& rounds) {
  for (const PublishedRound& round : rounds) Remember(round);
}

void RoundLog::Add(const aggregator::CentralEvaluated& evaluated) {
  for (const aggregator::Metric& metric : evaluated.metrics)
    central_["test/" + metric.name] = metric.value;
}

void RoundLog::AddTraffic(std::uint64_t up, std::uint64_t down) {
  bytes_up_ += up;
  bytes_down_ += down;
}

void RoundLog::End(const aggregator::AttemptEnded& ended) {
  if (ended.key.kind != aggregator::TaskKind::kTrain) return;
  RoundRecord record;
  record.round = ended.key.round;
  record.attempt = ended.key.attempt;
  record.published = ended.published;
  record.code = ended.code;
  record.reason = ended.reason;
  record.counts = ended.counts;
  record.model = ended.model;
  abandoned_in_a_row_ = ended.published ? 0 : abandoned_in_a_row_ + 1;
  record.consecutive_abandoned = abandoned_in_a_row_;
  if (ended.published) {
    record.metrics["train/loss"] = std::nullopt;
    for (const aggregator::Metric& metric : ended.metrics) {
      if (metric.name != "train_loss") continue;
      record.metrics["train/loss"] = metric.value;
      record.metric_clients["train/loss"] = metric.clients;
    }
  }
  record_ = std::move(record);
}

RoundRecord RoundLog::Take(double time_s, std::optional<double> virtual_s) {
  RoundRecord record = std::move(*record_);
  record_.reset();
  record.time_s = time_s;
  record.virtual_s = virtual_s;
  record.bytes_up = std::exchange(bytes_up_, 0);
  record.bytes_down = std::exchange(bytes_down_, 0);
  record.phases = std::exchange(phases_, {});
  if (record.published) {
    const bool is_due = record.round == rules_.rounds ||
                        (rules_.eval_every > 0 && record.round % rules_.eval_every == 0) ||
                        !central_.empty();
    if (is_due) {
      for (const std::string& name : rules_.central_metrics) record.metrics[name] = std::nullopt;
    }
    for (const auto& [name, value] : central_) record.metrics[name] = value;
    AddClientMetrics(record);
    if (!norms_.empty()) {
      record.metrics["update/norm_p10"] = Percentile(norms_, 0.1);
      record.metrics["update/norm_p50"] = Percentile(norms_, 0.5);
      record.metrics["update/norm_p90"] = Percentile(norms_, 0.9);
      record.metrics["update/norm_max"] = Percentile(norms_, 1.0);
    }
    Remember({.round = record.round, .model = record.model, .metrics = record.metrics});
  }
  central_.clear();
  client_metrics_.clear();
  norms_.clear();
  return record;
}

void RoundLog::AddClientMetrics(RoundRecord& record) const {
  for (const std::string name : {"accuracy", "loss"}) {
    const std::vector<double> values = ValuesOf(client_metrics_, name, rules_.min_test_examples);
    if (values.empty()) continue;
    const std::string prefix = "client/" + name + "_";
    const auto add = [&](const std::string& suffix, double value) {
      record.metrics[prefix + suffix] = value;
      record.metric_clients[prefix + suffix] = static_cast<std::uint32_t>(values.size());
    };
    add("mean", Mean(values));
    add("sd", StandardDeviation(values));
    add("min", Percentile(values, 0));
    add("p10", Percentile(values, 0.1));
    add("p50", Percentile(values, 0.5));
    add("p90", Percentile(values, 0.9));
  }
}

void RoundLog::Remember(const PublishedRound& round) {
  PublishedRound kept = round;
  std::erase_if(kept.metrics, [](const auto& entry) { return IsTimed(entry.first); });
  published_.push_back(std::move(kept));
  last_metrics_ = round.metrics;
  const auto found = round.metrics.find(rules_.target_metric);
  if (found == round.metrics.end() || !found->second.has_value()) return;
  const double value = *found->second;
  evaluated_.push_back({.round = round.round, .value = value});
  const bool is_better = !best_ || (rules_.maximise ? value > *best_ : value < *best_);
  if (is_better) {
    best_ = value;
    best_round_ = round.round;
  }
}

std::optional<double> RoundLog::rounds_to_target() const {
  if (!rules_.target) return std::nullopt;
  return RoundsToTarget(evaluated_, *rules_.target, rules_.maximise);
}

}  // namespace skep::simulator
