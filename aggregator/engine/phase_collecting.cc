// Collecting: tasks are out, updates come in. Leaves for Publishing at the m-th acknowledged report
// or at the deadline with enough reports, for Failed otherwise.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "aggregator/engine/machine.h"

namespace skep::aggregator {
namespace {

constexpr int kTooLate = 2109;
constexpr int kPeerSilent = 3324;

std::uint32_t Ms(Nanoseconds duration) {
  const auto ms = std::chrono::duration_cast<Milliseconds>(duration).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ms, 1, UINT32_MAX));
}

}  // namespace

void Machine::Offer(Run& run, Attempt& attempt, Place place) {
  Assignment& assignment = attempt.assignments[place];
  assignment.offered_until = now_.steady + config_.offer_ttl;
  if (assignment.state == AssignmentState::kOffered) {
    if (attempt.offers.empty()) {
      alarms_.Set({AlarmKind::kOffers, attempt.key.run}, assignment.offered_until);
    }
    attempt.offers.push_back({assignment.offered_until, place});
  }
  Device* device = roster_.FindDevice(assignment.device);
  Session* session = device == nullptr ? nullptr : roster_.SessionOf(*device);
  if (session == nullptr) return;  // it may come back before the offer expires
  if (session->is_held) Change(*device, [&] { roster_.Release(*session); });
  assignment.session = session->number;
  wire::TaskOffer offer{.manifest = attempt.row.manifest,
                        .offer_ttl_ms = Ms(config_.offer_ttl),
                        .report_within_ms = Ms(attempt.deadline - now_.steady),
                        .detach_allowed = config_.detach_allowed,
                        .client = assignment.client,
                        .last_included = {}};
  const auto last = run.contributions.find(assignment.client);
  if (last != run.contributions.end()) offer.last_included = last->second.update;
  out_.push_back(Grant{session->number, attempt.plan_hash, attempt.terms.model});
  out_.push_back(Send{session->number, std::move(offer)});
}

Machine::Live Machine::FindLive(const Session& session, const wire::TaskRef& task) {
  const AttemptKey key = KeyOf(task);
  auto* collecting = PhaseOf<Collecting>(key);
  if (collecting == nullptr) return {};
  const auto client = session.device->ClientIn(collecting->attempt->population);
  if (!client) return {};
  Assignment* assignment = collecting->attempt->Find(*client);
  if (assignment == nullptr || !assignment->IsLive()) return {};
  return {FindRun(key.run), collecting->attempt.get(), assignment};
}

void Machine::NoteStarted(Attempt& attempt, Assignment& assignment) {
  assignment.state = AssignmentState::kAccepted;
  assignment.last_contact = now_.steady;
  if (assignment.is_started) return;
  assignment.is_started = true;
  ++attempt.counts.started;
  if (attempt.is_simulated || attempt.IsEvaluation()) return;
  if (attempt.leases.empty()) {
    alarms_.Set({AlarmKind::kLeases, attempt.key.run}, now_.steady + config_.progress_lease);
  }
  attempt.leases.push({now_.steady + config_.progress_lease, attempt.by_client[assignment.client]});
}

void Machine::OnAccept(Session& session, const wire::TaskAccept& accept) {
  const Live live = FindLive(session, accept.task);
  if (live.assignment == nullptr) {
    Tell(session.number,
         wire::RoundClosed{
             .task = accept.task, .reason = wire::RoundClosedReason::kDeadline, .come_back = {}});
    return;
  }
  live.assignment->session = session.number;
  if (!live.assignment->HasArrived()) NoteStarted(*live.attempt, *live.assignment);
}

void Machine::OnDecline(Session& session, const wire::TaskDecline& decline) {
  const Live live = FindLive(session, decline.task);
  if (live.assignment == nullptr) {
    Tell(session.number,
         wire::RoundClosed{
             .task = decline.task, .reason = wire::RoundClosedReason::kDeadline, .come_back = {}});
    return;
  }
  Collecting& collecting = std::get<Collecting>(live.run->phase);
  if (collecting.closing || live.assignment->HasArrived()) return;
  ++live.attempt->counts.declined;
  const int code = static_cast<int>(decline.code);
  auto& [times, example] = live.attempt->failures[code];
  if (times++ == 0) example = live.assignment->client;
  EndAssignment(*live.attempt, *live.assignment, AssignmentState::kDeclined, code);
  if (!live.attempt->IsEvaluation()) ++live.attempt->open_places;
  Refill(*live.run);
  MaybeClose(*live.run);
}

void Machine::OnProgress(Session& session, const wire::Progress& progress) {
  const Live live = FindLive(session, progress.task);
  if (live.assignment == nullptr) return;
  live.assignment->session = session.number;
  live.assignment->last_contact = now_.steady;
}

