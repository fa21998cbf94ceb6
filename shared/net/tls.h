// TLS contexts: the one TLS profile of Skep, in its four uses, and what a failed handshake means.
//
// There is one context for each listener and for each kind of client, and no option that relaxes a
// check. Sockets and deadlines are framed_stream.h's. Made at start and on reload; connections keep
// the context they began with. A context is constant and thread-safe; a connection belongs to one
// thread at a time. Source: RFC 8446; Skep protocol 1.0, sections 10.1 and 10.2 (T1 to T9, T12,
// T13, T16).
#pragma once

#include <openssl/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crypto/openssl.h"
#include "crypto/pki/certificate.h"
#include "crypto/pki/chain.h"
#include "crypto/private_key.h"
#include "shared/base/result.h"

namespace skep::net {

// A certificate to show, with its key and the authorities to send along.
struct Credentials {
  crypto::Certificate certificate;
  crypto::PrivateKey key;
  std::vector<crypto::Certificate> chain;
};

class TlsContext {
 public:
  using Shared = std::shared_ptr<const TlsContext>;

  // Errors: SKEP-5102 if key and certificate do not belong together, SKEP-5109 if the key is too
  // weak for the profile.
  //
  // Aggregator, devices: ALPN skep/1, a client certificate by `rules` is mandatory.
  [[nodiscard]] static Result<Shared> ForDeviceListener(const Credentials& own,
                                                        crypto::DeviceRules rules);
  // Aggregator, enrolment: ALPN skep-enrol/1, no client certificate is asked for. `own.chain` is
  // sent whole and must hold the self-signed server CA, which joining devices look for.
  [[nodiscard]] static Result<Shared> ForEnrolmentListener(const Credentials& own);
  // Device: shows its certificate, trusts by `rules`, whose host is also sent as SNI if it is a
  // name.
  [[nodiscard]] static Result<Shared> ForDevice(const Credentials& own, crypto::ServerRules rules);
  // Device before it has a certificate.
  [[nodiscard]] static Result<Shared> ForEnrolment(crypto::ServerRules rules);

  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  [[nodiscard]] bool is_server() const { return is_server_; }

  // A connection's TLS object, without a socket. The context outlives it.
  [[nodiscard]] Result<crypto::Owned<SSL>> NewConnection() const;

 private:
  struct Rules;
  TlsContext(crypto::Owned<SSL_CTX> context, std::unique_ptr<Rules> rules, bool is_server);
  [[nodiscard]] static Result<std::shared_ptr<TlsContext>> Make(bool is_server,
                                                                const std::string& protocol);
  [[nodiscard]] Status Show(const Credentials& own);

  crypto::Owned<SSL_CTX> context_;
  std::unique_ptr<Rules> rules_;
  bool is_server_;
};

// After a handshake that succeeded: SKEP-3114 unless both sides agreed on this context's protocol.
[[nodiscard]] Status CheckAgreed(SSL* connection);

// Whom a device certificate spoke for; nothing on other connections.
[[nodiscard]] std::optional<crypto::DeviceIdentity> DeviceOn(SSL* connection);
// The certificate that the peer showed, if any.
[[nodiscard]] std::optional<crypto::Certificate> PeerCertificate(SSL* connection);

// `on_update` is called inside of OpenSSL for every KeyUpdate message of the peer: more than 16 a
// minute are abuse (T12), and a peer that sends nothing else would never let a read return. It must
// not touch the connection.
void WatchKeyUpdates(SSL* connection, std::function<void()> on_update);

// The refusal of our own rules in this connection's handshake, if there was one.
[[nodiscard]] std::optional<Error> RefusalOn(SSL* connection);

// What OpenSSL's error `reason` (as from ERR_get_error) on this connection means: the refusal of
// our own rules if there was one, else an alert of the peer or a fault of the handshake. Numbers:
// 3101, 3102, 3105 to 3110, 3112 to 3115; 3001 if the connection broke otherwise.
//
// In TLS 1.3 the aggregator judges a device's certificate after the device's own handshake is over,
// so a device meets some of these at its first read.
[[nodiscard]] Error ExplainTls(SSL* connection, unsigned long reason);

}  // namespace skep::net
