#include "crypto/pki/certificate.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>

#include "crypto/openssl.h"
#include "shared/base/file.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"

namespace skep::crypto {
namespace {

constexpr std::size_t kLargestFile = 256 * 1024;
constexpr std::size_t kLongestShown = 64;
constexpr std::string_view kUriStart = "urn:skep:";
constexpr std::string_view kUriDevice = ":device:";
constexpr std::size_t kIdDigits = 32;

struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
using AlternativeNames = std::unique_ptr<GENERAL_NAMES, FreeNames>;

// Nothing if the extension is absent, occurs twice or does not parse.
AlternativeNames AlternativeNamesOf(X509* certificate) {
  AlternativeNames names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  ERR_clear_error();
  return names;
}

std::string_view TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

std::string Escaped(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string shown;
  for (const char c : text.substr(0, kLongestShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte <= 0x7E) {
      shown += c;
    } else {
      shown += "\\x";
      shown += kDigits[byte >> 4];
      shown += kDigits[byte & 15];
    }
  }
  return shown.substr(0, kLongestShown);
}

std::string NameText(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at >= 0) return Escaped(TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at))));
  const Owned<BIO> target(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(target.get(), name, 0, XN_FLAG_RFC2253);
  char* text = nullptr;
  const long size = BIO_get_mem_data(target.get(), &text);
  return Escaped({text, size > 0 ? static_cast<std::size_t>(size) : 0});
}

std::string AddressText(const ASN1_OCTET_STRING* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = ASN1_STRING_length(address) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(address) != 16) return "";
  inet_ntop(family, ASN1_STRING_get0_data(address), text.data(), text.size());
  return text.data();
}

WallMs TimeOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return 0;
  const std::time_t seconds = timegm(&parts);
  return seconds > 0 ? static_cast<WallMs>(seconds) * 1000 : 0;
}

Result<DeviceIdentity> ParseIdentity(std::string_view uri) {
  const Error malformed{
      3109, "certificate identity malformed: \"" + Escaped(uri) + "\" is not a device of Skep", ""};
  if (uri.size() != kUriStart.size() + kIdDigits + kUriDevice.size() + kIdDigits) return malformed;
  const std::string_view federation = uri.substr(kUriStart.size(), kIdDigits);
  const std::string_view device = uri.substr(uri.size() - kIdDigits);
  DeviceIdentity identity;
  const auto federation_id = FederationId::FromHexText(federation);
  const auto device_id = DeviceId::FromHexText(device);
  if (!federation_id || !device_id) return malformed;
  identity = {*federation_id, *device_id};
  // Written anew it must be the same text: no upper case, no other words.
  if (IdentityUri(identity) != uri) return malformed;
  return identity;
}

bool ListsUsage(X509* certificate, std::uint32_t usage) {
  if ((X509_get_extension_flags(certificate) & EXFLAG_XKUSAGE) == 0) return false;
  return (X509_get_extended_key_usage(certificate) & usage) != 0;
}

}  // namespace

std::string IdentityUri(const DeviceIdentity& identity) {
  return std::string(kUriStart) + identity.federation.Hex() + std::string(kUriDevice) +
         identity.device.Hex();
}