void Machine::OnFailed(Session& session, const wire::TaskFailed& failed) {
  const Live live = FindLive(session, failed.task);
  if (live.assignment == nullptr || live.assignment->HasArrived()) return;
  if (std::get<Collecting>(live.run->phase).closing) return;
  NoteStarted(*live.attempt, *live.assignment);
  ++live.attempt->counts.failed;
  const int code = static_cast<int>(failed.code);
  Report(*live.attempt, *live.assignment, Outcome::kFailed, code, "");
  EndAssignment(*live.attempt, *live.assignment, AssignmentState::kFailed, code);
  MaybeClose(*live.run);
}

void Machine::EndAssignment(Attempt& attempt, Assignment& assignment, AssignmentState state,
                            int code) {
  assignment.state = state;
  assignment.code = code;
  --attempt.live;
  CancelUploadOf(attempt, assignment, code == 0 ? kTooLate : code);
  if (Device* device = roster_.FindDevice(assignment.device);
      device != nullptr && !device->is_simulated) {
    Change(*device, [&] { --device->live; });
  }
  Commit(JobKind::kEndAssignment, attempt.key,
         EndAssignmentTx{attempt.key, assignment.device, state, code});
}

void Machine::Report(Attempt& attempt, const Assignment& assignment, Outcome outcome, int code,
                     std::string detail) {
  if (code != 0) {
    auto& [times, example] = attempt.failures[code];
    if (times++ == 0) example = assignment.client;
  }
  ClientOutcome report{.key = attempt.key,
                       .client = assignment.client,
                       .device = assignment.device,
                       .outcome = outcome,
                       .code = code,
                       .detail = std::move(detail),
                       .update = {}};
  if (outcome == Outcome::kOk || outcome == Outcome::kRejected) report.update = assignment.update;
  out_.push_back(Emit{std::move(report)});
}

void Machine::ExpireOffers(Run& run) {
  auto* collecting = std::get_if<Collecting>(&run.phase);
  if (collecting == nullptr || collecting->closing) return;
  Attempt& attempt = *collecting->attempt;
  while (!attempt.offers.empty() && attempt.offers.front().first <= now_.steady) {
    Assignment& assignment = attempt.assignments[attempt.offers.front().second];
    attempt.offers.pop_front();
    // Accepted, over, or offered again since.
    if (assignment.state != AssignmentState::kOffered || assignment.offered_until > now_.steady) {
      continue;
    }
    EndAssignment(attempt, assignment, AssignmentState::kExpired, 0);
    if (!attempt.IsEvaluation()) ++attempt.open_places;
    Tell(assignment.session,
         wire::RoundClosed{.task = RefOf(attempt.key),
                           .reason = wire::RoundClosedReason::kDeadline,
                           .come_back = Pace(attempt.population, wire::ComeBackReason::kNoWork)});
  }
  if (!attempt.offers.empty()) {
    alarms_.Set({AlarmKind::kOffers, attempt.key.run}, attempt.offers.front().first);
  }
  Refill(run);
  MaybeClose(run);
}

// A device that is connected but silent keeps its task and loses its place.
void Machine::ExpireLeases(Run& run) {
  auto* collecting = std::get_if<Collecting>(&run.phase);
  if (collecting == nullptr || collecting->closing) return;
  Attempt& attempt = *collecting->attempt;
  while (!attempt.leases.empty() && attempt.leases.top().first <= now_.steady) {
    const Place place = attempt.leases.top().second;
    attempt.leases.pop();
    Assignment& assignment = attempt.assignments[place];
    if (!assignment.IsLive() || assignment.is_settling || assignment.is_replaced) continue;
    const SteadyTime ends = assignment.last_contact + config_.progress_lease;
    if (ends > now_.steady) {
      attempt.leases.push({ends, place});
    } else if (roster_.FindSession(assignment.session) != nullptr) {
      assignment.is_replaced = true;
      ++attempt.open_places;
    } else {
      attempt.leases.push({now_.steady + config_.progress_lease, place});
    }
  }
  if (!attempt.leases.empty()) {
    alarms_.Set({AlarmKind::kLeases, attempt.key.run}, attempt.leases.top().first);
  }
  Refill(run);
}

// The next client for a freed place: by the order of the draw, then whoever is held.
Device* Machine::NextReplacement(Run& run, Attempt& attempt, ClientNumber& client) {
  Population& population = roster_.InPopulation(attempt.population);
  const auto is_free = [&](ClientNumber candidate) {
    if (attempt.by_client.count(candidate) != 0) return false;
    if (attempt.is_simulated) return true;
    const auto held = population.held.find(candidate);
    return held != population.held.end() && Fits(*run.spec, attempt.key.kind, held->second->poll) &&
           held->second->device->live == 0 && IsSeparated(run, candidate, now_.wall);
  };
  while (attempt.draw) {
    const auto next = attempt.draw->Next();
    if (!next) {
      attempt.draw.reset();
      break;
    }
    if (!is_free(*next)) continue;
    client = *next;
    if (attempt.is_simulated) return &roster_.Simulated(client, attempt.population);
    return population.held.at(client)->device;
  }
  for (const auto& [candidate, session] : population.held) {
    if (!is_free(candidate)) continue;
    client = candidate;
    return session->device;
  }
  return nullptr;
}

