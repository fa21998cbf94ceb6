// Roster: devices, their sessions and held Polls, and who of a population is there.
//
// Knows nothing of rounds. Devices stay where they are in memory. Part of the engine; one thread.
// Source: Skep protocol 1.0, sections 6.1 (takeover) and 7.1 (active, present).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aggregator/engine/events.h"
#include "aggregator/store/store.h"

namespace skep::aggregator {

// How much of a device's company can be counted on.
enum class Presence {
  kGone,     // not seen within 24 h, or not active
  kActive,   // enrolled or seen within 24 h
  kPresent,  // active, and with a session or heard of within absent_after
};

struct Device {
  DeviceId id;
  std::vector<Membership> memberships;
  DeviceState state = DeviceState::kActive;
  std::optional<SessionNumber> session;
  SteadyTime last_heard{};
  bool was_heard = false;     // since the start, or recently before it; enrolment does not count
  SteadyTime active_until{};  // without a session: 24 h after it was enrolled or heard of
  std::optional<SteadyTime> watched_at;  // when it is looked at again
  Presence presence = Presence::kGone;   // as last counted
  std::uint32_t strikes = 0;
  std::uint32_t live = 0;  // live assignments, of all runs
  bool is_simulated = false;
  bool has_vanished = false;  // simulated: left for good
  std::deque<SteadyTime> takeovers;

  // Nothing if it is not a member.
  [[nodiscard]] std::optional<ClientNumber> ClientIn(const std::string& population) const;
};

struct Session {
  SessionNumber number = 0;
  Device* device = nullptr;
  bool is_held = false;
  wire::Poll poll;  // of a held session
  SteadyTime held_until{};
};

struct Population {
  std::string name;
  std::unordered_map<ClientNumber, Device*> members;
  std::map<ClientNumber, Session*> held;
  std::uint32_t active = 0;
  std::uint32_t present = 0;
};

class Roster {
 public:
  explicit Roster(Nanoseconds absent_after) : absent_after_(absent_after) {}

  // Adds or updates; the memberships are all that the device has.
  Device& Enrol(const DeviceId& id, const std::vector<Membership>& memberships);
  // The device that speaks for a simulated client; made on first use, dropped by DropSimulated.
  Device& Simulated(ClientNumber client, const std::string& population);
  void DropSimulated(ClientNumber client);

  Session& Open(SessionNumber number, Device& device);
  void Close(Session& session, SteadyTime now);
  [[nodiscard]] Session* FindSession(SessionNumber number);
  [[nodiscard]] Session* SessionOf(const Device& device);
  [[nodiscard]] const Session* SessionOf(const Device& device) const;
  [[nodiscard]] Device* FindDevice(const DeviceId& id);
  [[nodiscard]] Population& InPopulation(const std::string& name) { return populations_[name]; }
  // Null before anybody was in it.
  [[nodiscard]] const Population* FindPopulation(const std::string& name) const;

  void Hold(Session& session, ClientNumber client, wire::Poll poll, SteadyTime until);
  void Release(Session& session);
  // The held sessions by the time at which they have been held long enough.
  [[nodiscard]] const std::set<std::pair<SteadyTime, SessionNumber>>& holds() const {
    return holds_;
  }

  // What the device is now. A simulated one is never counted: Eligible speaks for it.
  [[nodiscard]] Presence Classify(const Device& device, SteadyTime now) const;
  // Remembers when a device without a session next changes class, to be looked at again then.
  void Watch(Device& device, SteadyTime now);
  [[nodiscard]] const std::set<std::pair<SteadyTime, DeviceId>>& watched() const {
    return watched_;
  }
  void Unwatch(Device& device);

 private:
  Nanoseconds absent_after_;
  std::unordered_map<DeviceId, Device> devices_;
  std::unordered_map<SessionNumber, Session> sessions_;
  std::unordered_map<std::string, Population> populations_;
  std::set<std::pair<SteadyTime, SessionNumber>> holds_;
  std::set<std::pair<SteadyTime, DeviceId>> watched_;
};

// Whether a session number belongs to a simulated client, and to which.
[[nodiscard]] std::optional<ClientNumber> SimulatedClient(SessionNumber session);

}  // namespace skep::aggregator