Result<Certificate> Certificate::FromDer(BytesView der) {
  const std::uint8_t* at = der.data();
  Owned<X509> certificate(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
  if (certificate == nullptr) return OpenSslError(3101, "certificate not readable");
  if (at != der.data() + der.size()) {
    return Error{3101, "certificate not readable: bytes after its end", ""};
  }
  return Adopt(certificate.release());
}

Result<std::vector<Certificate>> Certificate::AllFromPem(std::string_view pem) {
  const Owned<BIO> source(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::vector<Certificate> all;
  while (X509* certificate = PEM_read_bio_X509(source.get(), nullptr, nullptr, nullptr)) {
    all.push_back(Adopt(certificate));
  }
  const bool is_at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (all.empty() || !is_at_end) return OpenSslError(1010, "not a certificate in PEM");
  ERR_clear_error();
  return all;
}

Result<Certificate> Certificate::FromPem(std::string_view pem) {
  SKEP_ASSIGN(auto all, AllFromPem(pem));
  return all.front();
}

Result<Certificate> Certificate::Load(const std::string& path) {
  SKEP_ASSIGN(const Bytes content, ReadFile(path, kLargestFile, 1010));
  auto certificate = FromPem(AsText(content));
  if (!certificate.has_value()) return std::move(certificate).error().Within(path);
  return certificate;
}

Certificate Certificate::Adopt(X509* certificate) {
  // Parses the extensions now, under one thread: the questions below only read flags.
  X509_check_purpose(certificate, -1, 0);
  ERR_clear_error();
  return Certificate(std::shared_ptr<X509>(certificate, OpenSslDelete()));
}

Certificate Certificate::Share(X509* certificate) {
  X509_up_ref(certificate);
  return Adopt(certificate);
}

std::string Certificate::ToPem() const {
  const Owned<BIO> target(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(target.get(), handle());
  char* text = nullptr;
  const long size = BIO_get_mem_data(target.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

Bytes Certificate::ToDer() const {
  unsigned char* encoded = nullptr;
  const int size = i2d_X509(handle(), &encoded);
  Bytes der;
  if (size > 0) der.assign(encoded, encoded + size);
  OPENSSL_free(encoded);
  return der;
}

Hash32 Certificate::Fingerprint() const {
  return Sha256::Of(ToDer());
}

Hash32 Certificate::KeyHash() const {
  unsigned char* encoded = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(handle()), &encoded);
  const Hash32 hash = Sha256::Of({encoded, size > 0 ? static_cast<std::size_t>(size) : 0});
  OPENSSL_free(encoded);
  return hash;
}

Bytes Certificate::Serial() const {
  const Owned<BIGNUM> number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(handle()), nullptr));
  Bytes serial(static_cast<std::size_t>(BN_num_bytes(number.get())));
  BN_bn2bin(number.get(), serial.data());
  return serial;
}

WallMs Certificate::NotBefore() const {
  return TimeOf(X509_get0_notBefore(handle()));
}
WallMs Certificate::NotAfter() const {
  return TimeOf(X509_get0_notAfter(handle()));
}
std::string Certificate::Subject() const {
  return NameText(X509_get_subject_name(handle()));
}
std::string Certificate::Issuer() const {
  return NameText(X509_get_issuer_name(handle()));
}

std::string Certificate::Describe() const {
  return "\"" + Subject() + "\" issued by \"" + Issuer() + "\", SHA-256 " + Fingerprint().Hex();
}

std::vector<std::string> Certificate::Names() const {
  const AlternativeNames all = AlternativeNamesOf(handle());
  std::vector<std::string> names;
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_DNS) names.push_back(Escaped(TextOf(name->d.dNSName)));
    if (name->type == GEN_IPADD) names.push_back(AddressText(name->d.iPAddress));
  }
  return names;
}

bool Certificate::NamesHost(const std::string& host) const {
  constexpr unsigned kFlags =
      X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS;
  if (X509_check_ip_asc(handle(), host.c_str(), 0) == 1) return true;
  return X509_check_host(handle(), host.data(), host.size(), kFlags, nullptr) == 1;
}

Result<DeviceIdentity> Certificate::IdentityIn(const FederationId& federation) const {
  const AlternativeNames all = AlternativeNamesOf(handle());
  std::vector<std::string_view> uris;
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_URI) uris.push_back(TextOf(name->d.uniformResourceIdentifier));
  }
  if (uris.size() != 1) {
    return Error{3109,
                 "certificate identity malformed: " + std::to_string(uris.size()) +
                     " URIs in its subject alternative name, not one",
                 ""};
  }
  SKEP_ASSIGN(const DeviceIdentity identity, ParseIdentity(uris.front()));
  if (identity.federation != federation) {
    return Error{3110,
                 "certificate of another federation: " + identity.federation.Hex() +
                     ", this one is " + federation.Hex(),
                 ""};
  }
  return identity;
}

bool Certificate::IsAuthority() const {
  return X509_check_ca(handle()) == 1;
}

bool Certificate::IsIssuedBy(const Certificate& authority) const {
  const bool is_issued = X509_NAME_cmp(X509_get_issuer_name(handle()),
                                       X509_get_subject_name(authority.handle())) == 0 &&
                         X509_verify(handle(), X509_get0_pubkey(authority.handle())) == 1;
  ERR_clear_error();
  return is_issued;
}

bool Certificate::HasServerUsage() const {
  return ListsUsage(handle(), XKU_SSL_SERVER);
}
bool Certificate::HasClientUsage() const {
  return ListsUsage(handle(), XKU_SSL_CLIENT);
}

bool Certificate::StatesUsage() const {
  return (X509_get_extension_flags(handle()) & EXFLAG_XKUSAGE) != 0;
}

bool Certificate::MaySign() const {
  return (X509_get_extension_flags(handle()) & EXFLAG_KUSAGE) != 0 &&
         (X509_get_key_usage(handle()) & KU_DIGITAL_SIGNATURE) != 0;
}

bool Certificate::BelongsTo(const PrivateKey& key) const {
  return EVP_PKEY_eq(X509_get0_pubkey(handle()), key.handle()) == 1;
}

std::string Certificate::KeyDescription() const {
  EVP_PKEY* key = X509_get0_pubkey(handle());
  return key != nullptr ? DescribeKey(key) : "unreadable";
}

}  // namespace skep::crypto
