// Devices, their certificates, and the audit.
#include <string>
#include <utility>

#include "aggregator/store/registry_rows.h"
#include "aggregator/store/row_text.h"
#include "aggregator/store/sqlite_rounds.h"
#include "aggregator/store/sqlite_store.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

constexpr WallMs kSeenInterval = 60 * 60 * 1000;

Result<CertificateRow> ReadCertificate(const Statement& row) {
  CertificateRow certificate;
  certificate.serial = row.Id<Serial>(0);
  certificate.device = row.Id<DeviceId>(1);
  certificate.key_sha256 = row.Id<Hash32>(2);
  certificate.not_before = row.Int<WallMs>(3);
  certificate.not_after = row.Int<WallMs>(4);
  SKEP_ASSIGN(certificate.state, FromWord<CertificateState>(kCertificateStates, row.Text(5)));
  const BytesView der = row.Blob(6);
  certificate.der.assign(der.begin(), der.end());
  return certificate;
}

template <class... Values>
Result<std::optional<CertificateRow>> SelectCertificate(Database& database, const char* sql,
                                                        const Values&... values) {
  std::optional<CertificateRow> certificate;
  SKEP_TRY(database.ForEach(
      sql,
      [&](const Statement& row) -> Status {
        SKEP_ASSIGN(certificate, ReadCertificate(row));
        return Ok();
      },
      values...));
  return certificate;
}

// Columns: device, hint, state, strikes, enrolled, last_seen.
Result<DeviceRow> ReadDevice(const Statement& row) {
  DeviceRow device;
  device.device = row.Id<DeviceId>(0);
  device.hint = row.Text(1);
  SKEP_ASSIGN(device.state, FromWord<DeviceState>(kDeviceStates, row.Text(2)));
  device.strikes = row.Int<std::uint32_t>(3);
  device.enrolled = row.Int<WallMs>(4);
  device.last_seen = row.Int<WallMs>(5);
  return device;
}

Status AddMemberships(Database& database, DeviceRow& device) {
  return database.ForEach(
      "SELECT population, client_number FROM memberships WHERE device = ? ORDER BY population",
      [&](const Statement& row) {
        device.memberships.emplace_back(row.Text(0), row.Int<ClientNumber>(1));
        return Ok();
      },
      device.device);
}

Result<std::optional<DeviceRow>> SelectDevice(Database& database, const DeviceId& id) {
  std::optional<DeviceRow> device;
  SKEP_TRY(database.ForEach(
      "SELECT device, hint, state, strikes, enrolled, last_seen FROM devices WHERE device = ?",
      [&](const Statement& row) -> Status {
        SKEP_ASSIGN(device, ReadDevice(row));
        return Ok();
      },
      id));
  if (device) SKEP_TRY(AddMemberships(database, *device));
  return device;
}

}  // namespace

TokenRow ReadToken(const Statement& row) {
  TokenRow token;
  token.id = row.Id<TokenId>(0);
  token.population = row.Text(1);
  token.client = row.Int<ClientNumber>(2);
  token.created = row.Int<WallMs>(3);
  token.expires = row.Int<WallMs>(4);
  token.created_by = row.Text(5);
  token.used = row.Int<WallMs>(6);  // null reads as 0
  token.key_sha256 = row.Id<Hash32>(7);
  token.device = row.Id<DeviceId>(8);
  return token;
}

Status InsertCertificate(Database& database, const CertificateRow& certificate, WallMs now) {
  return database.Run(
      "INSERT INTO certificates (serial, device, key_sha256, not_before, not_after, state, issued,"
      " der) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      certificate.serial, certificate.device, certificate.key_sha256, certificate.not_before,
      certificate.not_after, Word(certificate.state), now, certificate.der);
}

Result<std::optional<CertificateRow>> FindCertificateOf(Database& database, const DeviceId& device,
                                                        const Hash32& key_sha256) {
  return SelectCertificate(
      database,
      "SELECT serial, device, key_sha256, not_before, not_after, state, der FROM certificates"
      " WHERE device = ? AND key_sha256 = ? ORDER BY issued LIMIT 1",
      device, key_sha256);
}

Result<bool> IsKeyKnown(Database& database, const Hash32& key_sha256) {
  SKEP_ASSIGN(const std::optional<std::int64_t> known,
              database.Number("SELECT 1 FROM certificates WHERE key_sha256 = ?", key_sha256));
  return known.has_value();
}

Result<std::vector<DeviceRow>> SqliteStore::Devices() {
  const std::scoped_lock lock(mutex_);
  std::vector<DeviceRow> devices;
  SKEP_TRY(
      database_.ForEach("SELECT device, hint, state, strikes, enrolled, last_seen FROM devices"
                        " ORDER BY enrolled, device",
                        [&](const Statement& row) -> Status {
                          SKEP_ASSIGN(DeviceRow device, ReadDevice(row));
                          devices.push_back(std::move(device));
                          return Ok();
                        }));
  for (DeviceRow& device : devices) SKEP_TRY(AddMemberships(database_, device));
  return devices;
}

