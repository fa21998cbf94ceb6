#include "client/embed/diagnosis.h"

#include <cstdlib>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "client/agent/conditions.h"
#include "client/agent/identity.h"
#include "client/agent/loop.h"
#include "client/agent/reach.h"
#include "client/agent/settings.h"
#include "client/agent/state.h"
#include "client/agent/storage.h"
#include "client/embed/result.h"
#include "kernels/cuda/loader.h"
#include "shared/base/amounts.h"
#include "shared/base/log.h"
#include "shared/base/try.h"

namespace skep::embed {
namespace {

constexpr std::uint64_t kLittleRoom = std::uint64_t{16} * 1024 * 1024;
constexpr std::int64_t kFarApartMs = std::int64_t{5} * 60 * 1000;

// Opens a connection, greets if it may, and leaves.
class Visit final : public agent::LinkEvents {
 public:
  Visit(agent::Loop& loop, agent::LinkSetup setup, wire::Hello hello, bool greets)
      : loop_(loop),
        hello_(std::move(hello)),
        greets_(greets),
        link_(loop, std::move(setup), *this) {}

  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] const std::optional<wire::HelloAck>& ack() const { return ack_; }
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }

 private:
  void OnOpen() override {
    is_open_ = true;
    if (!greets_) return link_.Close();
    link_.Send(hello_);
  }
  void OnMessage(wire::Message message) override {
    if (const auto* ack = std::get_if<wire::HelloAck>(&message)) {
      ack_ = *ack;
      link_.Send(wire::Goodbye{wire::GoodbyeReason::kDone, std::nullopt});
    } else if (const auto* error = std::get_if<wire::PeerError>(&message)) {
      failure_ = Error{static_cast<int>(error->code),
                       "the aggregator reports: " + EscapePeerText(error->text), ""};
    }
    link_.Close();
  }
  Status OnChunk(BytesView) override { return Error{3303, "a chunk before any request", ""}; }
  void OnBodySent(std::uint32_t) override {}
  void OnClosed(const Error& why) override {
    const bool is_done = ack_ || (is_open_ && !greets_);
    if (!is_done && !failure_) failure_ = why;
    loop_.Stop();
  }

  agent::Loop& loop_;
  wire::Hello hello_;
  bool greets_;
  bool is_open_ = false;
  std::optional<wire::HelloAck> ack_;
  std::optional<Error> failure_;
  agent::Link link_;
};

class Doctor {
 public:
  Doctor(const Options& options, Hook<skep_step_fn> tell) : options_(options), tell_(tell) {}

  Status Examine() {
    Well("configuration", "valid");
    SKEP_TRY(ExamineFolder());
    SKEP_TRY(ExamineDisk());
    SKEP_TRY(ExamineClock());
    ExamineProxy();
    SKEP_TRY(ExamineAggregator());
    SKEP_TRY(ExamineDevice());
    return ExamineEligibility();
  }

 private:
  void Well(const char* name, const std::string& text) {
    tell_.fn(tell_.user, name, 0, text.c_str(), "");
  }
  Status Ill(const char* name, Error why) {
    tell_.fn(tell_.user, name, why.code, why.message.c_str(), why.hint.c_str());
    return why;
  }

  Status ExamineFolder() {
    Result<agent::Storage> storage = agent::Storage::Look(options_.storage_dir);
    if (!storage.has_value()) return Ill("folder", std::move(storage).error());
    storage_.emplace(std::move(storage).value());
    Result<agent::Identity> identity = agent::LoadIdentity(*storage_);
    if (!identity.has_value()) return Ill("folder", std::move(identity).error());
    identity_.emplace(std::move(identity).value());
    const Result<agent::State> state = agent::LoadState(*storage_);
    if (!state.has_value()) return Ill("folder", state.error());
    holder_ = storage_->LockedBy();
    Well("folder", fmt::format("{}, device {}{}", storage_->folder(), identity_->device.Hex(),
                               holder_ ? fmt::format(", in use by process {}", *holder_) : ""));
    return Ok();
  }

  Status ExamineDisk() {
    const std::uint64_t free = storage_->BytesFree();
    const std::uint64_t used = storage_->BytesUsed();
    if (free < kLittleRoom) {
      return Ill("disk", Error{7405, "only " + AmountText(free) + " are free", "free space"});
    }
    if (used >= options_.caps.storage) {
      return Ill("disk", Error{7405, AmountText(used) + " are used, all of max_storage",
                               "raise max_storage"});
    }
    Well("disk", AmountText(used) + " used, " + AmountText(free) + " free");
    return Ok();
  }

  Status ExamineClock() {
    const WallMs now = loop_.Clock().wall;
    if (Status clock = agent::CheckClock(now); !clock.has_value()) {
      return Ill("clock", std::move(clock).error());
    }
    Well("clock", UtcText(now));
    return Ok();
  }

