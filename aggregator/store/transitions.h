// What may follow what in a store: one set of rules for all implementations.
//
// Pure functions over what is stored and what a transaction says. They judge order (a round opens
// once, an ended one never changes), not protocol: who may upload is the engine's decision.
// Called by the stores. Any thread. Source: docs/durability.md (transactions T1 to T7).
#pragma once

#include <string>

#include "aggregator/store/store.h"

namespace skep::aggregator {

// SKEP-4007: the transaction contradicts what is stored.
[[nodiscard]] Error Contradiction(const std::string& what);

// What OpenRoundTx is judged against.
struct RunFacts {
  RunState state = RunState::kRunning;
  Hash32 model;
  std::uint32_t next_round = 1;
  std::uint32_t next_attempt = 1;
  bool has_open_round = false;
};

[[nodiscard]] Status MayChange(RunState from, RunState to);
[[nodiscard]] Status MayOpen(const RunFacts& run, const OpenRoundTx& open);
[[nodiscard]] Status MayAssign(RoundState round);
[[nodiscard]] Status MayEnd(RoundState round, const AssignmentRow& stored,
                            const EndAssignmentTx& end);
[[nodiscard]] Status MayUpdate(RoundState round, AssignmentState assignment);
[[nodiscard]] Status MayClose(RoundState round);
[[nodiscard]] Status MayPublish(RoundState round, const PublishTx& publish);
[[nodiscard]] Status MayAbandon(RoundState round);
[[nodiscard]] Status MayEvaluate(RoundState round, TaskKind kind);

[[nodiscard]] inline bool IsLive(AssignmentState state) {
  return state == AssignmentState::kOffered || state == AssignmentState::kAccepted;
}
[[nodiscard]] inline bool HasEnded(RoundState state) {
  return state == RoundState::kPublished || state == RoundState::kAbandoned;
}

}  // namespace skep::aggregator
