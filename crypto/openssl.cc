#include "crypto/openssl.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

namespace skep::crypto {

void OpenSslDelete::operator()(BIO* bio) const {
  BIO_free_all(bio);
}
void OpenSslDelete::operator()(BIGNUM* number) const {
  BN_clear_free(number);
}
void OpenSslDelete::operator()(EVP_MD_CTX* context) const {
  EVP_MD_CTX_free(context);
}
void OpenSslDelete::operator()(EVP_PKEY* key) const {
  EVP_PKEY_free(key);
}
void OpenSslDelete::operator()(EVP_PKEY_CTX* context) const {
  EVP_PKEY_CTX_free(context);
}
void OpenSslDelete::operator()(SSL* connection) const {
  SSL_free(connection);
}
void OpenSslDelete::operator()(SSL_CTX* context) const {
  SSL_CTX_free(context);
}
void OpenSslDelete::operator()(X509* certificate) const {
  X509_free(certificate);
}
void OpenSslDelete::operator()(X509_REQ* request) const {
  X509_REQ_free(request);
}
void OpenSslDelete::operator()(X509_STORE* store) const {
  X509_STORE_free(store);
}
void OpenSslDelete::operator()(X509_STORE_CTX* context) const {
  X509_STORE_CTX_free(context);
}

std::string TakeOpenSslReason() {
  const unsigned long oldest = ERR_get_error();
  const char* reason = oldest == 0 ? nullptr : ERR_reason_error_string(oldest);
  ERR_clear_error();
  return reason != nullptr ? reason : "no reason given";
}

Error OpenSslError(int code, const std::string& what) {
  return Error{code, what + ": " + TakeOpenSslReason(), ""};
}

}  // namespace skep::crypto