  void ExamineProxy() {
    if (options_.proxy) return Well("proxy", net::EndpointText(*options_.proxy));
    std::string found;
    for (const char* name : {"https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy"}) {
      const char* value = std::getenv(name);
      if (value != nullptr && *value != '\0')
        found += (found.empty() ? "" : ", ") + std::string(name);
    }
    Well("proxy", found.empty() ? "none" : "none; " + found + " of the environment is not used");
  }

  // Name, TCP, TLS and certificate are steps of one connection.
  Status ExamineAggregator() {
    const Result<net::Endpoint> endpoint = agent::EndpointOf(options_.endpoint, *identity_);
    if (!endpoint.has_value()) return Ill("name", endpoint.error());
    const Result<std::string> population = agent::PopulationOf(options_.population, *identity_);
    if (!population.has_value()) return Ill("name", population.error());
    if (Status fit = net::CheckReachable(*endpoint); !fit.has_value()) {
      return Ill("name", std::move(fit).error());
    }
    if (Status own = agent::CheckCertificate(*identity_, loop_.Clock().wall); !own.has_value()) {
      return Ill("certificate", std::move(own).error());
    }
    auto tls = net::TlsContext::ForDevice(identity_->own, {.authority = identity_->server_ca,
                                                           .pin = std::nullopt,
                                                           .host = endpoint->host,
                                                           .judged_at = std::nullopt});
    if (!tls.has_value()) return Ill("certificate", std::move(tls).error());
    Visit visit(loop_,
                {.endpoint = *endpoint,
                 .tls = std::move(tls).value(),
                 .role = wire::Role::kClient,
                 .limits = options_.limits,
                 .proxy = options_.proxy},
                Greeting(), !holder_);
    loop_.Run();
    return JudgeVisit(visit, *endpoint, *population);
  }

  [[nodiscard]] wire::Hello Greeting() const {
    wire::Hello hello;
    hello.major = wire::kMajor;
    hello.minor = wire::kMinor;
    hello.min_minor = wire::kMinor;
    hello.software = options_.Software();
    hello.clock_ms = loop_.Clock().wall;
    return hello;
  }

  Status JudgeVisit(const Visit& visit, const net::Endpoint& endpoint,
                    const std::string& population) {
    if (visit.failure() && !visit.is_open()) {
      const Error& why = *visit.failure();
      if (why.code == 3002) return Ill("name", why);
      Well("name", endpoint.host);
      if (!agent::IsTrustFailure(why.code)) return Ill("tcp", why);
      Well("tcp", "connected");
      return Ill("tls", why);
    }
    Well("name", endpoint.host);
    Well("tcp", "connected to port " + std::to_string(endpoint.port));
    Well("tls", "TLS 1.3, the aggregator's certificate is trusted");
    if (visit.failure()) return Ill("certificate", *visit.failure());
    const WallMs end = identity_->own.certificate.NotAfter();
    const WallMs now = loop_.Clock().wall;
    const std::string ends = "ends in " + SpanText(Milliseconds(end - now));
    if (!visit.ack()) {
      Well("certificate", fmt::format("{}; process {} is connected with it", ends, *holder_));
      return Ok();
    }
    const auto apart =
        static_cast<std::int64_t>(visit.ack()->clock_ms) - static_cast<std::int64_t>(now);
    std::string text = fmt::format("accepted for {}, {}", population, ends);
    if (std::abs(apart) > kFarApartMs) {
      text += ", but the clocks differ by " + SpanText(Milliseconds(std::abs(apart)));
    }
    Well("certificate", std::move(text));
    return Ok();
  }

  Status ExamineDevice() {
    const Result<kernels::DeviceChoice> choice = kernels::ParseDevice(options_.device);
    if (!choice.has_value()) return Ill("device", choice.error());
    const Result<kernels::ChosenDevice> chosen = kernels::ChooseDevice(*choice);
    if (!chosen.has_value()) return Ill("device", chosen.error());
    Well("device", "trains on " + chosen->said);
    return Ok();
  }

  Status ExamineEligibility() {
    const agent::Conditions conditions = agent::ProbeConditions();
    Status fit = agent::CheckEligible(options_.eligibility, conditions);
    if (!fit.has_value()) return Ill("eligibility", std::move(fit).error());
    Well("eligibility", agent::ConditionsText(conditions));
    return Ok();
  }

  const Options& options_;
  agent::Loop loop_;
  Hook<skep_step_fn> tell_;
  std::optional<agent::Storage> storage_;
  std::optional<agent::Identity> identity_;
  std::optional<int> holder_;  // a process that works in the folder
};

}  // namespace

skep_status Diagnose(const Options& options, Hook<skep_step_fn> tell) {
  const Status verdict = Doctor(options, tell).Examine();
  return verdict.has_value() ? SKEP_OK : StatusOfCode(verdict.error().code);
}

}  // namespace skep::embed
