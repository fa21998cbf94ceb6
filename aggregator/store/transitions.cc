#include "aggregator/store/transitions.h"

namespace skep::aggregator {
namespace {

Status Unless(bool is_contradiction, const char* what) {
  if (is_contradiction) return Contradiction(what);
  return Ok();
}

}  // namespace

Error Contradiction(const std::string& what) {
  return Error{4007, "the store holds something else: " + what, ""};
}

Status MayChange(RunState from, RunState to) {
  const bool is_over = from == RunState::kStopped || from == RunState::kFinished;
  return Unless(is_over && from != to, "the run is over");
}

Status MayOpen(const RunFacts& run, const OpenRoundTx& open) {
  const RoundRow& round = open.round;
  if (run.state != RunState::kRunning) return Contradiction("the run is not running");
  if (run.has_open_round) return Contradiction("a round of the run is open");
  if (round.model_in != run.model) return Contradiction("the run has another model");
  switch (round.key.kind) {
    case TaskKind::kTrain:
      return Unless(round.key.round != run.next_round || round.key.attempt != run.next_attempt,
                    "another round or attempt is next");
    case TaskKind::kEvaluate:
      return Unless(round.key.round == 0 || round.key.round + 1 != run.next_round,
                    "only the last published round can be evaluated");
    default:
      return Contradiction("a round is trained or evaluated");
  }
}

Status MayAssign(RoundState round) {
  return Unless(round != RoundState::kOpen, "the round is not open");
}

Status MayEnd(RoundState round, const AssignmentRow& stored, const EndAssignmentTx& end) {
  if (end.state == AssignmentState::kAcknowledged) {
    return Contradiction("an update is acknowledged with its row only");
  }
  // The same end once more is no news.
  if (stored.state == end.state && stored.code == end.code) return Ok();
  if (HasEnded(round)) return Contradiction("the round has ended");
  if (!IsLive(stored.state)) return Contradiction("the assignment has ended otherwise");
  return Unless(end.state == AssignmentState::kOffered, "the assignment was accepted");
}

Status MayUpdate(RoundState round, AssignmentState assignment) {
  if (round != RoundState::kOpen) return Contradiction("the round is not open");
  return Unless(!IsLive(assignment), "the assignment has ended");
}

Status MayClose(RoundState round) {
  return Unless(HasEnded(round), "the round has ended");
}

Status MayPublish(RoundState round, const PublishTx& publish) {
  if (publish.key.kind != TaskKind::kTrain) return Contradiction("only a training round publishes");
  if (round != RoundState::kClosing) return Contradiction("the round is not closing");
  return Unless(publish.next_round != publish.key.round + 1, "another round is next");
}

Status MayAbandon(RoundState round) {
  return Unless(HasEnded(round), "the round has ended");
}

Status MayEvaluate(RoundState round, TaskKind kind) {
  if (kind == TaskKind::kTrain) {
    return Unless(round != RoundState::kPublished, "the round is not published");
  }
  return Unless(HasEnded(round), "the evaluation has ended");
}

}  // namespace skep::aggregator
