#include "crypto/pki/inspect.h"

#include <openssl/evp.h>

namespace skep::crypto {
namespace {

constexpr WallMs kDay = 24ULL * 3600 * 1000;
constexpr WallMs kWarnedBefore = 14 * kDay;
constexpr int kSmallestRsaBits = 2048;
constexpr const char* kRenew =
    "sign a new one with tls.server_ca (docs/operations.md), then restart";

std::string Day(WallMs wall) {
  return UtcText(wall).substr(0, 10);
}

void InspectTimes(const ServerFiles& files, WallMs now, std::vector<Error>& problems) {
  const WallMs from = files.certificate.NotBefore();
  const WallMs until = files.certificate.NotAfter();
  if (now > until) {
    problems.push_back({5103, files.certificate_name + " expired on " + Day(until), kRenew});
  } else if (now < from) {
    problems.push_back(
        {5104,
         files.certificate_name + " is valid from " + Day(from) + ", the clock says " + Day(now),
         "check the clock"});
  } else if (until - now < kWarnedBefore) {
    problems.push_back(
        {5108, files.certificate_name + " ends in " + std::to_string((until - now) / kDay) + " d",
         kRenew});
  }
}

void InspectNames(const ServerFiles& files, std::vector<Error>& problems) {
  std::string names;
  for (const std::string& name : files.certificate.Names())
    names += (names.empty() ? "" : ", ") + name;
  for (const auto& advertised : files.advertised) {
    if (files.certificate.NamesHost(advertised.host)) continue;
    problems.push_back({5105,
                        files.certificate_name + " does not name \"" + advertised.host +
                            "\" from " + advertised.config_key +
                            " (names: " + (names.empty() ? "none" : names) + ")",
                        ""});
  }
}

void InspectAuthorities(const ServerFiles& files, std::vector<Error>& problems) {
  if (!files.certificate.IsIssuedBy(files.server_ca)) {
    problems.push_back({5106,
                        files.certificate_name + " is not issued by tls.server_ca \"" +
                            files.server_ca.Subject() + "\"",
                        ""});
  }
  // The key decides: another certificate of the same key is the same authority.
  if (files.server_ca.KeyHash() == files.device_ca.KeyHash()) {
    problems.push_back({5107,
                        "tls.server_ca and tls.device_ca are the same certificate; a device could "
                        "pose as the aggregator",
                        ""});
  }
  const auto refuse = [&problems](const std::string& name) {
    problems.push_back({5116, name + " is not a CA certificate (basicConstraints CA:FALSE)", ""});
  };
  if (!files.server_ca.IsAuthority()) refuse("tls.server_ca");
  if (!files.device_ca.IsAuthority()) refuse("tls.device_ca");
}

void InspectKey(const ServerFiles& files, std::vector<Error>& problems) {
  if (!files.certificate.BelongsTo(files.key)) {
    problems.push_back(
        {5102, files.key_name + " does not belong to " + files.certificate_name, ""});
  }
  EVP_PKEY* key = files.key.handle();
  if (EVP_PKEY_is_a(key, "RSA") == 1 && EVP_PKEY_get_bits(key) < kSmallestRsaBits) {
    problems.push_back({5109,
                        "tls.certificate has an RSA key of " +
                            std::to_string(EVP_PKEY_get_bits(key)) + " bits; at least " +
                            std::to_string(kSmallestRsaBits),
                        ""});
  }
}

}  // namespace

bool IsWarning(const Error& problem) {
  return problem.code == 5108;
}

std::vector<Error> InspectServerFiles(const ServerFiles& files, WallMs now) {
  std::vector<Error> problems;
  InspectKey(files, problems);
  InspectTimes(files, now, problems);
  InspectNames(files, problems);
  InspectAuthorities(files, problems);
  return problems;
}

}  // namespace skep::crypto
