// Uploads of an open attempt: admitted, inspected by the driver, written, acknowledged, added up.
// The order is the promise: acknowledged means durable, and every acknowledged update counts.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "aggregator/engine/machine.h"

namespace skep::aggregator {
namespace {

constexpr int kAlreadyContributed = 2108;
constexpr int kTooLate = 2109;
constexpr int kOtherContent = 2111;
constexpr int kNormTooLarge = 2105;
constexpr int kNotAssigned = 2211;
constexpr int kNoRoom = 3404;
constexpr int kStorageFault = 3405;

bool IsSameContent(const wire::UploadBegin& a, const wire::UploadBegin& b) {
  return a.sha256 == b.sha256 && a.size == b.size && a.encoding == b.encoding;
}

bool IsSameContent(const wire::UploadBegin& begin, const UpdateRow& update) {
  return begin.sha256 == update.sha256 && begin.size == update.size &&
         begin.encoding == update.encoding;
}

UpdateRow RowOf(const Assignment& assignment, const wire::UploadBegin& begin,
                const std::vector<std::string>& metric_names) {
  UpdateRow row;
  row.device = assignment.device;
  row.client = assignment.client;
  row.update = begin.update_id;
  row.sha256 = begin.sha256;
  row.size = begin.size;
  row.encoding = begin.encoding;
  row.weight = begin.weight;
  row.metrics = FiniteMetrics(begin, metric_names);
  row.train_ms = begin.train_ms;
  return row;
}

}  // namespace

void Machine::Refuse(SessionNumber session, const wire::UploadBegin& begin, int code) {
  out_.push_back(RefuseUpload{session, begin.transfer_id, begin.update_id, code});
  if (code == kOtherContent) out_.push_back(Disconnect{session, code});
}

void Machine::Acknowledge(SessionNumber session, const UpdateRow& update,
                          wire::Disposition disposition, const std::string& population) {
  wire::UpdateAck ack{.update_id = update.update,
                      .sha256 = update.sha256,
                      .seq = update.seq,
                      .disposition = disposition,
                      .come_back = {}};
  if (!SimulatedClient(session)) ack.come_back = Pace(population, wire::ComeBackReason::kPacing);
  Tell(session, std::move(ack));
}

// The attempt with this key if its first offer has gone out and no other has been opened since.
Attempt* Machine::FindOpened(Run& run, const AttemptKey& key) {
  if (std::holds_alternative<Opening>(run.phase)) return nullptr;
  Attempt* open = std::visit(
      [](auto& phase) -> Attempt* {
        if constexpr (requires { phase.attempt; }) {
          return phase.attempt.get();
        } else {
          return nullptr;
        }
      },
      run.phase);
  if (open != nullptr && open->key == key) return open;
  return run.last && run.last->key == key ? run.last.get() : nullptr;
}

void Machine::On(UploadOffered& offered) {
  const wire::UploadBegin& begin = offered.begin;
  const auto simulated = SimulatedClient(offered.session);
  const Session* session = roster_.FindSession(offered.session);
  if (session == nullptr && !simulated) return;
  const AttemptKey key = KeyOf(begin.task);
  Run* run = FindRun(key.run);
  if (run == nullptr) return Refuse(offered.session, begin, kNotAssigned);
  const auto client = simulated ? simulated : session->device->ClientIn(run->population());
  if (!client) return Refuse(offered.session, begin, kNotAssigned);

  Attempt* attempt = FindOpened(*run, key);
  Assignment* assignment = attempt == nullptr ? nullptr : attempt->Find(*client);
  if (assignment != nullptr && AnswerFromMemory(offered, *attempt, *assignment)) return;
  if (AnswerFromStore(offered, run->population())) return;
  const std::optional<Refusal> refusal = Judge(begin, FactsOf(*run, attempt, assignment, offered),
                                               attempt == nullptr ? UploadTerms{} : attempt->terms);
  if (!refusal && outage_) return Refuse(offered.session, begin, kNoRoom);
  if (!refusal) return Admit(*attempt, attempt->by_client[*client], offered);
  const auto* collecting = PhaseOf<Collecting>(key);
  const bool is_live = collecting != nullptr && !collecting->closing && assignment != nullptr &&
                       assignment->IsLive();
  if (!is_live) return Refuse(offered.session, begin, refusal->code);
  RefuseLive(*run, *attempt, *assignment,
             {.key = key, .place = 0, .session = offered.session, .begin = begin}, *refusal);
}

// A0 as far as the engine remembers: acknowledged, arrived, or refused.
bool Machine::AnswerFromMemory(const UploadOffered& offered, Attempt& attempt,
                               Assignment& assignment) {
  const wire::UploadBegin& begin = offered.begin;
  if (assignment.is_inspecting && PhaseOf<Collecting>(attempt.key) != nullptr) {
    Upload& arrived = uploads_.at(assignment.upload);
    const bool is_same =
        arrived.begin.update_id == begin.update_id && IsSameContent(arrived.begin, begin);
    if (!is_same) return false;
    // The answer goes to where the device is now.
    assignment.session = arrived.session = offered.session;
    assignment.transfer_id = arrived.begin.transfer_id = begin.transfer_id;
    return true;
  }
  const bool is_known = assignment.state == AssignmentState::kAcknowledged ||
                        assignment.is_settling || assignment.state == AssignmentState::kRefused;
  if (is_known && assignment.update.update == begin.update_id) {
    if (!IsSameContent(begin, assignment.update)) {
      Refuse(offered.session, begin, kOtherContent);
    } else if (assignment.state == AssignmentState::kRefused) {
      Refuse(offered.session, begin, assignment.code);
    } else if (assignment.is_settling) {
      assignment.session = offered.session;  // the answer follows the commit
      assignment.transfer_id = begin.transfer_id;
      if (outage_) PutOff(assignment);
    } else {
      Acknowledge(offered.session, assignment.update, wire::Disposition::kDuplicate,
                  attempt.population);
    }
    return true;
  }
  if (assignment.state == AssignmentState::kAcknowledged || assignment.is_settling) {
    Refuse(offered.session, begin, kAlreadyContributed);
    return true;
  }
  return false;
}

bool Machine::AnswerFromStore(const UploadOffered& offered, const std::string& population) {
  if (!offered.prior) return false;
  const wire::UploadBegin& begin = offered.begin;
  const StoredVerdict& prior = *offered.prior;
  if (prior.code != 0 && prior.update.IsZero()) {
    Refuse(offered.session, begin, prior.code);  // refused; under which id is not stored
  } else if (prior.update != begin.update_id) {
    if (prior.code != 0) return false;  // a refused task is over: no live assignment
    Refuse(offered.session, begin, kAlreadyContributed);
  } else if (prior.sha256 != begin.sha256) {
    Refuse(offered.session, begin, kOtherContent);
  } else if (prior.code != 0) {
    Refuse(offered.session, begin, prior.code);
  } else {
    UpdateRow update;
    update.update = prior.update;
    update.sha256 = prior.sha256;
    update.seq = prior.seq;
    Acknowledge(offered.session, update, wire::Disposition::kDuplicate, population);
  }
  return true;
}

UploadFacts Machine::FactsOf(const Run& run, const Attempt* attempt, const Assignment* assignment,
                             const UploadOffered& offered) {
  const AttemptKey key = KeyOf(offered.begin.task);
  UploadFacts facts;
  const auto* collecting = std::get_if<Collecting>(&run.phase);
  const bool is_open =
      collecting != nullptr && collecting->attempt.get() == attempt && !collecting->closing;
  if (is_open) {
    facts.is_assigned = assignment != nullptr && assignment->IsLive();
  } else if (attempt != nullptr) {
    facts.is_assigned = assignment != nullptr;
    facts.standing = run.IsOver() ? Standing::kRunOver : Standing::kClosing;
  } else {
    // Whoever was assigned to an attempt that ended long ago is no longer known: too late for all.
    facts.is_assigned =
        run.latest && key.kind == run.latest->kind &&
        std::pair(key.round, key.attempt) < std::pair(run.latest->round, run.latest->attempt);
    facts.standing = run.IsOver() ? Standing::kRunOver : Standing::kEndedEarlier;
  }
  if (const Session* session = roster_.FindSession(offered.session)) {
    facts.is_quarantined = session->device->state == DeviceState::kQuarantined;
  }
  if (assignment != nullptr && key.kind == TaskKind::kTrain) {
    facts.is_separated = IsSeparated(run, assignment->client, now_.wall);
  }
  return facts;
}

void Machine::Admit(Attempt& attempt, Place place, UploadOffered& offered) {
  Assignment& assignment = attempt.assignments[place];
  NoteStarted(attempt, assignment);
  assignment.session = offered.session;
  assignment.transfer_id = offered.begin.transfer_id;
  Upload upload{.key = attempt.key,
                .place = place,
                .session = offered.session,
                .begin = std::move(offered.begin)};
  if (attempt.IsEvaluation()) {
    return SettleUpload(attempt, place, RowOf(assignment, upload.begin, attempt.metric_names));
  }
  if (assignment.upload != 0) {
    const auto earlier = uploads_.find(assignment.upload);
    const bool is_other_content = earlier->second.begin.update_id == upload.begin.update_id &&
                                  !IsSameContent(earlier->second.begin, upload.begin);
    if (is_other_content) {
      return RefuseLive(*FindRun(attempt.key.run), attempt, assignment, upload,
                        {kOtherContent, "the same update id came with other content"});
    }
    // A new attempt at sending replaces the unfinished one.
    CancelUploadOf(attempt, assignment, kTooLate);
  }
  const UploadNumber number = next_upload_++;
  assignment.upload = number;
  out_.push_back(AdmitUpload{upload.session, upload.begin.transfer_id, number, upload.begin});
  uploads_.emplace(number, std::move(upload));
}

// Refuses an update of a live assignment; a final refusal ends the task.
void Machine::RefuseLive(Run& run, Attempt& attempt, Assignment& assignment, const Upload& upload,
                         Refusal refusal) {
  Refuse(upload.session, upload.begin, refusal.code);
  if (IsStrike(refusal.code)) Strike(assignment.device, refusal.code);
  if (!IsFinalRefusal(refusal.code)) {
    if (!std::get<Collecting>(run.phase).closing) return;
    CountMissing(attempt, assignment);  // there is no time to send again
    return MaybeClose(run);
  }
  NoteStarted(attempt, assignment);
  ++attempt.counts.rejected;
  assignment.update = RowOf(assignment, upload.begin, attempt.metric_names);
  Report(attempt, assignment, Outcome::kRejected, refusal.code, std::move(refusal.detail));
  EndAssignment(attempt, assignment, AssignmentState::kRefused, refusal.code);
  MaybeClose(run);
}

void Machine::Strike(const DeviceId& id, int code) {
  Device* device = roster_.FindDevice(id);
  if (device == nullptr || device->is_simulated) return;
  ++device->strikes;
  const bool is_at_limit = config_.strikes > 0 && device->strikes >= config_.strikes;
  out_.push_back(Emit{DeviceStruck{id, device->strikes, code, is_at_limit}});
}

void Machine::On(UploadAborted& aborted) {
  const auto entry = uploads_.find(aborted.upload);
  if (entry == uploads_.end()) return;
  const Upload upload = std::move(entry->second);
  uploads_.erase(entry);
  auto* collecting = PhaseOf<Collecting>(upload.key);
  if (collecting == nullptr) return;
  EndUpload(*collecting->attempt, collecting->attempt->assignments[upload.place]);
  MaybeClose(*FindRun(upload.key.run));
}

void Machine::EndUpload(Attempt& attempt, Assignment& assignment) {
  if (std::exchange(assignment.is_inspecting, false)) --attempt.inspecting;
  assignment.upload = 0;
}

void Machine::CancelUploadOf(Attempt& attempt, Assignment& assignment, int code) {
  if (assignment.upload == 0) return;
  out_.push_back(CancelUpload{assignment.upload, code});
  uploads_.erase(assignment.upload);
  EndUpload(attempt, assignment);
}

void Machine::On(UploadArrived& arrived) {
  const auto entry = uploads_.find(arrived.upload);
  if (entry == uploads_.end()) return;
  auto* collecting = PhaseOf<Collecting>(entry->second.key);
  if (collecting == nullptr) return;
  Assignment& assignment = collecting->attempt->assignments[entry->second.place];
  assignment.last_contact = now_.steady;
  if (!std::exchange(assignment.is_inspecting, true)) ++collecting->attempt->inspecting;
}

void Machine::On(UploadFinished& finished) {
  const auto entry = uploads_.find(finished.upload);
  if (entry == uploads_.end()) return;
  const Upload upload = std::move(entry->second);
  uploads_.erase(entry);
  auto* collecting = PhaseOf<Collecting>(upload.key);
  if (collecting == nullptr) return;
  Run& run = *FindRun(upload.key.run);
  Attempt& attempt = *collecting->attempt;
  Assignment& assignment = attempt.assignments[upload.place];
  EndUpload(attempt, assignment);
  assignment.last_contact = now_.steady;
  if (finished.code != 0) {
    return RefuseLive(run, attempt, assignment, upload,
                      {finished.code, std::move(finished.detail)});
  }
  const double max_norm = run.spec->admission.max_norm;
  if (!(finished.norm <= max_norm)) {
    return RefuseLive(run, attempt, assignment, upload,
                      {kNormTooLarge, fmt::format("update norm {:.4g} is above admission.max_norm "
                                                  "{:.4g}",
                                                  finished.norm, max_norm)});
  }
  // The sum has room for N reports; one from a refilled place may be too many.
  if (attempt.acknowledged + attempt.settling >= attempt.invited) {
    return RefuseLive(run, attempt, assignment, upload, {kTooLate, "the sum is full"});
  }
  UpdateRow row = RowOf(assignment, upload.begin, attempt.metric_names);
  row.norm = finished.norm;
  row.aux_norm = finished.aux_norm;
  row.upload = finished.upload;
  SettleUpload(attempt, upload.place, std::move(row));
}

// The whole report is here; it is acknowledged once its row is durable.
void Machine::SettleUpload(Attempt& attempt, Place place, UpdateRow row) {
  Assignment& assignment = attempt.assignments[place];
  assignment.update = std::move(row);
  assignment.is_settling = true;
  ++attempt.settling;
  Commit(JobKind::kUpdate, attempt.key, UpdateTx{attempt.key, assignment.update}, place);
}

// The update is durable: it is acknowledged, and it counts.
void Machine::OnAcknowledged(Run& run, const AttemptKey& key, Place place, std::uint64_t seq) {
  Attempt* attempt = nullptr;
  if (auto* collecting = PhaseOf<Collecting>(key)) attempt = collecting->attempt.get();
  if (auto* failed = PhaseOf<Failed>(key)) attempt = failed->attempt.get();
  if (attempt == nullptr) return;
  Assignment& assignment = attempt->assignments[place];
  assignment.update.seq = seq;
  assignment.state = AssignmentState::kAcknowledged;
  assignment.is_settling = false;
  --attempt->settling;
  --attempt->live;
  ++attempt->acknowledged;
  ++attempt->counts.ok;
  if (Device* device = roster_.FindDevice(assignment.device);
      device != nullptr && !device->is_simulated) {
    Change(*device, [&] { --device->live; });
  }
  Acknowledge(assignment.session, assignment.update, wire::Disposition::kAccepted,
              attempt->population);
  Report(*attempt, assignment, Outcome::kOk, 0, "");
  if (!attempt->IsEvaluation()) {
    attempt->to_fold.push_back(assignment.update);
    Fold(run, *attempt);
  }
  MaybeClose(run);
}

// The update can never become durable: nothing is acknowledged. With a used id the task is over,
// else the device may send again.
void Machine::OnNotStored(Run& run, const AttemptKey& key, Place place, bool is_contradiction) {
  auto* collecting = PhaseOf<Collecting>(key);
  if (collecting == nullptr) return;
  Attempt& attempt = *collecting->attempt;
  Assignment& assignment = attempt.assignments[place];
  assignment.is_settling = false;
  --attempt.settling;
  const int code = is_contradiction ? kOtherContent : kStorageFault;
  wire::UploadBegin begin;
  begin.update_id = assignment.update.update;
  begin.transfer_id = assignment.transfer_id;
  Refuse(assignment.session, begin, code);
  if (!is_contradiction && collecting->closing) CountMissing(attempt, assignment);
  if (is_contradiction) {
    ++attempt.counts.rejected;
    Report(attempt, assignment, Outcome::kRejected, code, "the update id was used before");
    EndAssignment(attempt, assignment, AssignmentState::kRefused, code);
  }
  MaybeClose(run);
}

// One Fold at a time; what comes meanwhile goes into the next one.
void Machine::Fold(Run& run, Attempt& attempt) {
  if (attempt.is_folding || attempt.to_fold.empty() || std::holds_alternative<Failed>(run.phase)) {
    return;
  }
  attempt.is_folding = true;
  Start(JobKind::kFold, attempt.key, FoldJob{attempt.key, std::exchange(attempt.to_fold, {})});
}

void Machine::OnFolded(Run& run, const AttemptKey& key) {
  Attempt* attempt = nullptr;
  if (auto* collecting = PhaseOf<Collecting>(key)) attempt = collecting->attempt.get();
  if (auto* publishing = PhaseOf<Publishing>(key)) attempt = publishing->attempt.get();
  if (attempt == nullptr) return;
  attempt->is_folding = false;
  Fold(run, *attempt);
  TryFinish(run);
}

}  // namespace skep::aggregator
