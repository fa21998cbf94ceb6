#include "client/agent/doctor.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "client/agent/conditions.h"
#include "client/agent/history.h"
#include "client/agent/identity.h"
#include "client/agent/local_data.h"
#include "client/agent/reach.h"
#include "client/agent/settings.h"
#include "client/agent/state.h"
#include "client/agent/storage.h"
#include "shared/base/log.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

constexpr std::uint64_t kLittleRoom = std::uint64_t{16} * 1024 * 1024;
constexpr std::int64_t kFarApartMs = std::int64_t{5} * 60 * 1000;

// Opens a connection, greets if it may, and leaves.
class Visit final : public LinkEvents {
 public:
  Visit(Loop& loop, LinkSetup setup, wire::Hello hello, bool greets)
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

  Loop& loop_;
  wire::Hello hello_;
  bool greets_;
  bool is_open_ = false;
  std::optional<wire::HelloAck> ack_;
  std::optional<Error> failure_;
  Link link_;
};

class Doctor {
 public:
  Doctor(const DoctorSettings& settings, Loop& loop, const std::function<void(const Step&)>& tell)
      : settings_(settings), loop_(loop), tell_(tell) {}

  Status Examine() {
    Well("configuration", HasDataSource(settings_.config) ? "valid" : "valid, without data");
    SKEP_TRY(ExamineFolder());
    SKEP_TRY(ExamineDisk());
    SKEP_TRY(ExamineClock());
    ExamineProxy();
    SKEP_TRY(ExamineAggregator());
    SKEP_TRY(ExamineData());
    SKEP_TRY(ExamineDevice());
    return ExamineEligibility();
  }

 private:
  void Well(const char* name, std::string text) { tell_({name, std::move(text), std::nullopt}); }
  Status Ill(const char* name, Error why) {
    tell_({name, "", why});
    return why;
  }

  Status ExamineFolder() {
    Result<Storage> storage = Storage::Look(settings_.config.storage_dir);
    if (!storage.has_value()) return Ill("folder", std::move(storage).error());
    storage_.emplace(std::move(storage).value());
    Result<Identity> identity = LoadIdentity(*storage_);
    if (!identity.has_value()) return Ill("folder", std::move(identity).error());
    identity_.emplace(std::move(identity).value());
    Result<State> state = LoadState(*storage_);
    if (!state.has_value()) return Ill("folder", std::move(state).error());
    state_ = std::move(state).value();
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
    if (used >= settings_.config.limits.storage) {
      return Ill("disk", Error{7405, AmountText(used) + " are used, all of limits.storage",
                               "raise limits.storage"});
    }
    Well("disk", AmountText(used) + " used, " + AmountText(free) + " free");
    return Ok();
  }

  Status ExamineClock() {
    const WallMs now = loop_.Clock().wall;
    if (Status clock = CheckClock(now); !clock.has_value()) {
      return Ill("clock", std::move(clock).error());
    }
    Well("clock", UtcText(now));
    return Ok();
  }

