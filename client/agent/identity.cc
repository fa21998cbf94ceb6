#include "client/agent/identity.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "client/agent/json_object.h"
#include "crypto/signature.h"
#include "shared/base/file.h"
#include "shared/base/try.h"
#include "shared/net/endpoint.h"
#include "shared/wire/codec.h"
#include "shared/wire/text.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::uint64_t kLargestPem = std::uint64_t{64} * 1024;
constexpr std::uint64_t kLargestJson = std::uint64_t{64} * 1024;
constexpr std::uint64_t kLargestKeyFile = 256;
constexpr std::size_t kMostKeys = 4;

std::string KeyPath(const Storage& storage) {
  return storage.Path("identity/key.pem");
}
std::string EnrolmentPath(const Storage& storage) {
  return storage.Path("identity/enrolment.json");
}
std::string SigningFolder(const Storage& storage) {
  return storage.Path("identity/signing-keys");
}

Error NotEnrolled(const Storage& storage) {
  return Error{4004, storage.folder() + ": this device is not enrolled",
               "skep-client join --join-file FILE"};
}

Error Contradictory(const std::string& what) {
  return Error{3208, "the aggregator's answer to the enrolment: " + what,
               "ask the operator for a new join string"};
}

// "<64 digits>\n", with "retires <ms>\n" beneath once there is a successor.
std::string KeyText(const PinnedKey& pinned) {
  std::string text = pinned.key.Hex() + "\n";
  if (pinned.retires_at > 0) text += "retires " + std::to_string(pinned.retires_at) + "\n";
  return text;
}

Status StoreKey(const Storage& storage, const PinnedKey& pinned) {
  SKEP_TRY(MakePrivateFolder(SigningFolder(storage)));
  const std::string name = crypto::KeyIdOf(pinned.key).Hex() + ".pub";
  return WriteFileAtomically(SigningFolder(storage) + "/" + name, AsBytes(KeyText(pinned)),
                             FileMode::kPrivate);
}

Result<PinnedKey> ReadKey(const std::string& path) {
  constexpr std::string_view kRetires = "retires ";
  SKEP_ASSIGN(const Bytes content, ReadFile(path, kLargestKeyFile, 1010));
  const std::string_view text = AsText(content);
  const std::size_t end = std::min(text.find('\n'), text.size());
  const auto key = wire::PublicKey::FromHexText(text.substr(0, end));
  if (!key) return Error{1010, path + " is damaged", ""};
  PinnedKey pinned{.key = *key, .retires_at = 0};
  const std::string_view rest = text.substr(std::min(end + 1, text.size()));
  if (rest.empty()) return pinned;
  const auto [last, failure] = std::from_chars(rest.data() + std::min(kRetires.size(), rest.size()),
                                               rest.data() + rest.size(), pinned.retires_at);
  if (!rest.starts_with(kRetires) || failure != std::errc() || *last != '\n') {
    return Error{1010, path + " is damaged", ""};
  }
  return pinned;
}

Result<std::vector<PinnedKey>> ReadKeys(const Storage& storage) {
  const std::string folder = SigningFolder(storage);
  SKEP_ASSIGN(const std::vector<std::string> names, ListFolder(folder));
  std::vector<PinnedKey> keys;
  for (const std::string& name : names) {
    if (!name.ends_with(".pub")) continue;
    SKEP_ASSIGN(PinnedKey pinned, ReadKey(folder + "/" + name));
    keys.push_back(pinned);
  }
  if (keys.empty()) return Error{1010, folder + ": no signing key of the aggregator", ""};
  return keys;
}

Status CheckAnswer(const wire::EnrolResult& answer, const crypto::Certificate& certificate,
                   const crypto::PrivateKey& key) {
  if (!certificate.BelongsTo(key)) return Contradictory("a certificate for another key");
  SKEP_ASSIGN(const crypto::DeviceIdentity identity, certificate.IdentityIn(answer.federation_id));
  if (identity.device != answer.device_id) return Contradictory("a certificate of another device");
  const auto endpoint = net::ParseEndpoint(answer.device_endpoint);
  if (!endpoint || endpoint->port == 0) return Contradictory("no address to connect to");
  if (answer.signing_keys.empty()) return Contradictory("no signing key");
  if (answer.populations.empty()) return Contradictory("no population");
  return Ok();
}

