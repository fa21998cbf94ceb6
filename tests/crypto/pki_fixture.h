// A small federation for tests: two authorities, a server certificate for localhost, and devices
// with any fault one likes.
//
// Certificates with faults are made from raw fields here, since the authorities would refuse to
// issue them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "crypto/pki/authority.h"
#include "crypto/pki/certificate_maker.h"

namespace skep::test {

inline constexpr WallMs kHour = 3600 * 1000;

inline FederationId FederationOf(std::uint8_t byte) {
  FederationId id;
  id.bytes.fill(byte);
  return id;
}

inline DeviceId DeviceOf(std::uint8_t byte) {
  DeviceId id;
  id.bytes.fill(byte);
  return id;
}

struct Holder {
  crypto::PrivateKey key;
  crypto::Certificate certificate;
};

struct Pki {
  FederationId federation = FederationOf(0x5f);
  WallMs now = ReadClock().wall;
  crypto::Authority server_ca =
      crypto::Authority::Make(crypto::AuthorityKind::kServer, federation, now).value();
  crypto::Authority device_ca =
      crypto::Authority::Make(crypto::AuthorityKind::kDevice, federation, now).value();

  [[nodiscard]] crypto::Validity Valid() const { return {now - kHour, now + kHour}; }

  [[nodiscard]] Holder Server(const std::vector<std::string>& hosts = {"localhost",
                                                                       "127.0.0.1"}) const {
    return Server(hosts, Valid());
  }
  [[nodiscard]] Holder Server(const std::vector<std::string>& hosts,
                              const crypto::Validity& validity) const {
    auto key = crypto::PrivateKey::MakeP256().value();
    auto certificate = server_ca.IssueServer(key, hosts, validity).value();
    return {key, certificate};
  }

  [[nodiscard]] Holder Device(std::uint8_t number = 1) const { return Device(number, Valid()); }
  [[nodiscard]] Holder Device(std::uint8_t number, const crypto::Validity& validity) const {
    return DeviceOfFederation({federation, DeviceOf(number)}, validity);
  }
  [[nodiscard]] Holder DeviceOfFederation(const crypto::DeviceIdentity& identity,
                                          const crypto::Validity& validity) const {
    auto key = crypto::PrivateKey::MakeP256().value();
    const Bytes der = crypto::MakeRequest(key).value();
    const auto request = crypto::CertificateRequest::Check(der).value();
    auto certificate = device_ca.IssueDevice(request, identity, validity).value();
    return {key, certificate};
  }

  using Extensions = std::vector<std::pair<std::string, std::string>>;

  // What IssueDevice writes, to be changed by a test.
  [[nodiscard]] Extensions DeviceExtensions() const {
    return {{"basicConstraints", "critical,CA:FALSE"},
            {"keyUsage", "critical,digitalSignature"},
            {"extendedKeyUsage", "clientAuth"},
            {"subjectAltName", "URI:" + crypto::IdentityUri({federation, DeviceOf(1)})},
            {"subjectKeyIdentifier", "hash"},
            {"authorityKeyIdentifier", "keyid:always"}};
  }
  // The same with another value of one extension; without it if the value is empty.
  [[nodiscard]] Extensions DeviceExtensionsWith(const std::string& name,
                                                const std::string& value) const {
    Extensions changed;
    for (const auto& extension : DeviceExtensions()) {
      if (extension.first != name) changed.push_back(extension);
    }
    if (!value.empty()) changed.emplace_back(name, value);
    return changed;
  }
  [[nodiscard]] Holder Raw(const crypto::Authority& issuer, const Extensions& extensions,
                           const crypto::PrivateKey& key) const {
    const crypto::CertificateFields fields{"raw", Valid().not_before, Valid().not_after,
                                           extensions};
    return {
        key,
        crypto::MakeCertificate(fields, key.handle(), issuer.key(), &issuer.certificate()).value()};
  }
  [[nodiscard]] Holder RawDevice(const Extensions& extensions) const {
    return Raw(device_ca, extensions, crypto::PrivateKey::MakeP256().value());
  }
};

}  // namespace skep::test
