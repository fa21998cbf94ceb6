#include "crypto/pki/authority.h"

#include <arpa/inet.h>

#include "crypto/pki/certificate_maker.h"
#include "shared/base/check.h"
#include "shared/base/try.h"

namespace skep::crypto {
namespace {

constexpr WallMs kBackDating = 5 * 60 * 1000;
constexpr std::size_t kShownDigits = 6;
// The upper bound of a common name (RFC 5280); nothing reads it, so it may be cut.
constexpr std::size_t kLongestCommonName = 64;

bool IsAddress(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// Names are written into OpenSSL's list syntax, where a comma would begin another entry.
Result<std::string> AlternativeNames(const std::vector<std::string>& hosts) {
  std::string list;
  for (const std::string& host : hosts) {
    if (host.empty() || host.find_first_of(",:/@ \t\r\n") != std::string::npos) {
      if (!IsAddress(host)) return Error{5105, "\"" + host + "\" is no host name or address", ""};
    }
    if (!list.empty()) list += ",";
    list += (IsAddress(host) ? "IP:" : "DNS:") + host;
  }
  return list;
}

}  // namespace

Result<Authority> Authority::Make(AuthorityKind kind, const FederationId& federation, WallMs now) {
  SKEP_ASSIGN(PrivateKey key, PrivateKey::MakeP256());
  const std::string role = kind == AuthorityKind::kServer ? "server" : "device";
  const CertificateFields fields{"skep " + role + " CA " + federation.Hex().substr(0, kShownDigits),
                                 now - std::min(now, kBackDating),
                                 now + static_cast<WallMs>(kAuthorityLifetime.count()),
                                 {{"basicConstraints", "critical,CA:TRUE,pathlen:0"},
                                  {"keyUsage", "critical,keyCertSign,cRLSign"},
                                  {"subjectKeyIdentifier", "hash"}}};
  SKEP_ASSIGN(Certificate certificate, MakeCertificate(fields, key.handle(), key, nullptr));
  return Authority(std::move(certificate), std::move(key));
}

Result<Authority> Authority::From(Certificate certificate, PrivateKey key,
                                  const std::string& name) {
  if (!certificate.IsAuthority()) {
    return Error{5116, name + " is not a CA certificate (basicConstraints CA:FALSE)", ""};
  }
  if (!certificate.BelongsTo(key)) {
    return Error{5102, name + ": the key does not belong to the certificate", ""};
  }
  return Authority(std::move(certificate), std::move(key));
}

Result<Certificate> Authority::IssueServer(const PrivateKey& key,
                                           const std::vector<std::string>& hosts,
                                           const Validity& validity) const {
  SKEP_CHECK(!hosts.empty());
  SKEP_ASSIGN(const std::string names, AlternativeNames(hosts));
  const CertificateFields fields{hosts.front().substr(0, kLongestCommonName),
                                 validity.not_before,
                                 validity.not_after,
                                 {{"basicConstraints", "critical,CA:FALSE"},
                                  {"keyUsage", "critical,digitalSignature"},
                                  {"extendedKeyUsage", "serverAuth"},
                                  {"subjectAltName", names},
                                  {"subjectKeyIdentifier", "hash"},
                                  {"authorityKeyIdentifier", "keyid:always"}}};
  return MakeCertificate(fields, key.handle(), key_, &certificate_);
}

Result<Certificate> Authority::IssueDevice(const CertificateRequest& request,
                                           const DeviceIdentity& identity,
                                           const Validity& validity) const {
  const CertificateFields fields{identity.device.Hex(),
                                 validity.not_before,
                                 validity.not_after,
                                 {{"basicConstraints", "critical,CA:FALSE"},
                                  {"keyUsage", "critical,digitalSignature"},
                                  {"extendedKeyUsage", "clientAuth"},
                                  {"subjectAltName", "URI:" + IdentityUri(identity)},
                                  {"subjectKeyIdentifier", "hash"},
                                  {"authorityKeyIdentifier", "keyid:always"}}};
  return MakeCertificate(fields, request.key(), key_, &certificate_);
}

}  // namespace skep::crypto
