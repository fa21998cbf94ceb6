// Populations, tokens and enrolment.
#include <string>
#include <utility>

#include "aggregator/store/registry_rows.h"
#include "aggregator/store/sqlite_rounds.h"
#include "aggregator/store/sqlite_store.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

constexpr std::string_view kEnrolmentActor = "enrolment";

Result<std::optional<TokenRow>> FindToken(Database& database, const Hash32& secret_sha256) {
  std::optional<TokenRow> token;
  SKEP_TRY(database.ForEach(
      "SELECT token, population, client_number, created, expires, created_by, used, key_sha256,"
      " device FROM tokens WHERE secret_sha256 = ?",
      [&](const Statement& row) {
        token = ReadToken(row);
        return Ok();
      },
      secret_sha256));
  return token;
}

// The rules of a token, for a key that wants to use it.
Result<std::optional<Enrolled>> Check(Database& database, const Hash32& secret_sha256,
                                      const Hash32& key_sha256, WallMs now) {
  SKEP_ASSIGN(std::optional<TokenRow> token, FindToken(database, secret_sha256));
  if (!token) return Error{3117, "the token is unknown", ""};
  if (token->used != 0) {
    if (token->key_sha256 != key_sha256) return Error{3104, "the token was used already", ""};
    SKEP_ASSIGN(std::optional<CertificateRow> first,
                FindCertificateOf(database, token->device, key_sha256));
    if (!first || first->state == CertificateState::kRevoked) {
      return Error{3122, "the key was revoked", ""};
    }
    return std::optional(Enrolled{std::move(*token), std::move(*first), true});
  }
  if (now > token->expires) return Error{3118, "the token has expired", ""};
  return std::optional<Enrolled>();
}

Status AddDevice(Database& database, const Enrolment& enrolment, const TokenRow& token,
                 WallMs now) {
  const DeviceId& device = enrolment.certificate.device;
  SKEP_TRY(database.Run(
      "INSERT INTO devices (device, hint, state, strikes, enrolled, last_seen, software)"
      " VALUES (?, ?, 'active', 0, ?, 0, ?)",
      device, enrolment.hint, now, enrolment.software));
  SKEP_TRY(database.Run(
      "INSERT INTO memberships (device, population, since, client_number) VALUES (?, ?, ?, ?)",
      device, token.population, now, token.client));
  SKEP_TRY(InsertCertificate(database, enrolment.certificate, now));
  SKEP_TRY(
      database.Run("UPDATE tokens SET used = ?, key_sha256 = ?, device = ? WHERE secret_sha256 = ?",
                   now, enrolment.certificate.key_sha256, device, enrolment.secret_sha256));
  return AppendAudit(database, now, kEnrolmentActor, "device enrolled", device.Hex(),
                     "token " + token.id.Hex() + ", " + token.population + " client " +
                         std::to_string(token.client));
}

}  // namespace

Status SqliteStore::CreatePopulation(const std::string& name, std::string_view actor, WallMs now) {
  return InTransaction([&]() -> Status {
    SKEP_TRY(
        database_.Run("INSERT OR IGNORE INTO populations (name, is_open, created, next_client)"
                      " VALUES (?, 1, ?, 0)",
                      name, now));
    if (database_.rows_changed() == 0) {
      return Error{5405, "population \"" + name + "\" exists already", ""};
    }
    return AppendAudit(database_, now, actor, "population create", name, "");
  });
}

Result<std::vector<PopulationRow>> SqliteStore::Populations() {
  const std::scoped_lock lock(mutex_);
  std::vector<PopulationRow> populations;
  SKEP_TRY(
      database_.ForEach("SELECT name, is_open, created, next_client FROM populations ORDER BY name",
                        [&](const Statement& row) {
                          populations.push_back({row.Text(0), row.Int<int>(1) != 0,
                                                 row.Int<WallMs>(2), row.Int<ClientNumber>(3)});
                          return Ok();
                        }));
  return populations;
}

Result<ClientNumber> SqliteStore::CreateTokens(const std::string& population,
                                               const std::vector<NewToken>& tokens, WallMs expires,
                                               std::string_view actor, WallMs now) {
  return InTransaction([&]() -> Result<ClientNumber> {
    SKEP_ASSIGN(const std::optional<std::int64_t> next,
                database_.Number("SELECT next_client FROM populations WHERE name = ?", population));
    if (!next) return Error{5403, "there is no population \"" + population + "\"", ""};
    const auto first = static_cast<ClientNumber>(*next);
    ClientNumber client = first;
    for (const NewToken& token : tokens) {
      SKEP_TRY(database_.Run(
          "INSERT INTO tokens (secret_sha256, token, population, client_number, created,"
          " created_by, expires) VALUES (?, ?, ?, ?, ?, ?, ?)",
          token.secret_sha256, token.id, population, client++, now, actor, expires));
    }
    SKEP_TRY(
        database_.Run("UPDATE populations SET next_client = ? WHERE name = ?", client, population));
    SKEP_TRY(AppendAudit(
        database_, now, actor, "token create", population,
        std::to_string(tokens.size()) + " tokens from client " + std::to_string(first)));
    return first;
  });
}

Result<std::vector<TokenRow>> SqliteStore::Tokens(const std::string& population) {
  const std::scoped_lock lock(mutex_);
  std::vector<TokenRow> tokens;
  SKEP_TRY(database_.ForEach(
      "SELECT token, population, client_number, created, expires, created_by, used, key_sha256,"
      " device FROM tokens WHERE population = ? ORDER BY client_number",
      [&](const Statement& row) {
        tokens.push_back(ReadToken(row));
        return Ok();
      },
      population));
  return tokens;
}

Result<std::optional<Enrolled>> SqliteStore::CheckToken(const Hash32& secret_sha256,
                                                        const Hash32& key_sha256, WallMs now) {
  const std::scoped_lock lock(mutex_);
  return Check(database_, secret_sha256, key_sha256, now);
}

Result<Enrolled> SqliteStore::UseToken(const Enrolment& enrolment, WallMs now) {
  return InTransaction([&]() -> Result<Enrolled> {
    const CertificateRow& certificate = enrolment.certificate;
    SKEP_ASSIGN(std::optional<Enrolled> earlier,
                Check(database_, enrolment.secret_sha256, certificate.key_sha256, now));
    if (earlier) return std::move(*earlier);
    SKEP_ASSIGN(std::optional<TokenRow> token, FindToken(database_, enrolment.secret_sha256));
    SKEP_ASSIGN(
        const std::optional<std::int64_t> is_open,
        database_.Number("SELECT is_open FROM populations WHERE name = ?", token->population));
    if (is_open.value_or(0) == 0) return Error{3120, "the population takes no new devices", ""};
    SKEP_ASSIGN(const bool is_bound, IsKeyKnown(database_, certificate.key_sha256));
    if (is_bound) return Error{3122, "the key belongs to another device", ""};
    SKEP_TRY(AddDevice(database_, enrolment, *token, now));
    SKEP_ASSIGN(token, FindToken(database_, enrolment.secret_sha256));
    return Enrolled{std::move(*token), certificate, false};
  });
}

}  // namespace skep::aggregator
