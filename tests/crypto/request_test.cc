#include "crypto/pki/request.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "tests/support/catch.h"

namespace skep::crypto {
namespace {

int CodeOf(BytesView der) {
  const auto request = CertificateRequest::Check(der);
  return request.has_value() ? 0 : request.error().code;
}

std::string MessageOf(BytesView der) {
  const auto request = CertificateRequest::Check(der);
  return request.has_value() ? "accepted" : request.error().message;
}

Bytes DerOf(X509_REQ* request) {
  unsigned char* encoded = nullptr;
  const int size = i2d_X509_REQ(request, &encoded);
  Bytes der(encoded, encoded + size);
  OPENSSL_free(encoded);
  return der;
}

struct Odd {
  long version = X509_REQ_VERSION_1;
  const EVP_MD* digest = EVP_sha256();
  std::string common_name = "";
};

// A request with whatever key and fields.
Bytes OddRequest(EVP_PKEY* key, EVP_PKEY* signing_key, const Odd& odd = {}) {
  const Owned<X509_REQ> request(X509_REQ_new());
  X509_REQ_set_version(request.get(), odd.version);
  X509_REQ_set_pubkey(request.get(), key);
  if (!odd.common_name.empty()) {
    X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(odd.common_name.data()), -1,
                               -1, 0);
  }
  REQUIRE(X509_REQ_sign(request.get(), signing_key, odd.digest) > 0);
  return DerOf(request.get());
}

Owned<EVP_PKEY> EcKey(const char* group) {
  return Owned<EVP_PKEY>(EVP_EC_gen(group));
}

TEST_CASE("a request made by a device is accepted, with the hash of its key", "[unit]") {
  const auto key = PrivateKey::MakeP256().value();
  const auto request = CertificateRequest::Check(MakeRequest(key).value());
  REQUIRE(request.has_value());
  CHECK(request->KeyHash() == key.KeyHash());
}

TEST_CASE("a subject in a request is ignored", "[unit]") {
  const auto key = EcKey("P-256");
  Odd odd;
  odd.common_name = "admin";
  CHECK(CodeOf(OddRequest(key.get(), key.get(), odd)) == 0);
}

TEST_CASE("bytes after a request are refused", "[unit]") {
  Bytes der = MakeRequest(PrivateKey::MakeP256().value()).value();
  der.push_back(0);
  CHECK(CodeOf(der) == 3119);
}

TEST_CASE("a request longer than 2,048 bytes is refused before it is parsed", "[unit]") {
  CHECK(MessageOf(Bytes(2049)) == "certificate request unacceptable: longer than 2,048 bytes");
}

TEST_CASE("every shortened request is refused", "[unit]") {
  const Bytes der = MakeRequest(PrivateKey::MakeP256().value()).value();
  for (std::size_t size = 0; size < der.size(); ++size) {
    INFO(size);
    CHECK(CodeOf(BytesView(der).first(size)) == 3119);
  }
}

TEST_CASE("every changed byte of a request is refused", "[unit]") {
  const Bytes der = MakeRequest(PrivateKey::MakeP256().value()).value();
  for (std::size_t i = 0; i < der.size(); ++i) {
    Bytes changed = der;
    changed[i] ^= 0x01;
    INFO(i);
    CHECK(CodeOf(changed) == 3119);
  }
}

TEST_CASE("keys of other curves and kinds are refused", "[unit]") {
  const auto p384 = EcKey("P-384");
  const auto k256 = EcKey("secp256k1");
  const Owned<EVP_PKEY> rsa(EVP_RSA_gen(2048));
  const std::string reason = "certificate request unacceptable: not a key of the named curve P-256";
  CHECK(MessageOf(OddRequest(p384.get(), p384.get())) == reason);
  CHECK(MessageOf(OddRequest(k256.get(), k256.get())) == reason);
  CHECK(MessageOf(OddRequest(rsa.get(), rsa.get())) == reason);
}

TEST_CASE("a curve given by its parameters instead of its name is refused", "[unit]") {
  const auto key = EcKey("P-256");
  REQUIRE(EVP_PKEY_set_utf8_string_param(key.get(), "encoding", "explicit") == 1);
  CHECK(CodeOf(OddRequest(key.get(), key.get())) == 3119);
}

TEST_CASE("a compressed point is refused", "[unit]") {
  const auto key = EcKey("P-256");
  REQUIRE(EVP_PKEY_set_utf8_string_param(key.get(), "point-format", "compressed") == 1);
  CHECK(MessageOf(OddRequest(key.get(), key.get())) ==
        "certificate request unacceptable: not a key of the named curve P-256");
}

TEST_CASE("a request signed by another key is refused", "[unit]") {
  const auto key = EcKey("P-256");
  const auto other = EcKey("P-256");
  CHECK(MessageOf(OddRequest(key.get(), other.get())) ==
        "certificate request unacceptable: signature invalid");
}

TEST_CASE("a request signed with another hash is refused", "[unit]") {
  const auto key = EcKey("P-256");
  Odd odd;
  odd.digest = EVP_sha384();
  CHECK(MessageOf(OddRequest(key.get(), key.get(), odd)) ==
        "certificate request unacceptable: not signed by ecdsa-with-SHA256");
}

TEST_CASE("a request of another version is refused", "[unit]") {
  const auto key = EcKey("P-256");
  Odd odd;
  odd.version = 1;
  CHECK(MessageOf(OddRequest(key.get(), key.get(), odd)) ==
        "certificate request unacceptable: not version 1");
}

TEST_CASE("a request that is BER but not DER is refused", "[unit]") {
  const Bytes der = MakeRequest(PrivateKey::MakeP256().value()).value();
  // The outer length in one more byte than it needs: 30 81 nn becomes 30 82 00 nn.
  REQUIRE(der[1] == 0x81);
  Bytes ber = {der[0], 0x82, 0x00};
  ber.insert(ber.end(), der.begin() + 2, der.end());
  CHECK(MessageOf(ber) == "certificate request unacceptable: not DER");
}

}  // namespace
}  // namespace skep::crypto
