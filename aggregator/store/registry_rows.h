// Rows of tokens, devices and certificates as values. Shared by the files of the SQLite registry.
#pragma once

#include <optional>
#include <string_view>

#include "aggregator/store/registry.h"
#include "aggregator/store/sqlite.h"

namespace skep::aggregator {

// Who acts in the audit where no person does.
inline constexpr std::string_view kSystemActor = "aggregator";

// Columns: token, population, client_number, created, expires, created_by, used, key_sha256,
// device.
[[nodiscard]] TokenRow ReadToken(const Statement& row);

[[nodiscard]] Status InsertCertificate(Database& database, const CertificateRow& certificate,
                                       WallMs now);
// The first certificate of that device for that key.
[[nodiscard]] Result<std::optional<CertificateRow>> FindCertificateOf(Database& database,
                                                                      const DeviceId& device,
                                                                      const Hash32& key_sha256);
// Whether any certificate, of whatever state, was made for the key.
[[nodiscard]] Result<bool> IsKeyKnown(Database& database, const Hash32& key_sha256);

}  // namespace skep::aggregator
