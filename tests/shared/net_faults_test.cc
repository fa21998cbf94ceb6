#include <openssl/err.h>
#include <openssl/ssl.h>

#include "shared/net/endpoint.h"
#include "shared/net/tls.h"
#include "tests/crypto/pki_fixture.h"
#include "tests/support/catch.h"

namespace skep::net {
namespace {

using test::Holder;
using test::Pki;

TlsContext::Shared ClientOf(const Pki& pki, const Holder& device) {
  return TlsContext::ForDevice(
             {device.certificate, device.key, {}},
             {pki.server_ca.certificate(), std::nullopt, "localhost", std::nullopt})
      .value();
}

Error Explained(int reason) {
  const Pki pki;
  const Holder device = pki.Device();
  const auto context = ClientOf(pki, device);
  const auto connection = context->NewConnection().value();
  return ExplainTls(connection.get(), ERR_PACK(ERR_LIB_SSL, 0, reason));
}

TEST_CASE("every fatal alert of the protocol has its number", "[unit]") {
  const std::vector<std::pair<int, int>> table = {
      {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, 3107},
      {SSL_R_TLSV1_ALERT_UNKNOWN_CA, 3101},
      {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, 3101},
      {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, 3102},
      {SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, 3105},
      {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, 3108},
      {SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, 3114},
      {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, 3114},
      {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, 3114},
      {SSL_R_TLSV1_ALERT_INTERNAL_ERROR, 3001},
  };
  for (const auto& row : table) {
    INFO(row.first);
    CHECK(Explained(row.first).code == row.second);
  }
}

TEST_CASE("faults found on this side have their numbers", "[unit]") {
  CHECK(Explained(SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE).code == 3107);
  CHECK(Explained(SSL_R_EE_KEY_TOO_SMALL).code == 3115);
  CHECK(Explained(SSL_R_NO_SHARED_CIPHER).code == 3114);
  CHECK(Explained(SSL_R_BAD_RECORD_TYPE).code == 3001);
}

TEST_CASE("a missing client certificate hints at balancers that end TLS", "[unit]") {
  CHECK(Explained(SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE).hint.find("balancer") !=
        std::string::npos);
}

TEST_CASE("endpoints parse to host and port and back", "[unit]") {
  for (const char* text : {"agg.example:8443", "192.0.2.1:0", "[::1]:8443"}) {
    const auto endpoint = ParseEndpoint(text);
    REQUIRE(endpoint.has_value());
    CHECK(EndpointText(*endpoint) == text);
  }
}

TEST_CASE("text that is no endpoint is none", "[unit]") {
  for (const char* text :
       {"", "agg.example", ":8443", "agg.example:", "agg.example:65536", "agg.example:-1",
        "agg.example:08443", "::1:8443", "[::1:8443", "[agg]:1", "a b:1", "agg.example:84x"}) {
    INFO(text);
    CHECK_FALSE(ParseEndpoint(text).has_value());
  }
}

TEST_CASE("the wildcard address is known in every spelling", "[unit]") {
  for (const char* text : {"0.0.0.0", "::", "0:0:0:0:0:0:0:0"}) CHECK(IsWildcard(text));
  for (const char* text : {"127.0.0.1", "::1", "agg.example"}) CHECK_FALSE(IsWildcard(text));
}

}  // namespace
}  // namespace skep::net
