#include "crypto/pki/request.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <algorithm>
#include <string>

namespace skep::crypto {
namespace {

constexpr int kUncompressedPoint = 65;
constexpr std::uint8_t kUncompressedMark = 4;

Error Unacceptable(const std::string& why) {
  ERR_clear_error();
  return Error{3119, "certificate request unacceptable: " + why, ""};
}

// Written anew, from the parsed fields and not from OpenSSL's copy of the input, it must be the
// same bytes.
bool IsDer(X509_REQ* request, BytesView der) {
  i2d_re_X509_REQ_tbs(request, nullptr);
  unsigned char* encoded = nullptr;
  const int size = i2d_X509_REQ(request, &encoded);
  const bool is_same = size > 0 && std::equal(encoded, encoded + size, der.begin(), der.end());
  OPENSSL_free(encoded);
  return is_same;
}

bool IsNamedP256(X509_REQ* request) {
  X509_ALGOR* algorithm = nullptr;
  const unsigned char* point = nullptr;
  int point_size = 0;
  X509_PUBKEY* key = X509_REQ_get_X509_PUBKEY(request);
  if (key == nullptr ||
      X509_PUBKEY_get0_param(nullptr, &point, &point_size, &algorithm, key) != 1) {
    return false;
  }
  const ASN1_OBJECT* kind = nullptr;
  const void* parameter = nullptr;
  int parameter_type = 0;
  X509_ALGOR_get0(&kind, &parameter_type, &parameter, algorithm);
  return OBJ_obj2nid(kind) == NID_X9_62_id_ecPublicKey && parameter_type == V_ASN1_OBJECT &&
         OBJ_obj2nid(static_cast<const ASN1_OBJECT*>(parameter)) == NID_X9_62_prime256v1 &&
         point_size == kUncompressedPoint && point[0] == kUncompressedMark;
}

bool IsSignedWithSha256(X509_REQ* request) {
  const X509_ALGOR* algorithm = nullptr;
  X509_REQ_get0_signature(request, nullptr, &algorithm);
  const ASN1_OBJECT* kind = nullptr;
  int parameter_type = 0;
  X509_ALGOR_get0(&kind, &parameter_type, nullptr, algorithm);
  return OBJ_obj2nid(kind) == NID_ecdsa_with_SHA256 && parameter_type == V_ASN1_UNDEF;
}

}  // namespace

Result<Bytes> MakeRequest(const PrivateKey& key) {
  const Owned<X509_REQ> request(X509_REQ_new());
  if (request == nullptr || X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.handle()) != 1 ||
      X509_REQ_sign(request.get(), key.handle(), EVP_sha256()) <= 0) {
    return OpenSslError(9001, "no certificate request");
  }
  unsigned char* encoded = nullptr;
  const int size = i2d_X509_REQ(request.get(), &encoded);
  if (size <= 0) return OpenSslError(9001, "no certificate request");
  Bytes der(encoded, encoded + size);
  OPENSSL_free(encoded);
  return der;
}

Result<CertificateRequest> CertificateRequest::Check(BytesView der) {
  if (der.size() > kLargestRequest) return Unacceptable("longer than 2,048 bytes");
  const std::uint8_t* at = der.data();
  const std::shared_ptr<X509_REQ> request(d2i_X509_REQ(nullptr, &at, static_cast<long>(der.size())),
                                          OpenSslDelete());
  if (request == nullptr) return Unacceptable("not a PKCS#10 request");
  if (at != der.data() + der.size()) return Unacceptable("bytes after its end");
  if (!IsDer(request.get(), der)) return Unacceptable("not DER");
  if (X509_REQ_get_version(request.get()) != X509_REQ_VERSION_1)
    return Unacceptable("not version 1");
  if (!IsNamedP256(request.get())) return Unacceptable("not a key of the named curve P-256");
  // Decoding the key checks that the point is on the curve.
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (key == nullptr) return Unacceptable("not a point of the curve P-256");
  if (!IsSignedWithSha256(request.get())) return Unacceptable("not signed by ecdsa-with-SHA256");
  if (X509_REQ_verify(request.get(), key) != 1) return Unacceptable("signature invalid");
  return CertificateRequest(request);
}

EVP_PKEY* CertificateRequest::key() const {
  return X509_REQ_get0_pubkey(request_.get());
}

}  // namespace skep::crypto
