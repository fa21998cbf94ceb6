// CertificateService: certificates for devices that bring a join token, and new ones for those that
// renew.
//
// Decides and stores; the connection is elsewhere. Its members wait for the disk, so they are
// called on the committer's thread, one at a time. Secrets and requests are never logged. Source:
// Skep protocol 1.0, sections 10.3 and 10.5.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "aggregator/store/registry.h"
#include "crypto/pki/authority.h"
#include "shared/wire/messages.h"

namespace skep::aggregator {

struct EnrolmentRules {
  FederationId federation;
  Nanoseconds certificate_lifetime{};
  Nanoseconds clock_skew{};
  double renew_after = 0.5;
  std::uint32_t max_devices = 0;
  crypto::Certificate server_ca;
  std::vector<wire::PublicKey> signing_keys;
  std::string device_endpoint;  // HOST:PORT
};

// What an enrolment leaves behind, already durable.
struct NewDevice {
  wire::EnrolResult answer;
  DeviceId device;
  std::string population;
  ClientNumber client = 0;
  bool is_repeat = false;
};

class CertificateService {
 public:
  // `registry` outlives it.
  CertificateService(EnrolmentRules rules, crypto::Authority device_ca, Registry& registry)
      : rules_(std::move(rules)), device_ca_(std::move(device_ca)), registry_(registry) {}

  // SKEP-3311 version; 3119 the request; 3117, 3118, 3104 the token; 3122 the key; 3120 no more
  // devices.
  [[nodiscard]] Result<NewDevice> Enrol(const wire::EnrolRequest& request, WallMs now);

  // For the device of a session, whose certificate is `current`. SKEP-3119, 3121, 3122.
  [[nodiscard]] Result<wire::RenewResult> Renew(const DeviceId& device,
                                                const crypto::Certificate& current, BytesView csr,
                                                WallMs now);

 private:
  struct Renewal {
    Hash32 key;
    WallMs at = 0;
  };
  [[nodiscard]] Result<CertificateRow> Issue(const crypto::CertificateRequest& request,
                                             const DeviceId& device, WallMs now) const;
  [[nodiscard]] NewDevice AnswerOf(const Enrolled& enrolled) const;

  EnrolmentRules rules_;
  crypto::Authority device_ca_;
  Registry& registry_;
  std::unordered_map<DeviceId, Renewal> renewals_;  // the latest of each device
};

// The row's form of a certificate's serial number.
[[nodiscard]] Serial SerialOf(const crypto::Certificate& certificate);

}  // namespace skep::aggregator