Result<std::optional<DeviceRow>> SqliteStore::FindDevice(const DeviceId& device) {
  const std::scoped_lock lock(mutex_);
  return SelectDevice(database_, device);
}

Status SqliteStore::DeviceSeen(const DeviceId& device, WallMs now) {
  {
    const std::scoped_lock lock(mutex_);
    SKEP_ASSIGN(const std::optional<std::int64_t> last,
                database_.Number("SELECT last_seen FROM devices WHERE device = ?", device));
    if (!last || now < static_cast<WallMs>(*last) + kSeenInterval) return Ok();
  }
  return InTransaction([&] {
    return database_.Run("UPDATE devices SET last_seen = ? WHERE device = ?", now, device);
  });
}

Status SqliteStore::SetStrikes(const DeviceId& device, std::uint32_t strikes) {
  return InTransaction([&] {
    return database_.Run("UPDATE devices SET strikes = ? WHERE device = ?", strikes, device);
  });
}

Status SqliteStore::SetDeviceState(const DeviceId& device, DeviceState state,
                                   std::string_view actor, std::string_view why, WallMs now) {
  return InTransaction([&]() -> Status {
    SKEP_ASSIGN(const std::optional<DeviceRow> stored, SelectDevice(database_, device));
    if (!stored) return Error{5403, "there is no device " + device.Hex(), ""};
    if (stored->state == state) return Ok();
    if (stored->state == DeviceState::kRevoked) {
      return Error{5405, "device " + device.Hex() + " is revoked for good", ""};
    }
    SKEP_TRY(database_.Run("UPDATE devices SET state = ? WHERE device = ?", Word(state), device));
    if (state == DeviceState::kRevoked) {
      SKEP_TRY(database_.Run("UPDATE certificates SET state = 'revoked' WHERE device = ?", device));
    }
    return AppendAudit(database_, now, actor, "device " + std::string(Word(state)), device.Hex(),
                       why);
  });
}

Result<std::optional<CertificateRow>> SqliteStore::FindCertificate(const Serial& serial) {
  const std::scoped_lock lock(mutex_);
  return SelectCertificate(
      database_,
      "SELECT serial, device, key_sha256, not_before, not_after, state, der FROM certificates"
      " WHERE serial = ?",
      serial);
}

Result<CertificateRow> SqliteStore::AddCertificate(const CertificateRow& certificate, WallMs now) {
  return InTransaction([&]() -> Result<CertificateRow> {
    SKEP_ASSIGN(const std::optional<DeviceRow> device, SelectDevice(database_, certificate.device));
    if (!device) return Error{3111, "there is no such device", ""};
    SKEP_ASSIGN(std::optional<CertificateRow> first,
                FindCertificateOf(database_, certificate.device, certificate.key_sha256));
    if (first && first->state == CertificateState::kLive) return std::move(*first);
    SKEP_ASSIGN(const bool is_known, IsKeyKnown(database_, certificate.key_sha256));
    if (is_known) return Error{3122, "the key is in use or was revoked", ""};
    SKEP_TRY(InsertCertificate(database_, certificate, now));
    SKEP_TRY(AppendAudit(database_, now, certificate.device.Hex(), "certificate renewed",
                         certificate.serial.Hex(), ""));
    return certificate;
  });
}

Status SqliteStore::CertificateUsed(const Serial& serial, WallMs now) {
  return InTransaction([&]() -> Status {
    constexpr const char* kSupersede =
        "UPDATE certificates SET state = 'superseded' WHERE state = 'live' AND device ="
        " (SELECT device FROM certificates WHERE serial = ?1) AND rowid <"
        " (SELECT rowid FROM certificates WHERE serial = ?1)";
    SKEP_TRY(database_.Run(kSupersede, serial));
    if (database_.rows_changed() == 0) return Ok();
    return AppendAudit(database_, now, kSystemActor, "certificate superseded", serial.Hex(),
                       "by its first use");
  });
}

Result<std::vector<AuditRow>> SqliteStore::Audit(std::size_t limit) {
  const std::scoped_lock lock(mutex_);
  std::vector<AuditRow> rows;
  SKEP_TRY(database_.ForEach(
      "SELECT seq, time, actor, action, target, detail FROM"
      " (SELECT * FROM audit ORDER BY seq DESC LIMIT ?) ORDER BY seq",
      [&](const Statement& row) {
        rows.push_back({row.Int<std::uint64_t>(0), row.Int<WallMs>(1), row.Text(2), row.Text(3),
                        row.Text(4), row.Text(5)});
        return Ok();
      },
      limit));
  return rows;
}

}  // namespace skep::aggregator
