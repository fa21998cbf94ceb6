#include "aggregator/engine/roster.h"

#include "aggregator/engine/round_engine.h"

namespace skep::aggregator {
namespace {

constexpr SessionNumber kSimulated = SessionNumber{1} << 63U;

}  // namespace

SessionNumber RoundEngine::SimulatedSession(ClientNumber client) {
  return kSimulated | client;
}

ClientNumber RoundEngine::SimulatedClient(SessionNumber session) {
  return static_cast<ClientNumber>(session & ~kSimulated);
}

DeviceId RoundEngine::SimulatedDevice(ClientNumber client) {
  DeviceId id;
  id.bytes[0] = 0x51;  // no device of a CSPRNG needs to be avoided: a simulation enrols none
  StoreLittle(client, id.bytes.data() + 12);
  return id;
}

std::optional<ClientNumber> SimulatedClient(SessionNumber session) {
  if ((session & kSimulated) == 0) return std::nullopt;
  return static_cast<ClientNumber>(session & ~kSimulated);
}

std::optional<ClientNumber> Device::ClientIn(const std::string& population) const {
  for (const Membership& membership : memberships) {
    if (membership.population == population) return membership.client;
  }
  return std::nullopt;
}

Device& Roster::Enrol(const DeviceId& id, const std::vector<Membership>& memberships) {
  Device& device = devices_[id];
  device.id = id;
  for (const Membership& old : device.memberships)
    populations_[old.population].members.erase(old.client);
  device.memberships = memberships;
  for (const Membership& membership : memberships) {
    Population& population = populations_[membership.population];
    population.name = membership.population;
    population.members[membership.client] = &device;
  }
  return device;
}

Device& Roster::Simulated(ClientNumber client, const std::string& population) {
  const DeviceId id = RoundEngine::SimulatedDevice(client);
  const auto [entry, is_new] = devices_.try_emplace(id);
  Device& device = entry->second;
  if (is_new) {
    device.id = id;
    device.is_simulated = true;
    device.memberships = {{population, client}};
  }
  const SessionNumber number = RoundEngine::SimulatedSession(client);
  if (!device.session && !device.has_vanished) Open(number, device);
  return device;
}

void Roster::DropSimulated(ClientNumber client) {
  sessions_.erase(RoundEngine::SimulatedSession(client));
  devices_.erase(RoundEngine::SimulatedDevice(client));
}

Session& Roster::Open(SessionNumber number, Device& device) {
  Session& session = sessions_[number];
  session = {};
  session.number = number;
  session.device = &device;
  device.session = number;
  Unwatch(device);
  return session;
}

void Roster::Close(Session& session, SteadyTime now) {
  Device& device = *session.device;
  if (session.is_held) Release(session);
  if (device.session == session.number) device.session.reset();
  device.last_heard = now;
  device.was_heard = true;
  if (device.is_simulated) {
    device.has_vanished = true;
  } else {
    device.active_until = now + std::chrono::hours(24);
    Watch(device, now);
  }
  sessions_.erase(session.number);
}

Session* Roster::FindSession(SessionNumber number) {
  const auto found = sessions_.find(number);
  return found == sessions_.end() ? nullptr : &found->second;
}

Session* Roster::SessionOf(const Device& device) {
  return device.session ? FindSession(*device.session) : nullptr;
}

const Session* Roster::SessionOf(const Device& device) const {
  if (!device.session) return nullptr;
  const auto found = sessions_.find(*device.session);
  return found == sessions_.end() ? nullptr : &found->second;
}

Device* Roster::FindDevice(const DeviceId& id) {
  const auto found = devices_.find(id);
  return found == devices_.end() ? nullptr : &found->second;
}

void Roster::Hold(Session& session, ClientNumber client, wire::Poll poll, SteadyTime until) {
  populations_[poll.population].held[client] = &session;
  session.is_held = true;
  session.poll = std::move(poll);
  session.held_until = until;
  holds_.insert({until, session.number});
}

void Roster::Release(Session& session) {
  if (!session.is_held) return;
  const auto client = session.device->ClientIn(session.poll.population);
  if (client) populations_[session.poll.population].held.erase(*client);
  holds_.erase({session.held_until, session.number});
  session.is_held = false;
}

Presence Roster::Classify(const Device& device, SteadyTime now) const {
  if (device.is_simulated || device.state != DeviceState::kActive) return Presence::kGone;
  if (device.session) return Presence::kPresent;
  if (device.active_until <= now) return Presence::kGone;
  const bool is_recent = device.was_heard && device.last_heard + absent_after_ > now;
  return is_recent ? Presence::kPresent : Presence::kActive;
}

void Roster::Watch(Device& device, SteadyTime now) {
  Unwatch(device);
  if (device.session) return;
  const SteadyTime absent = device.last_heard + absent_after_;
  if (device.was_heard && absent > now) {
    device.watched_at = absent;
  } else if (device.active_until > now) {
    device.watched_at = device.active_until;
  }
  if (device.watched_at) watched_.insert({*device.watched_at, device.id});
}

void Roster::Unwatch(Device& device) {
  if (device.watched_at) watched_.erase({*device.watched_at, device.id});
  device.watched_at.reset();
}

const Population* Roster::FindPopulation(const std::string& name) const {
  const auto found = populations_.find(name);
  return found == populations_.end() ? nullptr : &found->second;
}

}  // namespace skep::aggregator
