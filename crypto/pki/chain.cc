#include "crypto/pki/chain.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "crypto/openssl.h"
#include "shared/base/check.h"
#include "shared/base/try.h"

namespace skep::crypto {
namespace {

constexpr int kDeepest = 2;
constexpr int kSecurityLevel = 2;

struct FreeStack {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
};
using Stack = std::unique_ptr<STACK_OF(X509), FreeStack>;

enum class Side { kDevice, kServer };

// What both sets of rules say to OpenSSL.
struct Task {
  Side side;
  const Certificate* authority;
  const std::string* host;  // kServer
  std::optional<WallMs> judged_at;
};

int NumberFor(int reason, Side side) {
  switch (reason) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return 3102;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return 3106;
    case X509_V_ERR_CERT_REVOKED:
      return 3105;
    case X509_V_ERR_INVALID_PURPOSE:
      return 3108;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return 3112;
    case X509_V_ERR_EE_KEY_TOO_SMALL:
    case X509_V_ERR_CA_KEY_TOO_SMALL:
    case X509_V_ERR_CA_MD_TOO_WEAK:
      return 3115;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return side == Side::kServer ? 3113 : 3101;
    default:
      return 3101;
  }
}

std::string Day(WallMs wall) {
  return UtcText(wall).substr(0, 10);
}

std::string NamesText(const Certificate& certificate) {
  std::string text;
  for (const std::string& name : certificate.Names()) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

std::string ReasonText(int number, int reason, const Certificate& at, const Task& task) {
  switch (number) {
    case 3102:
      return "certificate expired on " + Day(at.NotAfter());
    case 3105:
      return "certificate revoked";
    case 3106:
      return "certificate not valid before " + UtcText(at.NotBefore());
    case 3108:
      return std::string("wrong certificate purpose: not made for ") +
             (task.side == Side::kDevice ? "a device" : "an aggregator");
    case 3112:
      return "server name mismatch: the certificate does not name \"" + *task.host +
             "\" (names: " + NamesText(at) + ")";
    case 3113:
      return "server CA is not the pinned one";
    case 3115:
      return "weak key or signature (" + at.KeyDescription() + ")";
    default:
      return std::string("certificate not trusted: ") + X509_verify_cert_error_string(reason);
  }
}

std::string HintFor(int number) {
  switch (number) {
    case 3102:
      return "an expired certificate cannot renew itself: a device needs a new join string, an "
             "aggregator one that its operator signs (docs/operations.md)";
    case 3106:
      return "check the clocks of both machines";
    case 3112:
      return "connect to a name that the certificate bears, or name this one at `init`";
    default:
      return "";
  }
}

std::string WhoIsWho(const Certificate& presented, const Certificate& trusted) {
  return "; presented: " + presented.Describe() + "; trusted: \"" + trusted.Subject() +
         "\", SHA-256 " + trusted.Fingerprint().Hex();
}

Error Explained(X509_STORE_CTX* context, const Task& task) {
  const int reason = X509_STORE_CTX_get_error(context);
  const int number = NumberFor(reason, task.side);
  X509* current = X509_STORE_CTX_get_current_cert(context);
  const Certificate leaf = Certificate::Share(X509_STORE_CTX_get0_cert(context));
  const Certificate at = current != nullptr ? Certificate::Share(current) : leaf;
  ERR_clear_error();
  return Error{number, ReasonText(number, reason, at, task) + WhoIsWho(leaf, *task.authority),
               HintFor(number)};
}

// The error with what a handshake needs beside it: the reason from which the alert is chosen.
Error Refused(X509_STORE_CTX* context, int reason, const Task& task) {
  X509_STORE_CTX_set_error(context, reason);
  X509_STORE_CTX_set_current_cert(context, X509_STORE_CTX_get0_cert(context));
  return Explained(context, task);
}

bool IsMadeForOtherSide(const Certificate& leaf, Side side) {
  const bool has_usage = side == Side::kDevice ? leaf.HasClientUsage() : leaf.HasServerUsage();
  return leaf.StatesUsage() && !has_usage;
}

Status SetParameters(X509_STORE_CTX* context, const Task& task) {
  X509_VERIFY_PARAM* parameters = X509_STORE_CTX_get0_param(context);
  const int purpose =
      task.side == Side::kDevice ? X509_PURPOSE_SSL_CLIENT : X509_PURPOSE_SSL_SERVER;
  X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set_depth(parameters, kDeepest);
  X509_VERIFY_PARAM_set_auth_level(parameters, kSecurityLevel);
  X509_VERIFY_PARAM_set_purpose(parameters, purpose);
  if (task.judged_at) {
    X509_VERIFY_PARAM_set_time(parameters, static_cast<time_t>(*task.judged_at / 1000));
  }
  if (task.side == Side::kDevice) return Ok();
  X509_VERIFY_PARAM_set_hostflags(
      parameters, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool is_set =
      X509_VERIFY_PARAM_set1_ip_asc(parameters, task.host->c_str()) == 1 ||
      X509_VERIFY_PARAM_set1_host(parameters, task.host->data(), task.host->size()) == 1;
  ERR_clear_error();
  // Without a host OpenSSL would skip the check instead of failing it.
  if (!is_set || task.host->empty()) return Error{9001, "no host to verify", ""};
  return Ok();
}

Status JudgeChain(X509_STORE_CTX* context, const Task& task) {
  SKEP_TRY(SetParameters(context, task));
  const Stack trusted(sk_X509_new_null());
  SKEP_CHECK(trusted != nullptr && sk_X509_push(trusted.get(), task.authority->handle()) > 0);
  X509_STORE_CTX_set0_trusted_stack(context, trusted.get());
  const int verdict = X509_verify_cert(context);
  // The stack ends with this function; the context lives longer.
  X509_STORE_CTX_set0_trusted_stack(context, nullptr);
  const Certificate leaf = Certificate::Share(X509_STORE_CTX_get0_cert(context));
  if (verdict != 1) {
    const int number = NumberFor(X509_STORE_CTX_get_error(context), task.side);
    const bool is_stranger = number == 3101 || number == 3113;
    if (is_stranger && IsMadeForOtherSide(leaf, task.side)) {
      return Refused(context, X509_V_ERR_INVALID_PURPOSE, task);
    }
    return Explained(context, task);
  }
  // OpenSSL lets a certificate without the extension serve every purpose.
  const bool has_usage = task.side == Side::kDevice ? leaf.HasClientUsage() : leaf.HasServerUsage();
  if (!has_usage || !leaf.MaySign()) return Refused(context, X509_V_ERR_INVALID_PURPOSE, task);
  return Ok();
}

std::optional<Certificate> FindPinned(X509_STORE_CTX* context, const Hash32& pin) {
  STACK_OF(X509)* presented = X509_STORE_CTX_get0_untrusted(context);
  for (int i = 0; i < sk_X509_num(presented); ++i) {
    Certificate certificate = Certificate::Share(sk_X509_value(presented, i));
    if (certificate.KeyHash() == pin && certificate.IsAuthority()) return certificate;
  }
  return std::nullopt;
}

Error NotPinned(X509_STORE_CTX* context, const Hash32& pin) {
  X509_STORE_CTX_set_error(context, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN);
  const Certificate leaf = Certificate::Share(X509_STORE_CTX_get0_cert(context));
  return Error{3113,
               "server CA is not the pinned one; presented: " + leaf.Describe() +
                   "; trusted: the CA whose key has SHA-256 " + pin.Hex(),
               "this join string is of another aggregator, or somebody stands between"};
}

// A context of its own for certificates that come from elsewhere than a handshake.
class Chain {
 public:
  Chain(const Certificate& leaf, const std::vector<Certificate>& others)
      : store_(X509_STORE_new()), untrusted_(sk_X509_new_null()), context_(X509_STORE_CTX_new()) {
    SKEP_CHECK(store_ != nullptr && untrusted_ != nullptr && context_ != nullptr);
    for (const Certificate& other : others) sk_X509_push(untrusted_.get(), other.handle());
    SKEP_CHECK(X509_STORE_CTX_init(context_.get(), store_.get(), leaf.handle(), untrusted_.get()));
  }
  [[nodiscard]] X509_STORE_CTX* context() { return context_.get(); }

 private:
  Owned<X509_STORE> store_;
  Stack untrusted_;
  Owned<X509_STORE_CTX> context_;
};

}  // namespace

Result<DeviceIdentity> JudgeDevice(const DeviceRules& rules, X509_STORE_CTX* context) {
  const Task task{Side::kDevice, &rules.authority, nullptr, rules.judged_at};
  SKEP_TRY(JudgeChain(context, task));
  const Certificate leaf = Certificate::Share(X509_STORE_CTX_get0_cert(context));
  auto identity = leaf.IdentityIn(rules.federation);
  if (!identity.has_value()) {
    X509_STORE_CTX_set_error(context, X509_V_ERR_CERT_REJECTED);
    return identity;
  }
  Status admitted = rules.admit ? rules.admit(*identity, leaf) : Ok();
  if (!admitted.has_value()) {
    const bool is_revoked = admitted.error().code == 3105;
    X509_STORE_CTX_set_error(context,
                             is_revoked ? X509_V_ERR_CERT_REVOKED : X509_V_ERR_CERT_REJECTED);
    return std::move(admitted).error();
  }
  return identity;
}

Status JudgeServer(const ServerRules& rules, X509_STORE_CTX* context) {
  std::optional<Certificate> authority = rules.authority;
  if (!authority && rules.pin) {
    authority = FindPinned(context, *rules.pin);
    if (!authority) return NotPinned(context, *rules.pin);
  }
  if (!authority) return Error{9001, "no authority to verify by", ""};
  return JudgeChain(context, Task{Side::kServer, &*authority, &rules.host, rules.judged_at});
}

Result<DeviceIdentity> JudgeDevice(const DeviceRules& rules, const Certificate& leaf,
                                   const std::vector<Certificate>& others) {
  Chain chain(leaf, others);
  return JudgeDevice(rules, chain.context());
}

Status JudgeServer(const ServerRules& rules, const Certificate& leaf,
                   const std::vector<Certificate>& others) {
  Chain chain(leaf, others);
  return JudgeServer(rules, chain.context());
}

}  // namespace skep::crypto
