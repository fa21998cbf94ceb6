#include "crypto/pki/certificate_maker.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>

#include "crypto/csprng.h"
#include "crypto/openssl.h"
#include "shared/base/try.h"

namespace skep::crypto {
namespace {

Status SetSerial(X509* certificate) {
  std::array<std::uint8_t, 16> serial{};
  SKEP_TRY(FillRandom(serial));
  // Positive, and of full length.
  serial[0] = static_cast<std::uint8_t>((serial[0] & 0x7F) | 0x40);
  const Owned<BIGNUM> number(BN_bin2bn(serial.data(), static_cast<int>(serial.size()), nullptr));
  if (number == nullptr ||
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr) {
    return OpenSslError(9001, "no serial number");
  }
  return Ok();
}

bool SetTimes(X509* certificate, const CertificateFields& fields) {
  const auto from = static_cast<time_t>(fields.not_before / 1000);
  const auto until = static_cast<time_t>(fields.not_after / 1000);
  return ASN1_TIME_adj(X509_getm_notBefore(certificate), from, 0, 0) != nullptr &&
         ASN1_TIME_adj(X509_getm_notAfter(certificate), until, 0, 0) != nullptr;
}

bool SetNames(X509* certificate, const std::string& common_name, const Certificate* issuer) {
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.data());
  X509_NAME* subject = X509_get_subject_name(certificate);
  if (X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8, text,
                                 static_cast<int>(common_name.size()), -1, 0) != 1) {
    return false;
  }
  X509* named = issuer != nullptr ? issuer->handle() : certificate;
  return X509_set_issuer_name(certificate, X509_get_subject_name(named)) == 1;
}

Status AddExtensions(X509* certificate, const CertificateFields& fields,
                     const Certificate* issuer) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer != nullptr ? issuer->handle() : certificate, certificate, nullptr,
                 nullptr, 0);
  for (const auto& extension : fields.extensions) {
    X509_EXTENSION* made =
        X509V3_EXT_nconf(nullptr, &context, extension.first.c_str(), extension.second.c_str());
    const bool is_added = made != nullptr && X509_add_ext(certificate, made, -1) == 1;
    X509_EXTENSION_free(made);
    if (!is_added) return OpenSslError(9001, "extension " + extension.first + " not added");
  }
  return Ok();
}

}  // namespace

Result<Certificate> MakeCertificate(const CertificateFields& fields, EVP_PKEY* subject_key,
                                    const PrivateKey& issuer_key, const Certificate* issuer) {
  Owned<X509> certificate(X509_new());
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !SetTimes(certificate.get(), fields) ||
      !SetNames(certificate.get(), fields.common_name, issuer) ||
      X509_set_pubkey(certificate.get(), subject_key) != 1) {
    return OpenSslError(9001, "no certificate");
  }
  SKEP_TRY(SetSerial(certificate.get()));
  SKEP_TRY(AddExtensions(certificate.get(), fields, issuer));
  const EVP_MD* digest = issuer_key.IsEd25519() ? nullptr : EVP_sha256();
  if (X509_sign(certificate.get(), issuer_key.handle(), digest) <= 0) {
    return OpenSslError(9001, "certificate not signed");
  }
  // Read back from its bytes, as every peer will: no state of the making stays in it.
  return Certificate::FromDer(Certificate::Adopt(certificate.release()).ToDer());
}

}  // namespace skep::crypto
