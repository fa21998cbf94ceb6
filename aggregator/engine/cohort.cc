#include "aggregator/engine/cohort.h"

#include <utility>

namespace skep::aggregator {
namespace {

constexpr unsigned kAttemptShift = 24;  // blocks of one attempt's draw

RandomStream::Counter CounterOf(const AttemptKey& key) {
  // The evaluation sample is fixed: neither round nor attempt enters.
  if (key.kind == TaskKind::kEvaluate) {
    return {.purpose = Purpose::kEvaluationSample, .client = kNone, .round = 0, .first_block = 0};
  }
  return {.purpose = Purpose::kCohort,
          .client = kNone,
          .round = key.round,
          .first_block = (key.attempt - 1) << kAttemptShift};
}

}  // namespace

CohortDraw::CohortDraw(std::uint64_t run_seed, const AttemptKey& key,
                       std::vector<ClientNumber> eligible)
    : clients_(std::move(eligible)), stream_(run_seed, CounterOf(key)) {}

std::optional<ClientNumber> CohortDraw::Next() {
  if (drawn_ == clients_.size()) return std::nullopt;
  const std::size_t left = clients_.size() - drawn_;
  // The last place takes no draw, as in RandomStream::Shuffle.
  if (left > 1) {
    std::swap(clients_[drawn_], clients_[drawn_ + static_cast<std::size_t>(stream_.Below(left))]);
  }
  return clients_[drawn_++];
}

}  // namespace skep::aggregator
