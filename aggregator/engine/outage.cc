// Outage: the store takes no writes for now (a full disk, a lock of another program). Nothing is
// lost and nothing is said that is not stored: what was to be written waits in its order and is
// tried again, one write at a time, until all of it is written; then everything goes on by itself.
// Source: Skep durability, sections 5 and 10.
#include <algorithm>
#include <utility>

#include "aggregator/engine/machine.h"

namespace skep::aggregator {
namespace {

constexpr int kCannotWrite = 4001;
constexpr int kInUse = 4002;
constexpr int kNoAccess = 4004;
constexpr int kNoRoom = 3404;
constexpr std::chrono::seconds kFirstWait{1};
constexpr std::chrono::seconds kLongestWait{10};
constexpr std::chrono::minutes kReminder{5};

}  // namespace

// Nothing was changed, and the same write may succeed later.
bool Machine::IsOutage(const Error& error) {
  return error.code == kCannotWrite || error.code == kInUse || error.code == kNoAccess;
}

// Written after all, it would say something that no longer holds.
bool Machine::IsMoot(JobId id, const JobUse& use) const {
  const auto run = runs_.find(use.key.run);
  if (run == runs_.end()) return true;
  if (use.kind == JobKind::kChange) return run->second->change != id;
  return run->second->state == RunState::kHalted;
}

// The job's write failed for now; `use` says what it was.
void Machine::WaitForStore(JobId id, JobUse use, Error error) {
  const bool was_tried = outage_ && outage_->trying == id;
  const bool is_first = !outage_;
  if (is_first) outage_ = Outage{.since = now_.steady, .reminded = now_.steady, .error = {}};
  outage_->error = std::move(error);
  if (use.kind == JobKind::kUpdate) {
    auto* collecting = PhaseOf<Collecting>(use.key);
    if (collecting != nullptr) PutOff(collecting->attempt->assignments[use.place]);
  }
  if (!IsMoot(id, use)) unwritten_.emplace(id, std::move(use));
  if (!is_first && !was_tried) return;
  outage_->trying = 0;
  outage_->wait =
      is_first ? Nanoseconds(kFirstWait) : std::min<Nanoseconds>(2 * outage_->wait, kLongestWait);
  alarms_.Set({AlarmKind::kStore, {}}, now_.steady + outage_->wait);
  if (is_first) {
    Announce(StoreWaiting::Step::kBegan);
  } else if (outage_->reminded + kReminder <= now_.steady) {
    outage_->reminded = now_.steady;
    Announce(StoreWaiting::Step::kGoesOn);
  }
}

// It was on its way when an earlier write of its run failed, on which it may build.
bool Machine::CameTooEarly(JobId id, const JobUse& use) const {
  if (!outage_ || !use.again || outage_->trying == id) return false;
  const auto is_before = [&](const auto& entry) {
    return entry.first < id && entry.second.key.run == use.key.run;
  };
  const auto tried = jobs_.find(outage_->trying);
  return (tried != jobs_.end() && is_before(*tried)) ||
         std::any_of(unwritten_.begin(), unwritten_.end(), is_before);
}

void Machine::TryWrite() {
  if (!outage_ || outage_->trying != 0) return;
  if (unwritten_.empty()) return OnTried();
  auto next = unwritten_.extract(unwritten_.begin());
  outage_->trying = next.key();
  Job job = *next.mapped().again;
  Submit(next.key(), std::move(next.mapped()), std::move(job));
}

// The store has answered: the next one that waits, or the end of it.
void Machine::OnTried() {
  outage_->trying = 0;
  outage_->wait = kFirstWait;
  if (!unwritten_.empty()) return TryWrite();
  Announce(StoreWaiting::Step::kEnded);
  alarms_.Clear({AlarmKind::kStore, {}});
  outage_.reset();
}

// The device is not kept waiting: it asks again later, and by then the row may be written.
void Machine::PutOff(Assignment& assignment) {
  if (assignment.session == 0) return;
  wire::UploadBegin begin;
  begin.update_id = assignment.update.update;
  begin.transfer_id = assignment.transfer_id;
  Refuse(std::exchange(assignment.session, 0), begin, kNoRoom);
}

void Machine::Announce(StoreWaiting::Step step) {
  out_.push_back(Emit{StoreWaiting{.step = step,
                                   .error = outage_->error,
                                   .lasted = now_.steady - outage_->since,
                                   .writes = unwritten_.size()}});
}

bool Machine::HasUnwritten(const Run& run) const {
  if (!outage_) return false;
  const auto is_of_run = [&](const auto& entry) { return entry.second.key.run == run.spec->id; };
  const auto tried = jobs_.find(outage_->trying);
  return (tried != jobs_.end() && is_of_run(*tried)) ||
         std::any_of(unwritten_.begin(), unwritten_.end(), is_of_run);
}

}  // namespace skep::aggregator
