// Inspection of the files that an aggregator is about to serve with: every problem at once, each
// with its remedy.
//
// Says nothing about peers: that is chain.h. Called by `check`, `serve` and reload. Any thread.
// Source: Skep operations, section 3 (5102 to 5109, 5116).
#pragma once

#include <string>
#include <vector>

#include "crypto/pki/certificate.h"
#include "crypto/private_key.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"

namespace skep::crypto {

struct ServerFiles {
  Certificate certificate;
  PrivateKey key;
  Certificate server_ca;
  Certificate device_ca;
  // How messages call them: paths, as the operator wrote them.
  std::string certificate_name;
  std::string key_name;
  // Configuration key and host that the certificate must name.
  struct Advertised {
    std::string config_key;
    std::string host;
  };
  std::vector<Advertised> advertised;
};

// 5108 (ends within 14 days) is a warning, all others are errors.
[[nodiscard]] bool IsWarning(const Error& problem);

[[nodiscard]] std::vector<Error> InspectServerFiles(const ServerFiles& files, WallMs now);

}  // namespace skep::crypto