// The pinned authority first: it is the one that counts.
Result<std::string> AuthorityPem(const wire::EnrolResult& answer, const Hash32& pin) {
  std::string pinned;
  std::string others;
  for (const Bytes& der : answer.server_ca) {
    SKEP_ASSIGN(const crypto::Certificate authority, crypto::Certificate::FromDer(der));
    (authority.KeyHash() == pin ? pinned : others) += authority.ToPem();
  }
  if (pinned.empty()) return Contradictory("the pinned authority is missing");
  return pinned + others;
}

std::string EnrolmentJson(const wire::EnrolResult& answer, WallMs now) {
  json::array populations;
  for (const std::string& population : answer.populations) populations.emplace_back(population);
  return JsonLine({{"schema", 1},
                   {"endpoint", answer.device_endpoint},
                   {"federation", answer.federation_id.Hex()},
                   {"device", answer.device_id.Hex()},
                   {"populations", std::move(populations)},
                   {"enrolled_at", now}});
}

Result<std::vector<crypto::Certificate>> ReadCertificates(const std::string& path) {
  SKEP_ASSIGN(const Bytes pem, ReadFile(path, kLargestPem, 1010));
  auto certificates = crypto::Certificate::AllFromPem(AsText(pem));
  if (!certificates.has_value()) return std::move(certificates).error().Within(path);
  return certificates;
}

// A renewal that was interrupted between its two renames is completed.
Status CompleteRenewal(const Storage& storage, const std::string& path,
                       const crypto::PrivateKey& key, std::vector<crypto::Certificate>& chain) {
  const std::string next = storage.Path("identity/next-certificate.pem");
  if (chain.front().BelongsTo(key) || !Exists(next)) return Ok();
  SKEP_ASSIGN(std::vector<crypto::Certificate> renewed, ReadCertificates(next));
  if (!renewed.front().BelongsTo(key)) return Ok();
  chain = std::move(renewed);
  return storage.is_locked() ? MoveFile(next, path) : Ok();
}

Result<net::Credentials> ReadOwn(const Storage& storage) {
  const std::string path = storage.Path("identity/certificate.pem");
  SKEP_ASSIGN(crypto::PrivateKey key, crypto::PrivateKey::Load(KeyPath(storage)));
  SKEP_ASSIGN(std::vector<crypto::Certificate> chain, ReadCertificates(path));
  SKEP_TRY(CompleteRenewal(storage, path, key, chain));
  if (!chain.front().BelongsTo(key)) {
    return Error{5102, path + " and key.pem do not belong together", ""};
  }
  crypto::Certificate certificate = chain.front();
  chain.erase(chain.begin());
  return net::Credentials{std::move(certificate), std::move(key), std::move(chain)};
}

}  // namespace

bool IsEnrolled(const Storage& storage) {
  return Exists(EnrolmentPath(storage));
}

Result<crypto::PrivateKey> KeepKey(const Storage& storage) {
  const std::string path = KeyPath(storage);
  if (Exists(path)) return crypto::PrivateKey::Load(path);
  SKEP_ASSIGN(crypto::PrivateKey key, crypto::PrivateKey::MakeP256());
  SKEP_TRY(key.Store(path));
  return key;
}

Status StoreIdentity(const Storage& storage, const crypto::PrivateKey& key, const Hash32& pin,
                     const wire::EnrolResult& answer, WallMs now) {
  SKEP_ASSIGN(const crypto::Certificate certificate,
              crypto::Certificate::FromDer(answer.certificate));
  SKEP_TRY(CheckAnswer(answer, certificate, key));
  SKEP_ASSIGN(const std::string authorities, AuthorityPem(answer, pin));
  std::string chain = certificate.ToPem();
  for (const Bytes& der : answer.chain) {
    SKEP_ASSIGN(const crypto::Certificate issuer, crypto::Certificate::FromDer(der));
    chain += issuer.ToPem();
  }
  SKEP_TRY(WriteFileAtomically(storage.Path("identity/certificate.pem"), AsBytes(chain),
                               FileMode::kPrivate));
  SKEP_TRY(WriteFileAtomically(storage.Path("identity/server-ca.pem"), AsBytes(authorities),
                               FileMode::kPrivate));
  for (const wire::PublicKey& signing_key : answer.signing_keys) {
    SKEP_TRY(StoreKey(storage, {.key = signing_key, .retires_at = 0}));
  }
  // Last: with it the device is enrolled.
  return WriteFileAtomically(EnrolmentPath(storage), AsBytes(EnrolmentJson(answer, now)),
                             FileMode::kPrivate);
}

