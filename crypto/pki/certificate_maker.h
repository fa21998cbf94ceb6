// MakeCertificate: a certificate from a list of fields and extensions, as the authorities and tests
// need it.
//
// Knows no rule about who may have what: authority.h does. Thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "crypto/pki/certificate.h"
#include "crypto/private_key.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"

namespace skep::crypto {

struct CertificateFields {
  std::string common_name;
  WallMs not_before = 0;
  WallMs not_after = 0;
  // Short name and value as in an OpenSSL configuration file: {"basicConstraints",
  // "critical,CA:FALSE"}. In this order.
  std::vector<std::pair<std::string, std::string>> extensions;
};

// Version 3, serial of 16 random bytes, signed with SHA-256 (Ed25519: with its own hash). Without
// an issuer it is self-signed. SKEP-9001 if OpenSSL refuses a field.
[[nodiscard]] Result<Certificate> MakeCertificate(const CertificateFields& fields,
                                                  EVP_PKEY* subject_key,
                                                  const PrivateKey& issuer_key,
                                                  const Certificate* issuer);

}  // namespace skep::crypto
