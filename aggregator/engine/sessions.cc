// Who is there: joining, leaving, takeover, Polls and how long they are held.
#include <algorithm>
#include <utility>

#include "aggregator/engine/machine.h"

namespace skep::aggregator {
namespace {

constexpr std::size_t kMaxTakeovers = 10;
constexpr std::chrono::seconds kTakeoverWindow{60};
constexpr int kReplaced = 3334;
constexpr int kTooManyTakeovers = 3333;
constexpr int kNotAMember = 2210;
constexpr int kRevoked = 3105;
constexpr int kPeerSilent = 3324;

bool HasTasks(const wire::Poll& poll) {
  return std::any_of(poll.task_kinds.begin(), poll.task_kinds.end(), [](wire::TaskKind kind) {
    return kind == wire::TaskKind::kTrain || kind == wire::TaskKind::kEvaluate;
  });
}

// Still active, and still the same client of the population that its Poll names.
bool MayStayHeld(const Session& session, const DeviceChanged& changed) {
  const auto client = session.device->ClientIn(session.poll.population);
  return changed.state == DeviceState::kActive && client &&
         std::any_of(changed.memberships.begin(), changed.memberships.end(),
                     [&](const Membership& membership) {
                       return membership.population == session.poll.population &&
                              membership.client == *client;
                     });
}

}  // namespace

void Machine::Tally(const Device& device, int sign) {
  if (device.is_simulated) return;
  const auto add = [sign](std::uint32_t& count) { count += static_cast<std::uint32_t>(sign); };
  for (const Membership& membership : device.memberships) {
    Population& population = roster_.InPopulation(membership.population);
    if (device.presence != Presence::kGone) add(population.active);
    if (device.presence == Presence::kPresent) add(population.present);
    const auto runs = by_population_.find(membership.population);
    if (runs == by_population_.end()) continue;
    for (Run* run : runs->second) {
      auto* selecting = std::get_if<Selecting>(&run->phase);
      if (selecting == nullptr) continue;
      if (sign > 0) dirty_.insert(membership.population);
      if (!IsCandidate(*run, selecting->key, device, membership.client)) continue;
      add(selecting->candidates);
      if (population.held.count(membership.client) != 0) add(selecting->held);
    }
  }
}

bool Machine::TakeOver(Device& device, SessionNumber by) {
  auto& takeovers = device.takeovers;
  while (!takeovers.empty() && takeovers.front() + kTakeoverWindow <= now_.steady) {
    takeovers.pop_front();
  }
  if (takeovers.size() >= kMaxTakeovers) {
    out_.push_back(Disconnect{by, kTooManyTakeovers});
    return false;
  }
  takeovers.push_back(now_.steady);
  Session* old = roster_.SessionOf(device);
  out_.push_back(Disconnect{old->number, kReplaced});
  Change(device, [&] { roster_.Close(*old, now_.steady); });
  return true;
}

void Machine::On(ClientJoined& joined) {
  if (SimulatedClient(joined.session) || roster_.FindSession(joined.session) != nullptr) return;
  Device* device = roster_.FindDevice(joined.device);
  if (device == nullptr) device = &roster_.Enrol(joined.device, joined.memberships);
  if (device->state == DeviceState::kRevoked) {
    out_.push_back(Disconnect{joined.session, kRevoked});
    return;
  }
  if (device->session && !TakeOver(*device, joined.session)) return;
  Change(*device, [&] {
    roster_.Enrol(joined.device, joined.memberships);
    roster_.Open(joined.session, *device);
  });
  GrantAgain(*device, joined.session);
}

// A device that had accepted a task goes on with it on its new session, without another offer.
void Machine::GrantAgain(const Device& device, SessionNumber session) {
  if (device.live == 0) return;
  for (const Membership& membership : device.memberships) {
    const auto runs = by_population_.find(membership.population);
    if (runs == by_population_.end()) continue;
    for (Run* run : runs->second) {
      auto* collecting = std::get_if<Collecting>(&run->phase);
      if (collecting == nullptr || collecting->closing) continue;
      const Attempt& attempt = *collecting->attempt;
      const Assignment* assignment = collecting->attempt->Find(membership.client);
      if (assignment == nullptr || assignment->state != AssignmentState::kAccepted) continue;
      out_.push_back(Grant{session, attempt.plan_hash, attempt.terms.model});
    }
  }
}

void Machine::On(ClientLeft& left) {
  Session* session = roster_.FindSession(left.session);
  if (session == nullptr) return;
  Device& device = *session->device;
  Change(device, [&] { roster_.Close(*session, now_.steady); });
}

void Machine::On(DeviceChanged& changed) {
  Device* device = roster_.FindDevice(changed.device);
  const bool is_new = device == nullptr;
  if (is_new) {
    device = &roster_.Enrol(changed.device, {});
    device->active_until = now_.steady + std::chrono::hours(24);
  }
  Session* session = roster_.SessionOf(*device);
  if (session != nullptr && session->is_held && !MayStayHeld(*session, changed)) {
    const std::string population = session->poll.population;
    Change(*device, [&] { roster_.Release(*session); });
    AnswerNotNow(*session, population,
                 changed.state == DeviceState::kActive ? wire::ComeBackReason::kNoWork
                                                       : wire::ComeBackReason::kQuarantined);
  }
  Change(*device, [&] {
    device->state = changed.state;
    roster_.Enrol(changed.device, changed.memberships);
  });
  if (is_new) roster_.Watch(*device, now_.steady);
  if (changed.state == DeviceState::kActive) device->strikes = 0;
  if (changed.state != DeviceState::kRevoked) return;
  EndAssignmentsOf(*device, kRevoked, false);
  if (device->session) out_.push_back(Disconnect{*device->session, kRevoked});
}

void Machine::On(ClientMessage& message) {
  Session* session = roster_.FindSession(message.session);
  if (session == nullptr) return;
  if (auto* poll = std::get_if<wire::Poll>(&message.body)) {
    OnPoll(*session, *poll);
  } else if (auto* accept = std::get_if<wire::TaskAccept>(&message.body)) {
    OnAccept(*session, *accept);
  } else if (auto* decline = std::get_if<wire::TaskDecline>(&message.body)) {
    OnDecline(*session, *decline);
  } else if (auto* progress = std::get_if<wire::Progress>(&message.body)) {
    OnProgress(*session, *progress);
  } else if (auto* failed = std::get_if<wire::TaskFailed>(&message.body)) {
    OnFailed(*session, *failed);
  }
}

void Machine::OnPoll(Session& session, wire::Poll& poll) {
  Device& device = *session.device;
  if (device.is_simulated) return;
  const auto client = device.ClientIn(poll.population);
  if (!client) {
    Tell(session.number,
         wire::PeerError{.code = kNotAMember,
                         .retry = wire::RetryClass::kRejoin,
                         .retry_after_ms = 0,
                         .in_reply_to = static_cast<std::uint32_t>(wire::MessageId::kPoll),
                         .text = "population unknown, or this device is not a member"});
    return;
  }
  if (session.is_held) Change(device, [&] { roster_.Release(session); });
  if (is_draining_) return AnswerNotNow(session, poll.population, wire::ComeBackReason::kDraining);
  if (device.state != DeviceState::kActive) {
    return AnswerNotNow(session, poll.population, wire::ComeBackReason::kQuarantined);
  }
  if (OfferAgain(session, poll.population, *client)) return;

  const bool is_held_without_limit = config_.max_hold.count() == 0;
  const Nanoseconds asked = Milliseconds(poll.hold_ms);
  if (!HasTasks(poll) || (asked.count() == 0 && !is_held_without_limit)) {
    return AnswerNotNow(session, poll.population, wire::ComeBackReason::kNoWork);
  }
  if (!MayHold(poll.population, DemandOf(poll.population))) {
    return AnswerNotNow(session, poll.population, wire::ComeBackReason::kPacing);
  }
  const SteadyTime until =
      is_held_without_limit ? SteadyTime::max() : now_.steady + std::min(asked, config_.max_hold);
  const std::string population = poll.population;
  Change(device, [&] { roster_.Hold(session, *client, std::move(poll), until); });
  const auto runs = by_population_.find(population);
  if (runs == by_population_.end()) return;
  for (Run* run : runs->second) Refill(*run);
}

// An assignment that is still live is offered again: the device lost the offer, or its process.
bool Machine::OfferAgain(Session& session, const std::string& population, ClientNumber client) {
  if (session.device->live == 0) return false;
  const auto runs = by_population_.find(population);
  if (runs == by_population_.end()) return false;
  for (Run* run : runs->second) {
    auto* collecting = std::get_if<Collecting>(&run->phase);
    if (collecting == nullptr || collecting->closing) continue;
    Assignment* assignment = collecting->attempt->Find(client);
    if (assignment == nullptr || !assignment->IsLive() || assignment->HasArrived() ||
        !assignment->is_committed) {
      continue;
    }
    Offer(*run, *collecting->attempt, collecting->attempt->by_client[client]);
    return true;
  }
  return false;
}

Demand Machine::DemandOf(const std::string& population) const {
  Demand demand;
  if (const Population* there = roster_.FindPopulation(population)) demand.active = there->active;
  const auto runs = by_population_.find(population);
  if (runs == by_population_.end()) return demand;
  for (const Run* run : runs->second) {
    if (run->state != RunState::kRunning) continue;
    demand.invited = std::max(demand.invited, run->spec->training.invited);
    demand.period = std::max(demand.period, run->periods.Median());
  }
  return demand;
}

bool Machine::MayHold(const std::string& population, const Demand& demand) const {
  if (demand.invited == 0) {
    const Population* there = roster_.FindPopulation(population);
    return there == nullptr || there->held.size() < config_.max_held;
  }
  if (HoldsEverybody(config_, demand)) return true;
  // A large population: as many as the next cohort or a freed place can use.
  for (const Run* run : by_population_.at(population)) {
    if (std::holds_alternative<Selecting>(run->phase)) return true;
    const auto* collecting = std::get_if<Collecting>(&run->phase);
    if (collecting != nullptr && !collecting->closing && collecting->attempt->open_places > 0) {
      return true;
    }
  }
  return false;
}

wire::ComeBack Machine::Pace(const std::string& population, wire::ComeBackReason reason) const {
  return ComeBackWindow(config_, DemandOf(population), reason);
}

void Machine::AnswerNotNow(const Session& session, const std::string& population,
                           wire::ComeBackReason reason) {
  Tell(session.number, Pace(population, reason));
}

void Machine::EndHolds() {
  const auto& holds = roster_.holds();
  while (!holds.empty() && holds.begin()->first <= now_.steady) {
    Session& session = *roster_.FindSession(holds.begin()->second);
    Change(*session.device, [&] { roster_.Release(session); });
    Tell(session.number,
         wire::ComeBack{.earliest_ms = 0, .latest_ms = 1, .reason = wire::ComeBackReason::kNoWork});
  }
}

void Machine::EndPresences() {
  const auto& watched = roster_.watched();
  while (!watched.empty() && watched.begin()->first <= now_.steady) {
    Device* device = roster_.FindDevice(watched.begin()->second);
    const bool was_present = device->presence == Presence::kPresent;
    Change(*device, [] {});
    roster_.Watch(*device, now_.steady);
    if (!was_present || device->presence == Presence::kPresent) continue;
    // Nobody waits for its evaluation; without leave to train detached its tasks are over too.
    EndAssignmentsOf(*device, kPeerSilent, config_.detach_allowed);
  }
}

void Machine::EndAssignmentsOf(Device& device, int code, bool evaluations_only) {
  for (const Membership& membership : std::vector<Membership>(device.memberships)) {
    const auto runs = by_population_.find(membership.population);
    if (runs == by_population_.end()) continue;
    for (Run* run : std::vector<Run*>(runs->second)) {
      auto* collecting = std::get_if<Collecting>(&run->phase);
      if (collecting == nullptr || collecting->closing) continue;
      Attempt& attempt = *collecting->attempt;
      if (evaluations_only && !attempt.IsEvaluation()) continue;
      Assignment* assignment = attempt.Find(membership.client);
      if (assignment == nullptr || !assignment->IsLive() || assignment->is_settling) continue;
      if (assignment->is_inspecting && code != kRevoked) continue;  // its report is here
      if (assignment->is_started) {
        ++attempt.counts.dropped;
        Report(attempt, *assignment, Outcome::kDropped, code, "");
      }
      EndAssignment(attempt, *assignment, AssignmentState::kExpired, code);
      MaybeClose(*run);
    }
  }
}

void Machine::On(Drain&) {
  is_draining_ = true;
  for (const auto& [id, run] : runs_) alarms_.Clear({AlarmKind::kWindow, id});
  while (!roster_.holds().empty()) {
    Session& session = *roster_.FindSession(roster_.holds().begin()->second);
    const std::string population = session.poll.population;
    Change(*session.device, [&] { roster_.Release(session); });
    AnswerNotNow(session, population, wire::ComeBackReason::kDraining);
  }
}

}  // namespace skep::aggregator