  void ExamineProxy() {
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
    const Result<net::Endpoint> endpoint = EndpointOf(settings_.config, *identity_);
    if (!endpoint.has_value()) return Ill("name", endpoint.error());
    const Result<std::string> population = PopulationOf(settings_.config, *identity_);
    if (!population.has_value()) return Ill("name", population.error());
    if (Status fit = net::CheckReachable(*endpoint); !fit.has_value()) {
      return Ill("name", std::move(fit).error());
    }
    if (Status own = CheckCertificate(*identity_, loop_.Clock().wall); !own.has_value()) {
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
                 .limits = settings_.limits},
                Greeting(), !holder_);
    loop_.Run();
    return JudgeVisit(visit, *endpoint, *population);
  }

  [[nodiscard]] wire::Hello Greeting() const {
    wire::Hello hello;
    hello.major = wire::kMajor;
    hello.minor = wire::kMinor;
    hello.min_minor = wire::kMinor;
    hello.software = settings_.software;
    hello.clock_ms = loop_.Clock().wall;
    return hello;
  }

  Status JudgeVisit(const Visit& visit, const net::Endpoint& endpoint,
                    const std::string& population) {
    if (visit.failure() && !visit.is_open()) {
      const Error& why = *visit.failure();
      if (why.code == 3002) return Ill("name", why);
      Well("name", endpoint.host);
      if (!IsTrustFailure(why.code)) return Ill("tcp", why);
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

  Status ExamineData() {
    const ClientNumber number = state_.memory.client.value_or(0);
    const Result<LocalData> local = LoadLocalData(settings_.config, number, std::nullopt);
    if (!local.has_value()) return Ill("data", local.error());
    const client::LocalData& rows = local->rows;
    std::string text =
        fmt::format("{} examples to train on, {} held out", rows.train.size(), rows.test.size());
    if (!settings_.config.experiment.empty() && !settings_.config.part) {
      text += state_.memory.client ? fmt::format(", part {}", number)
                                   : ", of part 0: the own number comes with the first task";
    }
    for (const std::string& note : local->notes) text += "; " + note;
    Well("data", std::move(text));
    ExamineTraffic(local->expected);
    return Ok();
  }

  // A limit that ends the day's work early is no fault, but one wants to know before.
  void ExamineTraffic(const std::optional<ExpectedWork>& expected) {
    const std::uint64_t limit = settings_.config.limits.bytes_per_day;
    DayTraffic today = state_.today;
    today.TurnTo(loop_.Clock().wall);
    const std::uint64_t left = limit - std::min(limit, today.total());
    std::string text = AmountText(today.total()) + " of " + AmountText(limit) + " used today";
    const std::optional<std::uint64_t> task = BytesOfTask(expected);
    if (task) {
      text += fmt::format("; a task takes about {}, which leaves {} today", AmountText(*task),
                          left / *task);
    }
    const double all = expected && task ? expected->tasks * static_cast<double>(*task) : 0;
    if (all > static_cast<double>(left)) {
      text = fmt::format(
          "warning: {}; the experiment has about {:.0f} for each client ({}): raise "
          "limits.bytes_per_day, or the rest waits for the next day",
          text, std::max(1.0, expected->tasks), AmountText(static_cast<std::uint64_t>(all)));
    }
    Well("traffic", std::move(text));
  }

  // Down and up: as the last one was, or as the experiment's model is.
  [[nodiscard]] std::optional<std::uint64_t> BytesOfTask(
      const std::optional<ExpectedWork>& expected) const {
    if (expected && expected->model_bytes > 0) return 2 * expected->model_bytes;
    for (const HistoryEntry& entry : ReadHistory(*storage_, 1)) {
      if (entry.outcome == "contributed" && entry.up + entry.down > 0) return entry.up + entry.down;
    }
    return std::nullopt;
  }

  Status ExamineDevice() {
    Result<std::string> device = FindDevice(settings_.config);
    if (!device.has_value()) return Ill("device", std::move(device).error());
    Well("device", "trains on " + *device);
    return Ok();
  }

  Status ExamineEligibility() {
    const Conditions conditions = ProbeConditions();
    Status fit = CheckEligible(EligibilityOf(settings_.config), conditions);
    if (!fit.has_value()) return Ill("eligibility", std::move(fit).error());
    Well("eligibility", ConditionsText(conditions));
    return Ok();
  }

  const DoctorSettings& settings_;
  Loop& loop_;
  const std::function<void(const Step&)>& tell_;
  std::optional<Storage> storage_;
  std::optional<Identity> identity_;
  State state_;
  std::optional<int> holder_;  // a process that works in the folder
};

}  // namespace

Status Examine(const DoctorSettings& settings, Loop& loop,
               const std::function<void(const Step&)>& tell) {
  return Doctor(settings, loop, tell).Examine();
}

}  // namespace skep::agent
