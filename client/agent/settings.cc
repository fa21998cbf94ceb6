#include "client/agent/settings.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/loader.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

constexpr WallMs kEarliestNow = 1767225600000;  // 2026-01-01

}  // namespace

Status CheckClock(WallMs now) {
  if (now >= kEarliestNow) return Ok();
  return Error{3106, "this machine's clock shows " + UtcText(now) + ", which cannot be right",
               "set the clock"};
}

Status CheckCertificate(const Identity& identity, WallMs now) {
  const WallMs end = identity.own.certificate.NotAfter();
  if (now <= end) return Ok();
  return Error{3102, "this device's certificate ended at " + UtcText(end),
               "ask the operator for a new join string, and join in a new folder"};
}

Result<net::Endpoint> EndpointOf(const config::ClientConfig& config, const Identity& identity) {
  // Checked when the identity was read.
  const net::Endpoint enrolled = net::ParseEndpoint(identity.endpoint).value_or(net::Endpoint{});
  if (config.endpoint.empty() || net::ParseEndpoint(config.endpoint) == enrolled) return enrolled;
  return Error{3103,
               "aggregator.endpoint is " + config.endpoint + ", this device is enrolled at " +
                   identity.endpoint,
               "remove the key, or join that aggregator in another folder"};
}

Result<std::string> PopulationOf(const config::ClientConfig& config, const Identity& identity) {
  const std::vector<std::string>& enrolled = identity.populations;
  std::string all;
  for (const std::string& name : enrolled) all += (all.empty() ? "" : ", ") + name;
  if (config.population.empty()) {
    if (enrolled.size() == 1) return enrolled.front();
    return Error{3103, "this device is enrolled in " + all, "set aggregator.population to one"};
  }
  if (std::find(enrolled.begin(), enrolled.end(), config.population) != enrolled.end()) {
    return config.population;
  }
  return Error{
      3103, "aggregator.population is " + config.population + ", this device is enrolled in " + all,
      "set it to one of these, or remove the key"};
}

Eligibility EligibilityOf(const config::ClientConfig& config) {
  return {.charging = config.eligibility.charging,
          .idle = config.eligibility.idle,
          .unmetered = config.eligibility.unmetered,
          .min_battery = config.eligibility.min_battery};
}

Result<std::string> FindDevice(const config::ClientConfig& config) {
  SKEP_ASSIGN(const kernels::DeviceChoice choice, kernels::ParseDevice(config.limits.device));
  SKEP_ASSIGN(kernels::ChosenDevice chosen, kernels::ChooseDevice(choice));
  return std::move(chosen.said);
}

}  // namespace skep::agent
