#include "client/agent/enrol.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include "crypto/pki/request.h"
#include "shared/base/error_catalogue.h"
#include "shared/base/log.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

// One question, one answer.
class Exchange final : public LinkEvents {
 public:
  Exchange(Loop& loop, LinkSetup setup, wire::EnrolRequest request)
      : loop_(loop), request_(std::move(request)), link_(loop, std::move(setup), *this) {}
  ~Exchange() override { crypto::Wipe(request_.secret.bytes); }

  [[nodiscard]] const Result<wire::EnrolResult>& answer() const { return answer_; }

 private:
  void OnOpen() override { link_.Send(request_); }

  void OnMessage(wire::Message message) override {
    if (auto* result = std::get_if<wire::EnrolResult>(&message)) {
      answer_ = std::move(*result);
    } else if (const auto* error = std::get_if<wire::PeerError>(&message)) {
      const auto code = static_cast<int>(error->code);
      const ErrorEntry* known = FindError(code);
      answer_ = Error{code, "the aggregator refuses the enrolment: " + EscapePeerText(error->text),
                      known != nullptr ? std::string(known->remedy) : std::string()};
    } else {
      answer_ = Error{3302, "the aggregator did not answer the enrolment", ""};
    }
    has_answer_ = true;
    link_.Close();
  }

  Status OnChunk(BytesView) override { return Error{3303, "a chunk during enrolment", ""}; }
  void OnBodySent(std::uint32_t) override {}
  void OnClosed(const Error& why) override {
    if (!has_answer_) answer_ = why;
    loop_.Stop();
  }

  Loop& loop_;
  wire::EnrolRequest request_;
  Result<wire::EnrolResult> answer_ = Error{3001, "no answer", ""};
  bool has_answer_ = false;
  Link link_;  // last: it tells this object from the start
};

}  // namespace

Result<Identity> Enrol(const Storage& storage, const crypto::JoinString& join,
                       const EnrolSettings& settings, Loop& loop) {
  SKEP_ASSIGN(const crypto::PrivateKey key, KeepKey(storage));
  wire::EnrolRequest request;
  request.major = wire::kMajor;
  request.minor = wire::kMinor;
  request.secret = join.secret;
  request.software = settings.software;
  request.name_hint = settings.name_hint;
  SKEP_ASSIGN(request.csr, crypto::MakeRequest(key));
  SKEP_ASSIGN(net::TlsContext::Shared tls,
              net::TlsContext::ForEnrolment({.authority = std::nullopt,
                                             .pin = join.pin,
                                             .host = join.host,
                                             .judged_at = std::nullopt}));
  LinkSetup setup{.endpoint = {join.host, join.port},
                  .tls = std::move(tls),
                  .role = wire::Role::kEnrolClient,
                  .limits = settings.limits,
                  .proxy = settings.proxy};
  Exchange exchange(loop, std::move(setup), std::move(request));
  loop.Run();
  const Result<wire::EnrolResult>& answer = exchange.answer();
  if (!answer.has_value()) return answer.error();
  SKEP_TRY(StoreIdentity(storage, key, join.pin, *answer, loop.Clock().wall));
  return LoadIdentity(storage);
}

}  // namespace skep::agent
