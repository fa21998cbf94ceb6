// ExplainTls of tls.h: the one table from OpenSSL's reasons and the peer's alerts to the protocol's
// numbers.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "shared/net/tls.h"

namespace skep::net {
namespace {

// OpenSSL reports an alert of the peer as this plus the alert's number.
constexpr int kAlerts = SSL_AD_REASON_OFFSET;
constexpr const char* kBalancerHint =
    "a balancer in between must pass TCP through, not end TLS itself";

int NumberForAlert(int alert) {
  switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
      return 3101;
    case SSL_AD_CERTIFICATE_EXPIRED:
      return 3102;
    case SSL_AD_CERTIFICATE_REVOKED:
      return 3105;
    case SSL_AD_CERTIFICATE_REQUIRED:
      return 3107;
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
      return 3108;
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_INSUFFICIENT_SECURITY:
    case SSL_AD_NO_APPLICATION_PROTOCOL:
    case SSL_AD_PROTOCOL_VERSION:
      return 3114;
    default:
      return 3001;
  }
}

int NumberForFault(int reason) {
  switch (reason) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return 3107;
    case SSL_R_EXCESSIVE_MESSAGE_SIZE:
    case SSL_R_BAD_SIGNATURE:
      return 3101;
    case SSL_R_EE_KEY_TOO_SMALL:
    case SSL_R_CA_KEY_TOO_SMALL:
    case SSL_R_CA_MD_TOO_WEAK:
    case SSL_R_WRONG_SIGNATURE_TYPE:
    case SSL_R_WRONG_CURVE:
      return 3115;
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_NO_APPLICATION_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SHARED_GROUPS:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
    case SSL_R_NO_SUITABLE_DIGEST_ALGORITHM:
    case SSL_R_NO_SUITABLE_GROUPS:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_UNKNOWN_PROTOCOL:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_HIGH:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_WRONG_CIPHER_RETURNED:
    case SSL_R_WRONG_SSL_VERSION:
    case SSL_R_WRONG_VERSION_NUMBER:
      return 3114;
    default:
      return 3001;
  }
}

std::string Title(int number) {
  switch (number) {
    case 3101:
      return "certificate not trusted";
    case 3102:
      return "certificate expired";
    case 3105:
      return "certificate or device revoked";
    case 3107:
      return "no client certificate";
    case 3108:
      return "wrong certificate purpose";
    case 3114:
      return "TLS version, suite or ALPN refused";
    case 3115:
      return "weak key or signature";
    default:
      return "connection broke";
  }
}

// Which certificate the peer judged, for people who have to find the right file.
std::string OwnCertificateText(SSL* connection) {
  X509* own = SSL_get_certificate(connection);
  if (own == nullptr) return "";
  return "; presented: " + crypto::Certificate::Share(own).Describe();
}

std::string ReasonText(unsigned long reason) {
  const char* text = ERR_reason_error_string(reason);
  return text != nullptr ? text : "no reason given";
}

}  // namespace

Error ExplainTls(SSL* connection, unsigned long reason) {
  if (auto refusal = RefusalOn(connection)) return *refusal;
  const int number_of_reason = ERR_GET_LIB(reason) == ERR_LIB_SSL ? ERR_GET_REASON(reason) : 0;
  if (number_of_reason >= kAlerts) {
    const int number = NumberForAlert(number_of_reason - kAlerts);
    const bool is_about_certificate = number != 3001 && number != 3114;
    std::string message = Title(number) + ": the peer says \"" + ReasonText(reason) + "\"";
    if (is_about_certificate) message += OwnCertificateText(connection);
    return Error{number, message, number == 3107 || number == 3114 ? kBalancerHint : ""};
  }
  const int number = NumberForFault(number_of_reason);
  return Error{number, Title(number) + ": " + ReasonText(reason),
               number == 3107 || number == 3114 ? kBalancerHint : ""};
}

}  // namespace skep::net
