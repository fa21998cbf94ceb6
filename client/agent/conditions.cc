#include "client/agent/conditions.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "shared/base/file.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;

constexpr double kIdleLoad = 0.5;  // for each core

std::vector<fs::path> FoldersIn(const fs::path& folder) {
  std::vector<fs::path> found;
  const auto names = ListFolder(folder.string());
  if (!names.has_value()) return found;
  for (const std::string& name : *names) found.push_back(folder / name);
  return found;
}

// The first line; empty if there is none. Files of /sys state a size that is not theirs, so they
// are read as streams of the system's page size.
std::string FirstLine(const fs::path& file) {
  std::error_code failure;
  if (!fs::exists(file, failure)) return {};
  std::string line;
  std::FILE* const opened = std::fopen(file.c_str(), "re");
  if (opened == nullptr) return {};
  for (int c = std::fgetc(opened); c != EOF && c != '\n' && line.size() < 256;
       c = std::fgetc(opened)) {
    line += static_cast<char>(c);
  }
  std::fclose(opened);
  return line;
}

std::optional<double> NumberIn(std::string_view text) {
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc()) return std::nullopt;
  return number;
}

void ProbePower(const fs::path& folder, Conditions& found) {
  std::optional<bool> is_online;
  for (const fs::path& supply : FoldersIn(folder)) {
    const std::string type = FirstLine(supply / "type");
    if (type == "Battery") {
      found.has_battery = true;
      const std::string status = FirstLine(supply / "status");
      if (status == "Charging" || status == "Full") found.is_charging = true;
      if (const auto capacity = NumberIn(FirstLine(supply / "capacity"))) {
        found.battery = *capacity / 100;
      }
    } else if (const std::string online = FirstLine(supply / "online"); !online.empty()) {
      is_online = is_online.value_or(false) || online == "1";
    }
  }
  if (!found.is_charging && is_online) found.is_charging = is_online;
}

void ProbeHeat(const fs::path& folder, Conditions& found) {
  for (const fs::path& zone : FoldersIn(folder)) {
    const auto heat = NumberIn(FirstLine(zone / "temp"));
    for (int point = 0; heat && point < 16; ++point) {
      const std::string name = fmt::format("trip_point_{}_", point);
      if (FirstLine(zone / (name + "type")) != "passive") continue;
      const auto limit = NumberIn(FirstLine(zone / (name + "temp")));
      if (limit) found.is_cool = found.is_cool.value_or(true) && *heat < *limit;
    }
  }
}

std::string_view YesNo(const std::optional<bool>& state) {
  if (!state) return "unknown";
  return *state ? "yes" : "no";
}

Error NotEligible(const std::string& what) {
  return Error{7401, "not eligible: " + what, "the conditions are those of [eligibility]"};
}

}  // namespace

Conditions ProbeConditions(const std::string& system, const std::string& processes,
                           const SystemBus& bus) {
  Conditions found;
  ProbePower(fs::path(system) / "class/power_supply", found);
  ProbeHeat(fs::path(system) / "class/thermal", found);
  const SystemBus::Facts told = bus.Ask();
  found.is_unmetered = told.is_unmetered;
  found.is_idle = told.is_idle;
  const auto load = NumberIn(FirstLine(fs::path(processes) / "loadavg"));
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  if (!found.is_idle && load) found.is_idle = *load < kIdleLoad * cores;
  return found;
}

Status CheckEligible(const Eligibility& required, const Conditions& conditions) {
  if (!conditions.is_cool.value_or(true)) return NotEligible("too hot");
  if (conditions.has_battery) {
    const bool is_charging = conditions.is_charging.value_or(false);
    if (required.charging && !is_charging) {
      return NotEligible(fmt::format("charging: {}", YesNo(conditions.is_charging)));
    }
    if (!is_charging && !conditions.battery) return NotEligible("battery: unknown");
    if (!is_charging && *conditions.battery < required.min_battery) {
      return NotEligible(fmt::format("battery: {:.0f} %, at least {:.0f} %",
                                     100 * *conditions.battery, 100 * required.min_battery));
    }
  }
  if (required.idle && !conditions.is_idle.value_or(false)) {
    return NotEligible(fmt::format("idle: {}", YesNo(conditions.is_idle)));
  }
  if (required.unmetered && !conditions.is_unmetered.value_or(false)) {
    return NotEligible(fmt::format("unmetered: {}", YesNo(conditions.is_unmetered)));
  }
  return Ok();
}

std::string ConditionsText(const Conditions& conditions) {
  const std::string power =
      conditions.has_battery ? fmt::format("charging {}, ", YesNo(conditions.is_charging)) : "";
  const std::string battery = !conditions.has_battery ? "no battery"
                              : conditions.battery
                                  ? fmt::format("battery {:.0f} %", 100 * *conditions.battery)
                                  : "battery unknown";
  return fmt::format("{}idle {}, unmetered {}, {}", power, YesNo(conditions.is_idle),
                     YesNo(conditions.is_unmetered), battery);
}

}  // namespace skep::agent
