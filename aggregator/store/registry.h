// Registry: who may take part. Populations, join tokens, devices and their certificates, and the
// record of who changed what.
//
// Rounds never touch it; the server's enrolment, its listeners and its operator commands do. Every
// change is one durable transaction that also appends its audit row. Thread-safe in the SQLite
// implementation. Source: docs/durability.md, Skep protocol 1.0, sections 10.3 and 10.5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregator/store/store.h"

namespace skep::aggregator {

using Serial = FixedBytes<16, struct SerialTag>;

struct PopulationRow {
  std::string name;
  bool is_open = true;  // takes new devices
  WallMs created = 0;
  ClientNumber next_client = 0;
};

// A join token as it is made: the secret itself is never stored.
struct NewToken {
  Hash32 secret_sha256;
  TokenId id;
};

struct TokenRow {
  TokenId id;
  std::string population;
  ClientNumber client = 0;
  WallMs created = 0;
  WallMs expires = 0;
  std::string created_by;
  WallMs used = 0;  // 0: not yet
  Hash32 key_sha256;
  DeviceId device;
};

enum class CertificateState { kLive, kSuperseded, kRevoked };

struct CertificateRow {
  Serial serial;
  DeviceId device;
  Hash32 key_sha256;  // of the public key
  WallMs not_before = 0;
  WallMs not_after = 0;
  CertificateState state = CertificateState::kLive;
  Bytes der;
};

// What one use of a token makes durable together.
struct Enrolment {
  Hash32 secret_sha256;
  std::string hint;
  std::string software;
  CertificateRow certificate;  // of the new device
};

struct Enrolled {
  TokenRow token;
  CertificateRow certificate;
  bool is_repeat = false;  // the token was used with this key before: the certificate of then
};

struct AuditRow {
  std::uint64_t seq = 0;
  WallMs time = 0;
  std::string actor;
  std::string action;
  std::string target;
  std::string detail;
};

class Registry {
 public:
  virtual ~Registry() = default;

  // SKEP-5405: it exists.
  [[nodiscard]] virtual Status CreatePopulation(const std::string& name, std::string_view actor,
                                                WallMs now) = 0;
  [[nodiscard]] virtual Result<std::vector<PopulationRow>> Populations() = 0;  // by name

  // Numbers the tokens in the order given, from the population's next client number on; gives the
  // first one. SKEP-5403: no such population.
  [[nodiscard]] virtual Result<ClientNumber> CreateTokens(const std::string& population,
                                                          const std::vector<NewToken>& tokens,
                                                          WallMs expires, std::string_view actor,
                                                          WallMs now) = 0;
  [[nodiscard]] virtual Result<std::vector<TokenRow>> Tokens(const std::string& population) = 0;
  // Before a certificate is made. The checks of UseToken: SKEP-3117 unknown, 3104 used with another
  // key, 3118 expired; a repeat gives the certificate of then.
  [[nodiscard]] virtual Result<std::optional<Enrolled>> CheckToken(const Hash32& secret_sha256,
                                                                   const Hash32& key_sha256,
                                                                   WallMs now) = 0;
  // One transaction: token used, device, membership, certificate. Whoever comes second with the
  // same key gets what the first got. Errors of CheckToken; SKEP-3122 the key is bound to a device,
  // or was revoked; SKEP-3120 the population takes no new devices.
  [[nodiscard]] virtual Result<Enrolled> UseToken(const Enrolment& enrolment, WallMs now) = 0;

  [[nodiscard]] virtual Result<std::vector<DeviceRow>> Devices() = 0;  // by enrolment
  [[nodiscard]] virtual Result<std::optional<DeviceRow>> FindDevice(const DeviceId& device) = 0;
  // The last contact; written at most once an hour.
  [[nodiscard]] virtual Status DeviceSeen(const DeviceId& device, WallMs now) = 0;
  [[nodiscard]] virtual Status SetStrikes(const DeviceId& device, std::uint32_t strikes) = 0;
  // Revoking also revokes the device's certificates. SKEP-5403: no such device; SKEP-5405: a
  // revoked one stays so.
  [[nodiscard]] virtual Status SetDeviceState(const DeviceId& device, DeviceState state,
                                              std::string_view actor, std::string_view why,
                                              WallMs now) = 0;

  [[nodiscard]] virtual Result<std::optional<CertificateRow>> FindCertificate(
      const Serial& serial) = 0;
  // Of a renewal. The same key again gives the certificate of then; SKEP-3122 the key of another
  // device or a revoked one.
  [[nodiscard]] virtual Result<CertificateRow> AddCertificate(const CertificateRow& certificate,
                                                              WallMs now) = 0;
  // A session with this certificate supersedes the device's older ones.
  [[nodiscard]] virtual Status CertificateUsed(const Serial& serial, WallMs now) = 0;

  // The latest `limit` rows, oldest first.
  [[nodiscard]] virtual Result<std::vector<AuditRow>> Audit(std::size_t limit) = 0;
};

}  // namespace skep::aggregator
