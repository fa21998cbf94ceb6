// Owners of OpenSSL objects, and what its error queue says.
//
// Only declarations of OpenSSL's types come in here; whoever calls OpenSSL includes its headers in
// the .cc. Any thread; an owner is a plain value.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>

#include "shared/base/result.h"

struct X509_req_st;

namespace skep::crypto {

struct OpenSslDelete {
  void operator()(BIO* bio) const;
  void operator()(BIGNUM* number) const;
  void operator()(EVP_MD_CTX* context) const;
  void operator()(EVP_PKEY* key) const;
  void operator()(EVP_PKEY_CTX* context) const;
  void operator()(SSL* connection) const;
  void operator()(SSL_CTX* context) const;
  void operator()(X509* certificate) const;
  void operator()(X509_req_st* request) const;  // X509_REQ
  void operator()(X509_STORE* store) const;
  void operator()(X509_STORE_CTX* context) const;
};

template <class T>
using Owned = std::unique_ptr<T, OpenSslDelete>;

// The oldest reason in this thread's queue, which is emptied; "no reason given" if there is none.
[[nodiscard]] std::string TakeOpenSslReason();

// "what: reason" with that reason.
[[nodiscard]] Error OpenSslError(int code, const std::string& what);

}  // namespace skep::crypto
