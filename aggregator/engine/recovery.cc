// What a start does before the first device is let in: runs go on from what is stored, never from
// what might have been in memory. Source: docs/durability.md (recovery), step 8.
#include <algorithm>
#include <utility>

#include "aggregator/engine/machine.h"
#include "shared/wire/codec.h"

namespace skep::aggregator {
namespace {

constexpr WallMs kLeastWindowMs = 30'000;
constexpr std::chrono::hours kActiveFor{24};
constexpr int kTooManyAttempts = 2201;
constexpr int kDamaged = 4007;

// How far `then` lies before `now`; 0 if the clock was set back.
Nanoseconds Before(WallMs now, WallMs then) {
  return Milliseconds(now > then ? now - then : 0);
}

}  // namespace

Outputs Machine::Resume(Now now) {
  now_ = now;
  RecoverDevices();
  for (RunSnapshot& snapshot : recovered_.store.runs) {
    const auto spec = std::find_if(recovered_.specs.begin(), recovered_.specs.end(),
                                   [&](const auto& s) { return s->id == snapshot.run.id; });
    if (spec != recovered_.specs.end()) Recover(snapshot, *spec);
  }
  recovered_ = {};
  Settle();
  return std::exchange(out_, {});
}

void Machine::RecoverDevices() {
  for (const DeviceRow& row : recovered_.devices) {
    std::vector<Membership> memberships;
    for (const auto& [population, client] : row.memberships) {
      memberships.push_back({population, client});
    }
    Device& device = roster_.Enrol(row.device, memberships);
    device.state = row.state;
    device.strikes = row.strikes;
    device.was_heard = row.last_seen > row.enrolled;  // enrolment does not count
    device.last_heard = now_.steady - Before(now_.wall, row.last_seen);
    device.active_until =
        now_.steady - Before(now_.wall, std::max(row.enrolled, row.last_seen)) + kActiveFor;
    device.presence = roster_.Classify(device, now_.steady);
    Tally(device, +1);
    roster_.Watch(device, now_.steady);
  }
}

void Machine::Recover(RunSnapshot& snapshot, std::shared_ptr<const RunSpec> spec) {
  Run& run = Adopt(std::move(spec));
  const RunRow& row = snapshot.run;
  run.state = row.state;
  run.code = row.code;
  run.reason = row.reason;
  run.model = row.model;
  run.next_round = row.next_round;
  run.next_attempt = row.next_attempt;
  run.abandoned_in_a_row = row.abandoned_in_a_row;
  run.request_key = row.request_key;
  run.round_began = now_.steady;
  for (const ContributionRow& last : snapshot.contributions) {
    if (run.keeps_contributions) run.contributions[last.client] = {last.update, last.opened};
  }
  for (const RoundRow& round : snapshot.rounds) {
    if (round.key.kind != TaskKind::kTrain) continue;
    run.latest = round.key;
    if (round.state != RoundState::kPublished) continue;
    run.last_metrics = round.metrics;
    if (round.key.round <= snapshot.evaluated_round && IsCentralDue(*run.spec, round.key.round)) {
      run.tracker.Add(round.key.round, round.metrics);
    }
  }
  Enter(run, Stopped{});
  if (run.IsOver()) return EnterStopped(run);
  if (run.state == RunState::kPaused) {
    if (run.abandoned_in_a_row >= run.spec->training.max_attempts) {
      run.code = kTooManyAttempts;
      run.reason = TooManyText(run, row.reason);
    }
    return;
  }
  if (snapshot.open_rounds.empty()) return GoOnAfter(run, snapshot);
  Reopen(run, snapshot.open_rounds.back());
}

// Between two attempts: what the last published round still owes comes first.
void Machine::GoOnAfter(Run& run, const RunSnapshot& snapshot) {
  const std::uint32_t before = run.next_round - 1;
  const auto published =
      std::find_if(snapshot.rounds.begin(), snapshot.rounds.end(), [&](const RoundRow& round) {
        return round.key.round == before && round.key.kind == TaskKind::kTrain &&
               round.state == RoundState::kPublished;
      });
  if (published == snapshot.rounds.end()) return GoOn(run);
  if (IsCentralDue(*run.spec, before) && snapshot.evaluated_round < before) {
    return AfterPublished(run, published->key);
  }
  const bool is_client_done =
      std::any_of(snapshot.rounds.begin(), snapshot.rounds.end(), [&](const RoundRow& round) {
        return round.key.round == before && round.key.kind == TaskKind::kEvaluate;
      });
  if (IsClientDue(run, before) && !is_client_done) {
    return EnterSelecting(run, {run.spec->id, before, TaskKind::kEvaluate, 1});
  }
  RoundDone(run, before);
}

void Machine::RestoreAssignment(Attempt& attempt, const AssignmentRow& row) {
  const Place place = attempt.Add(row.device, row.client);
  Assignment& assignment = attempt.assignments[place];
  assignment.is_committed = true;
  assignment.state = row.state;
  assignment.code = row.code;
  Device* device = roster_.FindDevice(row.device);
  if (device == nullptr) device = &roster_.Enrol(row.device, {{attempt.population, row.client}});
  if (assignment.IsLive() && device->state != DeviceState::kRevoked) {
    // Whether it had accepted is not stored: it may be at work, so its place does not expire.
    assignment.state = AssignmentState::kAccepted;
    assignment.last_contact = now_.steady;
    Change(*device, [&] { ++device->live; });
    return;
  }
  if (assignment.IsLive()) assignment.state = AssignmentState::kExpired;
  --attempt.live;
  attempt.counts.declined += assignment.state == AssignmentState::kDeclined ? 1U : 0U;
  attempt.counts.failed += assignment.state == AssignmentState::kFailed ? 1U : 0U;
  attempt.counts.rejected += assignment.state == AssignmentState::kRefused ? 1U : 0U;
  assignment.is_started = assignment.state != AssignmentState::kDeclined &&
                          assignment.state != AssignmentState::kExpired;
  attempt.counts.started += assignment.is_started ? 1U : 0U;
}

Result<std::unique_ptr<Attempt>> Machine::Restore(Run& run, OpenRound& open) {
  const AttemptKey key = open.round.key;
  const Result<wire::Manifest> manifest = wire::DecodeManifest(open.round.manifest.payload);
  if (!manifest) return Error{kDamaged, "the stored manifest does not parse", ""};
  std::unique_ptr<Attempt> attempt = MakeAttempt(run, key);
  attempt->row = std::move(open.round);
  attempt->plan_hash = manifest.value().plan_sha256;
  attempt->terms.layout = manifest.value().layout_sha256;
  attempt->terms.model = manifest.value().model_sha256;
  attempt->terms.encodings = manifest.value().encodings;
  attempt->terms.max_weight = manifest.value().max_weight;
  for (const AssignmentRow& row : open.cohort) RestoreAssignment(*attempt, row);
  const auto cohort = static_cast<std::uint32_t>(attempt->assignments.size());
  attempt->wanted = attempt->IsEvaluation() ? cohort : std::min(attempt->wanted, cohort);
  for (UpdateRow& update : open.updates) {
    Assignment* assignment = attempt->Find(update.client);
    if (assignment == nullptr) return Error{kDamaged, "an update without an assignment", ""};
    if (assignment->IsLive()) {
      --attempt->live;
      if (Device* device = roster_.FindDevice(update.device)) {
        Change(*device, [&] { --device->live; });
      }
    }
    assignment->state = AssignmentState::kAcknowledged;
    if (!assignment->is_started) ++attempt->counts.started;
    assignment->is_started = true;
    ++attempt->counts.ok;
    ++attempt->acknowledged;
    assignment->update = update;
    if (!attempt->IsEvaluation()) attempt->to_fold.push_back(std::move(update));
  }
  return attempt;
}

// An open attempt goes on with its manifest, cohort and what is left of its time; a closing one is
// added up again and finished.
void Machine::Reopen(Run& run, OpenRound& open) {
  const bool is_closing = open.round.state == RoundState::kClosing;
  Result<std::unique_ptr<Attempt>> restored = Restore(run, open);
  if (!restored) return Halt(run, std::move(restored).error());
  std::unique_ptr<Attempt> owned = std::move(restored).value();
  Attempt& attempt = *owned;
  const RoundRow& row = attempt.row;
  const WallMs window = row.deadline > row.opened ? row.deadline - row.opened : 0;
  const WallMs left = row.deadline > now_.wall ? row.deadline - now_.wall : 0;
  attempt.opened = now_.steady;
  attempt.deadline = now_.steady + Milliseconds(std::min(std::max(left, kLeastWindowMs), window));
  if (!attempt.IsEvaluation()) run.latest = attempt.key;
  if (is_closing && !attempt.IsEvaluation()) {
    EnterPublishing(run, std::move(owned), true);
    Fold(run, attempt);
    return TryFinish(run);
  }
  Enter(run, Collecting{.attempt = std::move(owned), .closing = {}});
  alarms_.Set({AlarmKind::kDeadline, attempt.key.run}, attempt.deadline);
  Fold(run, attempt);
  MaybeClose(run);
}

}  // namespace skep::aggregator
