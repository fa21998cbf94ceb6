#include "client/agent/renewal.h"

#include "crypto/pki/request.h"
#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

constexpr WallMs kShareOfJitter = 10;  // of the lifetime

std::string NextKeyPath(const Storage& storage) {
  return storage.Path("identity/next-key.pem");
}

}  // namespace

WallMs RenewsAt(const Identity& identity) {
  const crypto::Certificate& own = identity.own.certificate;
  const WallMs lifetime = own.NotAfter() - own.NotBefore();
  const WallMs jitter = lifetime / kShareOfJitter * identity.device.bytes[0] / 256;
  return own.NotBefore() + lifetime / 2 + jitter;
}

Result<wire::RenewRequest> BeginRenewal(const Storage& storage) {
  const std::string path = NextKeyPath(storage);
  Result<crypto::PrivateKey> key =
      Exists(path) ? crypto::PrivateKey::Load(path) : crypto::PrivateKey::MakeP256();
  if (!key.has_value()) return std::move(key).error();
  SKEP_TRY(key->Store(path));
  wire::RenewRequest request;
  SKEP_ASSIGN(request.csr, crypto::MakeRequest(*key));
  return request;
}

Status FinishRenewal(const Storage& storage, Identity& identity, const wire::RenewResult& issued) {
  SKEP_ASSIGN(crypto::PrivateKey key, crypto::PrivateKey::Load(NextKeyPath(storage)));
  SKEP_ASSIGN(crypto::Certificate certificate, crypto::Certificate::FromDer(issued.certificate));
  SKEP_ASSIGN(const crypto::DeviceIdentity whose, certificate.IdentityIn(identity.federation));
  if (!certificate.BelongsTo(key) || whose.device != identity.device) {
    return Error{3208, "the aggregator renewed another certificate than this device's", ""};
  }
  std::string pem = certificate.ToPem();
  std::vector<crypto::Certificate> chain;
  for (const Bytes& der : issued.chain) {
    SKEP_ASSIGN(crypto::Certificate issuer, crypto::Certificate::FromDer(der));
    pem += issuer.ToPem();
    chain.push_back(std::move(issuer));
  }
  // With both on disk the pair is complete; which of the two is in use, the names say.
  SKEP_TRY(WriteFileAtomically(storage.Path("identity/next-certificate.pem"), AsBytes(pem),
                               FileMode::kPrivate));
  SKEP_TRY(MoveFile(NextKeyPath(storage), storage.Path("identity/key.pem")));
  SKEP_TRY(MoveFile(storage.Path("identity/next-certificate.pem"),
                    storage.Path("identity/certificate.pem")));
  identity.own = {std::move(certificate), std::move(key), std::move(chain)};
  return Ok();
}

}  // namespace skep::agent