Result<Identity> LoadIdentity(const Storage& storage) {
  if (!IsEnrolled(storage)) return NotEnrolled(storage);
  SKEP_ASSIGN(const JsonObject enrolment, JsonObject::Read(EnrolmentPath(storage), kLargestJson));
  SKEP_ASSIGN(const std::string endpoint, enrolment.Text("endpoint"));
  SKEP_ASSIGN(const auto federation, enrolment.IdOf<FederationId>("federation"));
  SKEP_ASSIGN(const auto device, enrolment.IdOf<DeviceId>("device"));
  SKEP_ASSIGN(std::vector<std::string> populations, enrolment.Texts("populations"));
  if (!net::ParseEndpoint(endpoint)) return enrolment.Damaged("endpoint");
  const bool are_names = std::all_of(populations.begin(), populations.end(),
                                     [](const std::string& name) { return wire::IsName(name); });
  if (populations.empty() || !are_names) return enrolment.Damaged("populations");
  SKEP_ASSIGN(net::Credentials own, ReadOwn(storage));
  SKEP_ASSIGN(std::vector<crypto::Certificate> authorities,
              ReadCertificates(storage.Path("identity/server-ca.pem")));
  SKEP_ASSIGN(std::vector<PinnedKey> keys, ReadKeys(storage));
  return Identity{.own = std::move(own),
                  .server_ca = std::move(authorities.front()),
                  .signing_keys = std::move(keys),
                  .federation = federation,
                  .device = device,
                  .endpoint = endpoint,
                  .populations = std::move(populations)};
}

const PinnedKey* FindKey(const Identity& identity, const KeyId& id, WallMs now) {
  const auto found = std::find_if(identity.signing_keys.begin(), identity.signing_keys.end(),
                                  [&](const PinnedKey& pinned) {
                                    return crypto::KeyIdOf(pinned.key) == id &&
                                           (pinned.retires_at == 0 || now < pinned.retires_at);
                                  });
  return found == identity.signing_keys.end() ? nullptr : &*found;
}

Status VerifyManifest(const Identity& identity, const wire::SignedManifest& manifest, WallMs now) {
  const PinnedKey* pinned = FindKey(identity, manifest.key_id, now);
  if (pinned == nullptr) {
    return Error{3132, "the task is signed by key " + manifest.key_id.Hex() + ", which is unknown",
                 "if the operator changed keys: join again with a new join string"};
  }
  if (!crypto::IsSignedBy(pinned->key, crypto::SignedKind::kManifest, manifest.payload,
                          manifest.signature)) {
    return Error{3131, "the task's signature by key " + manifest.key_id.Hex() + " does not fit",
                 ""};
  }
  return Ok();
}

Status PinKey(const Storage& storage, Identity& identity, const wire::SigningKeyUpdate& update,
              WallMs now) {
  const PinnedKey* signer = FindKey(identity, update.key_id, now);
  if (signer == nullptr || !crypto::IsSignedBy(signer->key, crypto::SignedKind::kKeyStatement,
                                               update.payload, update.signature)) {
    return Error{3133, "a statement about a new signing key that no known key signed", ""};
  }
  SKEP_ASSIGN(const wire::KeyStatement statement, wire::DecodeKeyStatement(update.payload));
  if (statement.federation_id != identity.federation) {
    return Error{3133, "a statement about a signing key of another federation", ""};
  }
  if (FindKey(identity, crypto::KeyIdOf(statement.public_key), now) != nullptr) return Ok();
  PinnedKey old = *signer;
  old.retires_at = statement.retire_old_at_ms;
  const PinnedKey fresh{.key = statement.public_key, .retires_at = 0};
  std::vector<PinnedKey> keys = identity.signing_keys;
  keys[static_cast<std::size_t>(signer - identity.signing_keys.data())] = old;
  // Retired keys make room.
  for (auto at = keys.begin(); at != keys.end();) {
    const bool is_retired = at->retires_at != 0 && at->retires_at <= now;
    if (!is_retired) {
      ++at;
      continue;
    }
    SKEP_TRY(
        RemoveWithContent(SigningFolder(storage) + "/" + crypto::KeyIdOf(at->key).Hex() + ".pub"));
    at = keys.erase(at);
  }
  if (keys.size() >= kMostKeys) return Error{3133, "more than four signing keys", ""};
  SKEP_TRY(StoreKey(storage, fresh));
  SKEP_TRY(StoreKey(storage, old));
  keys.push_back(fresh);
  identity.signing_keys = std::move(keys);
  return Ok();
}

}  // namespace skep::agent
