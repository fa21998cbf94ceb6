// The state of the machine as files of the system tell it, and what it allows.
#include "client/agent/conditions.h"
#include "tests/client/scripted_bus.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::agent {
namespace {

using test::ScriptedBus;
using test::TemporaryFolder;

// The files of a machine, and a bus of which nobody knows.
Conditions ProbeIn(const TemporaryFolder& place, const SystemBus& bus = SystemBus("/nowhere")) {
  return ProbeConditions((place.path() / "sys").string(), (place.path() / "proc").string(), bus);
}

TEST_CASE("a machine without a battery passes the conditions on it", "[unit]") {
  const TemporaryFolder place;
  (void)place.Write("proc/loadavg", "0.01 0.02 0.03 1/100 4711\n");
  (void)place.Write("sys/class/power_supply/AC/type", "Mains\n");
  (void)place.Write("sys/class/power_supply/AC/online", "0\n");
  const Conditions found = ProbeIn(place);
  CHECK_FALSE(found.has_battery);
  CHECK(found.is_idle == true);
  CHECK(CheckEligible({.charging = true, .idle = true}, found).has_value());
}

TEST_CASE("battery and mains are read, and each condition that fails is named", "[unit]") {
  const TemporaryFolder place;
  (void)place.Write("proc/loadavg", "900.0 900.0 900.0 1/100 4711\n");
  (void)place.Write("sys/class/power_supply/BAT0/type", "Battery\n");
  (void)place.Write("sys/class/power_supply/BAT0/status", "Discharging\n");
  (void)place.Write("sys/class/power_supply/BAT0/capacity", "20\n");
  (void)place.Write("sys/class/power_supply/AC/type", "Mains\n");
  (void)place.Write("sys/class/power_supply/AC/online", "0\n");
  const auto probe = [&] { return ProbeIn(place); };
  CHECK(probe().battery == 0.2);
  CHECK(CheckEligible({}, probe()).error().message == "not eligible: battery: 20 %, at least 30 %");
  CHECK(CheckEligible({.charging = true}, probe()).error().message == "not eligible: charging: no");
  (void)place.Write("sys/class/power_supply/AC/online", "1\n");
  CHECK(CheckEligible({.charging = true}, probe()).has_value());  // its charge is ignored then
  CHECK(CheckEligible({.idle = true}, probe()).error().message == "not eligible: idle: no");
  (void)place.Write("sys/class/thermal/thermal_zone0/temp", "95000\n");
  (void)place.Write("sys/class/thermal/thermal_zone0/trip_point_0_type", "passive\n");
  (void)place.Write("sys/class/thermal/thermal_zone0/trip_point_0_temp", "90000\n");
  CHECK(CheckEligible({}, probe()).error().message == "not eligible: too hot");
}

TEST_CASE("a machine is cool below its trip points, and of unknown heat without one", "[unit]") {
  const TemporaryFolder place;
  const auto probe = [&] { return ProbeIn(place); };
  const std::string zones = "sys/class/thermal/thermal_zone";
  (void)place.Write(zones + "0/temp", "95000\n");
  (void)place.Write(zones + "0/trip_point_0_type", "critical\n");
  (void)place.Write(zones + "0/trip_point_0_temp", "90000\n");
  CHECK_FALSE(probe().is_cool.has_value());
  CHECK(CheckEligible({}, probe()).has_value());
  (void)place.Write(zones + "1/temp", "90000\n");
  (void)place.Write(zones + "1/trip_point_1_type", "passive\n");
  (void)place.Write(zones + "1/trip_point_1_temp", "90000\n");
  CHECK(probe().is_cool == false);  // whatever the zones after it are
  (void)place.Write(zones + "2/temp", "20000\n");
  (void)place.Write(zones + "2/trip_point_0_type", "passive\n");
  (void)place.Write(zones + "2/trip_point_0_temp", "90000\n");
  CHECK(probe().is_cool == false);
  (void)place.Write(zones + "1/temp", "89999\n");
  CHECK(probe().is_cool == true);
}

TEST_CASE("the bus says whether the network is metered, and whether anybody is there", "[unit]") {
  const TemporaryFolder place;
  (void)place.Write("proc/loadavg", "900.0 900.0 900.0 1/100 4711\n");
  const ScriptedBus idle(ScriptedBus::Knows(
      {{"Metered", {'u', 4}}, {"IdleHint", {'b', 1}}, {"NCurrentSessions", {'t', 1}}}));
  const Conditions found = ProbeIn(place, idle.At());
  CHECK(found.is_unmetered == true);
  CHECK(found.is_idle == true);  // whatever the load is
  CHECK(CheckEligible({.idle = true, .unmetered = true}, found).has_value());
  const ScriptedBus busy(ScriptedBus::Knows({{"Metered", {'u', 1}}, {"IdleHint", {'b', 0}}}));
  (void)place.Write("proc/loadavg", "0.01 0.02 0.03 1/100 4711\n");
  const Conditions used = ProbeIn(place, busy.At());
  CHECK(CheckEligible({.idle = true}, used).error().message == "not eligible: idle: no");
  CHECK(CheckEligible({.unmetered = true}, used).error().message == "not eligible: unmetered: no");
}

TEST_CASE("without a word from the bus the load tells, and the network is unknown", "[unit]") {
  const TemporaryFolder place;
  (void)place.Write("proc/loadavg", "0.01 0.02 0.03 1/100 4711\n");
  const Conditions found = ProbeIn(place);
  CHECK(found.is_idle == true);
  CHECK(CheckEligible({.unmetered = true}, found).error().message ==
        "not eligible: unmetered: unknown");
  const ScriptedBus nobody(
      ScriptedBus::Knows({{"IdleHint", {'b', 1}}, {"NCurrentSessions", {'t', 0}}}));
  (void)place.Write("proc/loadavg", "900.0 900.0 900.0 1/100 4711\n");
  CHECK(ProbeIn(place, nobody.At()).is_idle == false);
}

}  // namespace
}  // namespace skep::agent