void Machine::Refill(Run& run) {
  auto* collecting = std::get_if<Collecting>(&run.phase);
  if (collecting == nullptr || collecting->closing || is_draining_) return;
  Attempt& attempt = *collecting->attempt;
  while (attempt.open_places > 0) {
    ClientNumber client = 0;
    Device* device = NextReplacement(run, attempt, client);
    if (device == nullptr) return;
    --attempt.open_places;
    const Place place = attempt.Add(device->id, client);
    if (!device->is_simulated) {
      Change(*device, [&] {
        if (Session* session = roster_.SessionOf(*device)) roster_.Release(*session);
        ++device->live;
      });
    }
    Commit(JobKind::kAssign, attempt.key,
           AssignTx{attempt.key, {device->id, client, AssignmentState::kOffered, 0}}, place);
  }
}

void Machine::OnAssigned(Run& run, const AttemptKey& key, Place place) {
  auto* collecting = PhaseOf<Collecting>(key);
  if (collecting == nullptr || collecting->closing) return;
  Assignment& assignment = collecting->attempt->assignments[place];
  assignment.is_committed = true;
  if (assignment.IsLive()) Offer(run, *collecting->attempt, place);
}

void Machine::MaybeClose(Run& run) {
  auto* collecting = std::get_if<Collecting>(&run.phase);
  if (collecting == nullptr) return;
  const Attempt& attempt = *collecting->attempt;
  if (collecting->closing) {
    if (attempt.inspecting == 0 && attempt.settling == 0) OnSettled(run);
  } else if (attempt.acknowledged >= attempt.wanted) {
    BeginClosing(run, CloseReason::kComplete);
  } else if (attempt.live == 0) {
    BeginClosing(run, CloseReason::kNobodyLeft);
  }
}

void Machine::BeginClosing(Run& run, CloseReason reason) {
  auto* collecting = std::get_if<Collecting>(&run.phase);
  if (collecting == nullptr || collecting->closing) return;
  collecting->closing = reason;
  run.since = now_.steady;
  Attempt& attempt = *collecting->attempt;
  for (const AlarmKind kind : {AlarmKind::kDeadline, AlarmKind::kOffers, AlarmKind::kLeases}) {
    alarms_.Clear({kind, attempt.key.run});
  }
  for (Assignment& assignment : attempt.assignments) {
    if (!assignment.IsLive() || assignment.HasArrived()) continue;
    CancelUploadOf(attempt, assignment, kTooLate);
    CountMissing(attempt, assignment);
  }
  MaybeClose(run);
}

// A device that had started and of which no report will count.
void Machine::CountMissing(Attempt& attempt, const Assignment& assignment) {
  if (!assignment.is_started) return;
  const Device* device = roster_.FindDevice(assignment.device);
  const bool is_in_contact = attempt.is_simulated
                                 ? device != nullptr && !device->has_vanished
                                 : assignment.last_contact + config_.progress_lease > now_.steady;
  ++(is_in_contact ? attempt.counts.late : attempt.counts.dropped);
  Report(attempt, assignment, is_in_contact ? Outcome::kLate : Outcome::kDropped,
         is_in_contact ? kTooLate : kPeerSilent, "");
}

// Whatever had arrived is admitted or refused: the set of reports is fixed.
void Machine::OnSettled(Run& run) {
  Collecting& collecting = std::get<Collecting>(run.phase);
  const CloseReason reason = *collecting.closing;
  std::unique_ptr<Attempt> attempt = std::move(collecting.attempt);
  if (attempt->IsEvaluation()) {
    CloseToClients(*attempt, reason == CloseReason::kDeadline ? wire::RoundClosedReason::kDeadline
                                                              : wire::RoundClosedReason::kComplete);
    return FinishClientEvaluation(run, std::move(attempt));
  }
  if (attempt->acknowledged >= attempt->min_reports) {
    CloseToClients(*attempt, reason == CloseReason::kDeadline ? wire::RoundClosedReason::kDeadline
                                                              : wire::RoundClosedReason::kComplete);
    return EnterPublishing(run, std::move(attempt), false);
  }
  int commonest = 0;
  std::uint32_t times = 0;
  for (const auto& [code, seen] : attempt->failures) {
    if (seen.first > times) std::tie(commonest, times) = std::pair(code, seen.first);
  }
  std::string text = TooFewText(*attempt, reason);
  Abandon(run, std::move(attempt), commonest, std::move(text));
}

}  // namespace skep::aggregator
