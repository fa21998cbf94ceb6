#include "client/agent/settings.h"

#include <algorithm>
#include <utility>

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

Result<net::Endpoint> EndpointOf(const std::string& wanted, const Identity& identity) {
  // Checked when the identity was read.
  const net::Endpoint enrolled = net::ParseEndpoint(identity.endpoint).value_or(net::Endpoint{});
  if (wanted.empty() || net::ParseEndpoint(wanted) == enrolled) return enrolled;
  return Error{
      3103,
      "the endpoint is set to " + wanted + ", this device is enrolled at " + identity.endpoint,
      "leave it out, or join that aggregator in another folder"};
}

Result<std::string> PopulationOf(const std::string& wanted, const Identity& identity) {
  const std::vector<std::string>& enrolled = identity.populations;
  std::string all;
  for (const std::string& name : enrolled) all += (all.empty() ? "" : ", ") + name;
  if (wanted.empty()) {
    if (enrolled.size() == 1) return enrolled.front();
    return Error{3103, "this device is enrolled in " + all, "set the population to one of them"};
  }
  if (std::find(enrolled.begin(), enrolled.end(), wanted) != enrolled.end()) return wanted;
  return Error{3103, "the population is set to " + wanted + ", this device is enrolled in " + all,
               "set it to one of these, or leave it out"};
}

}  // namespace skep::agent
