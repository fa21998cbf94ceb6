#include "shared/net/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <string_view>

#include "shared/base/check.h"
#include "shared/base/try.h"

namespace skep::net {
namespace {

constexpr const char* kSuites =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kGroups = "X25519:P-256";
constexpr const char* kSignatures =
    "ECDSA+SHA256:ECDSA+SHA384:ed25519:rsa_pss_rsae_sha256:rsa_pss_rsae_sha384:"
    "rsa_pss_rsae_sha512:rsa_pss_pss_sha256:rsa_pss_pss_sha384:rsa_pss_pss_sha512";
constexpr std::string_view kDeviceProtocol = "skep/1";
constexpr std::string_view kEnrolmentProtocol = "skep-enrol/1";
constexpr int kSecurityLevel = 2;
constexpr int kDeepestChain = 2;
constexpr long kLargestCertificateList = 16 * 1024;

// What a connection learned in its handshake.
struct Record {
  std::optional<Error> refusal;
  std::optional<crypto::DeviceIdentity> device;
  std::function<void()> on_key_update;
  std::string protocol;
};

void FreeRecord(void*, void* record, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<Record*>(record);
}

int RecordIndex() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, FreeRecord);
  return index;
}

Record& RecordOf(const SSL* connection) {
  auto* record = static_cast<Record*>(SSL_get_ex_data(connection, RecordIndex()));
  SKEP_CHECK(record != nullptr);
  return *record;
}

Record& RecordOf(X509_STORE_CTX* context) {
  return RecordOf(
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx())));
}

Error Refused(const std::string& why) {
  return Error{3114, "TLS version, suite or ALPN refused: " + why, ""};
}

// Without this a client that offers no protocol at all would never be asked for one.
int RequireProtocol(SSL* connection, int* alert, void*) {
  const unsigned char* offered = nullptr;
  std::size_t size = 0;
  if (SSL_client_hello_get0_ext(connection, TLSEXT_TYPE_application_layer_protocol_negotiation,
                                &offered, &size) == 1) {
    return SSL_CLIENT_HELLO_SUCCESS;
  }
  RecordOf(connection).refusal = Refused("the peer offers no ALPN");
  *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
  return SSL_CLIENT_HELLO_ERROR;
}

int ChooseProtocol(SSL* connection, const unsigned char** chosen, unsigned char* chosen_size,
                   const unsigned char* offered, unsigned int offered_size, void*) {
  Record& record = RecordOf(connection);
  BytesView rest(offered, offered_size);
  while (!rest.empty() && rest[0] < rest.size()) {
    const BytesView name = rest.subspan(1, rest[0]);
    if (AsText(name) == record.protocol) {
      *chosen = name.data();
      *chosen_size = static_cast<unsigned char>(name.size());
      return SSL_TLSEXT_ERR_OK;
    }
    rest = rest.subspan(1 + name.size());
  }
  record.refusal = Refused("the peer does not offer " + record.protocol);
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

int JudgeClient(X509_STORE_CTX* context, void* rules) {
  auto verdict = crypto::JudgeDevice(*static_cast<const crypto::DeviceRules*>(rules), context);
  Record& record = RecordOf(context);
  if (!verdict.has_value()) {
    record.refusal = std::move(verdict).error();
    return 0;
  }
  record.device = *verdict;
  return 1;
}

int JudgeAggregator(X509_STORE_CTX* context, void* rules) {
  auto verdict = crypto::JudgeServer(*static_cast<const crypto::ServerRules*>(rules), context);
  if (verdict.has_value()) return 1;
  RecordOf(context).refusal = std::move(verdict).error();
  return 0;
}

void NoteKeyUpdates(int is_sent, int, int content_type, const void* bytes, std::size_t size,
                    SSL* connection, void*) {
  if (is_sent != 0 || content_type != SSL3_RT_HANDSHAKE || size == 0) return;
  if (*static_cast<const std::uint8_t*>(bytes) != SSL3_MT_KEY_UPDATE) return;
  const auto& on_key_update = RecordOf(connection).on_key_update;
  if (on_key_update) on_key_update();
}

bool IsName(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) != 1 &&
         inet_pton(AF_INET6, host.c_str(), &address) != 1;
}

Status SetProfile(SSL_CTX* context) {
  SSL_CTX_set_security_level(context, kSecurityLevel);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_clear_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_LEGACY_SERVER_CONNECT);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(context, kLargestCertificateList);
  SSL_CTX_set_verify_depth(context, kDeepestChain);
  SSL_CTX_set_msg_callback(context, NoteKeyUpdates);
  // Switching the cache off does not stop the tickets of TLS 1.3.
  if (SSL_CTX_set_num_tickets(context, 0) != 1 ||
      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, kSuites) != 1 ||
      SSL_CTX_set1_groups_list(context, kGroups) != 1 ||
      SSL_CTX_set1_sigalgs_list(context, kSignatures) != 1) {
    return crypto::OpenSslError(9001, "TLS profile not available");
  }
  return Ok();
}

}  // namespace

struct TlsContext::Rules {
  std::string protocol;
  std::optional<crypto::DeviceRules> device;
  std::optional<crypto::ServerRules> server;
};

TlsContext::TlsContext(crypto::Owned<SSL_CTX> context, std::unique_ptr<Rules> rules, bool is_server)
    : context_(std::move(context)), rules_(std::move(rules)), is_server_(is_server) {}

TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext>> TlsContext::Make(bool is_server, const std::string& protocol) {
  crypto::Owned<SSL_CTX> context(
      SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()));
  if (context == nullptr) return crypto::OpenSslError(9001, "no TLS context");
  SKEP_TRY(SetProfile(context.get()));
  if (is_server) {
    SSL_CTX_set_client_hello_cb(context.get(), RequireProtocol, nullptr);
    SSL_CTX_set_alpn_select_cb(context.get(), ChooseProtocol, nullptr);
  } else {
    std::string offered(1, static_cast<char>(protocol.size()));
    offered += protocol;
    const BytesView wire = AsBytes(std::string_view(offered));
    // Alone among these functions it returns 0 for success.
    if (SSL_CTX_set_alpn_protos(context.get(), wire.data(), static_cast<unsigned>(wire.size())) !=
        0) {
      return crypto::OpenSslError(9001, "no ALPN");
    }
  }
  auto rules = std::make_unique<Rules>();
  rules->protocol = protocol;
  return std::shared_ptr<TlsContext>(
      new TlsContext(std::move(context), std::move(rules), is_server));
}

Status TlsContext::Show(const Credentials& own) {
  if (!own.certificate.BelongsTo(own.key)) {
    return Error{5102, "the private key does not belong to \"" + own.certificate.Subject() + "\"",
                 ""};
  }
  SSL_CTX* context = context_.get();
  if (SSL_CTX_use_certificate(context, own.certificate.handle()) != 1) {
    return crypto::OpenSslError(5109, "certificate \"" + own.certificate.Subject() + "\" (" +
                                          own.certificate.KeyDescription() + ")");
  }
  if (SSL_CTX_use_PrivateKey(context, own.key.handle()) != 1) {
    return crypto::OpenSslError(9001, "private key not usable");
  }
  for (const crypto::Certificate& authority : own.chain) {
    if (SSL_CTX_add1_chain_cert(context, authority.handle()) != 1) {
      return crypto::OpenSslError(5109, "certificate \"" + authority.Subject() + "\"");
    }
  }
  return Ok();
}

Result<TlsContext::Shared> TlsContext::ForDeviceListener(const Credentials& own,
                                                         crypto::DeviceRules rules) {
  SKEP_ASSIGN(auto made, Make(true, std::string(kDeviceProtocol)));
  SKEP_TRY(made->Show(own));
  SSL_CTX* context = made->context_.get();
  SSL_CTX_add_client_CA(context, rules.authority.handle());
  made->rules_->device = std::move(rules);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(context, JudgeClient, &*made->rules_->device);
  return Shared(made);
}

Result<TlsContext::Shared> TlsContext::ForEnrolmentListener(const Credentials& own) {
  SKEP_ASSIGN(auto made, Make(true, std::string(kEnrolmentProtocol)));
  SKEP_TRY(made->Show(own));
  return Shared(made);
}

Result<TlsContext::Shared> TlsContext::ForDevice(const Credentials& own,
                                                 crypto::ServerRules rules) {
  SKEP_ASSIGN(auto made, Make(false, std::string(kDeviceProtocol)));
  SKEP_TRY(made->Show(own));
  made->rules_->server = std::move(rules);
  SSL_CTX_set_verify(made->context_.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(made->context_.get(), JudgeAggregator, &*made->rules_->server);
  return Shared(made);
}

Result<TlsContext::Shared> TlsContext::ForEnrolment(crypto::ServerRules rules) {
  SKEP_ASSIGN(auto made, Make(false, std::string(kEnrolmentProtocol)));
  made->rules_->server = std::move(rules);
  SSL_CTX_set_verify(made->context_.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(made->context_.get(), JudgeAggregator, &*made->rules_->server);
  return Shared(made);
}

Result<crypto::Owned<SSL>> TlsContext::NewConnection() const {
  crypto::Owned<SSL> connection(SSL_new(context_.get()));
  if (connection == nullptr) return crypto::OpenSslError(9001, "no TLS connection");
  auto record = std::make_unique<Record>();
  record->protocol = rules_->protocol;
  if (SSL_set_ex_data(connection.get(), RecordIndex(), record.get()) != 1) {
    return crypto::OpenSslError(9001, "no TLS connection");
  }
  static_cast<void>(record.release());
  if (rules_->server && IsName(rules_->server->host)) {
    if (SSL_set_tlsext_host_name(connection.get(), rules_->server->host.c_str()) != 1) {
      return crypto::OpenSslError(9001, "no server name");
    }
  }
  return connection;
}

Status CheckAgreed(SSL* connection) {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(connection, &name, &size);
  const std::string& wanted = RecordOf(connection).protocol;
  if (AsText(BytesView(name, size)) == wanted) return Ok();
  return Refused("the peer did not choose " + wanted);
}

std::optional<crypto::DeviceIdentity> DeviceOn(SSL* connection) {
  return RecordOf(connection).device;
}

std::optional<crypto::Certificate> PeerCertificate(SSL* connection) {
  X509* certificate = SSL_get0_peer_certificate(connection);
  if (certificate == nullptr) return std::nullopt;
  return crypto::Certificate::Share(certificate);
}

std::optional<Error> RefusalOn(SSL* connection) {
  return RecordOf(connection).refusal;
}

void WatchKeyUpdates(SSL* connection, std::function<void()> on_update) {
  RecordOf(connection).on_key_update = std::move(on_update);
}

}  // namespace skep::net
