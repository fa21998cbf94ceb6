#include "client/agent/agent.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "client/agent/renewal.h"
#include "client/agent/settings.h"
#include "client/agent/signals_blocked.h"
#include "client/agent/work.h"
#include "crypto/signature.h"
#include "shared/base/amounts.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

constexpr Nanoseconds kLongestRest = std::chrono::hours(7 * 24);
constexpr Nanoseconds kNotEligiblePause = std::chrono::seconds(60);
// How long open connections may take to say what they have to say.
constexpr Milliseconds kGoodbye{1500};
constexpr Milliseconds kShortGoodbye{50};
constexpr const char* kNoMemory = "no memory left";
constexpr int kMostTroubles = 1000;  // then it is not short of memory but without
constexpr WallMs kDayMs = WallMs{24} * 3600 * 1000;

// A model goes to the file of its part in steps of this size, and with what is there when its
// connection is lost.
constexpr std::size_t kKeepEvery = std::size_t{1} << 20U;

// What a model costs in memory while it is trained: received, trained, difference, update,
// momentum.
constexpr std::uint64_t kCopiesOfModel = 5;

client::SessionConfig MakeSessionConfig(const AgentSettings& settings, const Identity& identity,
                                        const State& state,
                                        std::optional<client::PendingUpdate> pending) {
  client::SessionConfig config;
  config.population = settings.population;
  config.federation = identity.federation;
  config.max_model_bytes = settings.caps.memory / kCopiesOfModel;
  config.max_update_bytes = std::min(config.max_model_bytes, settings.caps.storage / 2);
  config.pending = std::move(pending);
  config.memory = state.memory;
  config.once = settings.once;
  return config;
}

}  // namespace

Agent::Agent(AgentSettings settings, Storage& storage, Identity& identity, State& state, Loop& loop,
             Host& host, Log& log)
    : settings_(std::move(settings)),
      storage_(storage),
      identity_(identity),
      state_(state),
      loop_(loop),
      host_(host),
      log_(log),
      cache_(storage, settings_.caps.storage / 2),
      device_(identity, cache_, [&loop] { return loop.Clock().wall; }) {}

Agent::~Agent() {
  if (network_.joinable()) network_.join();
}

Outcome Agent::Run() {
  try {
    const SignalsBlocked blocked;  // the application's signals go to its own threads
    network_ = std::thread([this] { RunLoop(); });
  } catch (const std::system_error&) {
    return {.code = 9002, .why = "the system has no thread to give"};
  }
  while (!RunCaller()) continue;
  host_.Rest();
  if (!outcome_) return {.code = 9002, .why = kNoMemory};
  return *outcome_;
}

// False: memory is short, and what was to be done is not.
bool Agent::RunCaller() {
  try {
    if (is_short_of_memory_) Cancel();
    caller_.Run();
    return true;
  } catch (const std::bad_alloc&) {
    is_short_of_memory_ = true;
    return false;
  }
}

// The agent's thread. Without memory it ends as soon as it can; the application lives on.
void Agent::RunLoop() {
  bool has_begun = false;
  for (int troubles = 0; troubles < kMostTroubles; ++troubles) {
    try {
      if (troubles > 0) Conclude(9002, kNoMemory);
      if (!std::exchange(has_begun, true)) Begin();
      loop_.Run();
      break;
    } catch (const std::bad_alloc&) {
      continue;
    }
  }
  caller_.Close();
}

void Agent::Cancel() {
  loop_.Post([this] {
    if (outcome_) return;
    was_cancelled_ = true;
    Feed(client::Stop{});
    Conclude(7407, "cancelled");  // where the session was not made yet
  });
}

void Agent::Begin() {
  // A client number belongs to one population.
  if (state_.population != settings_.population) state_.memory.client.reset();
  state_.population = settings_.population;
  if (const Status tls = MakeTls(); !tls.has_value()) {
    return Conclude(tls.error().code, tls.error().message);
  }
  renews_at_ = RenewsAt(identity_);
  Result<Recovered> recovered = RecoverUpdate(storage_);
  if (!recovered.has_value()) {
    return Conclude(recovered.error().code, recovered.error().message);
  }
  for (const std::string& folder : recovered->damaged) {
    log_.Warning(4010, folder + " was damaged and is removed: its task is over or comes again");
  }
  session_.emplace(MakeSessionConfig(settings_, identity_, state_, std::move(recovered->pending)),
                   device_);
  const auto history = ReadHistory(storage_, 1);
  if (!history.empty()) last_work_ = history.front().time;
  const Now now = loop_.Clock();
  if (settings_.budget) {
    deadline_ = now.steady + *settings_.budget;
    loop_.After(*settings_.budget, [this] {
      is_late_ = true;
      Feed(client::Stop{});
    });
  }
  // A clock that was set back must not make it wait longer than any window lasts.
  const WallMs early = std::max(state_.memory.next_check_in, now.wall) - now.wall;
  const Nanoseconds wait =
      std::min<Nanoseconds>(Milliseconds(std::min<WallMs>(early, 8 * kDayMs)), kLongestRest);
  if (wait == Nanoseconds{}) return Connect();
  if (settings_.once) {
    const std::string next = "the next check-in is in " + SpanText(wait) + ", at " +
                             UtcText(now.wall + early) + " (told by the aggregator)";
    log_.Info("nothing done: " + next + "; `run` without --once waits for it");
    so_far_.retry_after = wait;
    return Conclude(0, next);
  }
  log_.Info("next check-in in " + SpanText(wait) + " (told by the aggregator)");
  loop_.After(wait, [this] { Connect(); });
}

Status Agent::MakeTls() {
  SKEP_ASSIGN(tls_, net::TlsContext::ForDevice(identity_.own, {.authority = identity_.server_ca,
                                                               .pin = std::nullopt,
                                                               .host = settings_.endpoint.host,
                                                               .judged_at = std::nullopt}));
  return Ok();
}

Status Agent::CheckBeforeConnecting(const Conditions& conditions) const {
  const WallMs now = loop_.Clock().wall;
  SKEP_TRY(CheckClock(now));
  SKEP_TRY(CheckCertificate(identity_, now));
  SKEP_TRY(CheckEligible(settings_.eligibility, conditions));
  return CheckDayTraffic(state_.today, 1, settings_.caps.bytes_per_day, now);
}

void Agent::Connect() {
  if (outcome_ || link_ != nullptr) return;
  Look([this](const Conditions& conditions) { ConnectIn(conditions); });
}

void Agent::ConnectIn(const Conditions& conditions) {
  if (outcome_ || link_ != nullptr) return;
  if (const Status fit = CheckBeforeConnecting(conditions); !fit.has_value()) {
    const bool is_of_device = fit.error().code >= 7000;
    return is_of_device ? Postpone(fit.error()) : OnClosed(fit.error());
  }
  link_ = std::make_unique<Link>(loop_,
                                 LinkSetup{.endpoint = settings_.endpoint,
                                           .tls = tls_,
                                           .role = wire::Role::kClient,
                                           .limits = settings_.limits,
                                           .proxy = settings_.proxy},
                                 *this);
  TellProgress();
}

// How long the device itself wants to stay away.
Nanoseconds Agent::RestAfter(const Error& why) const {
  const WallMs now = loop_.Clock().wall;
  if (why.code == 7408) return Milliseconds(EndOfDay(now) - now);
  return std::max(kNotEligiblePause, settings_.caps.between_runs);
}

// The device itself has a reason to stay away; the session knows nothing of it.
void Agent::Postpone(const Error& why) {
  const Nanoseconds wait = RestAfter(why);
  if (settings_.once) {
    so_far_.retry_after = wait;
    return Conclude(why.code, why.message);
  }
  TellOutcome(why.code, why.message, wait);
  if (const auto line = reach_.Failed(loop_.Clock().steady, why, wait)) log_.Info(*line);
  loop_.After(wait, [this] { Connect(); });
}

void Agent::OnOpen() {
  wire::Hello hello;
  hello.major = wire::kMajor;
  hello.minor = wire::kMinor;
  hello.min_minor = wire::kMinor;
  hello.software = settings_.software;
  hello.clock_ms = loop_.Clock().wall;
  for (const PinnedKey& pinned : identity_.signing_keys) {
    if (hello.known_key_ids.size() == 4) break;
    hello.known_key_ids.push_back(crypto::KeyIdOf(pinned.key));
  }
  link_->Send(hello);
}

void Agent::OnFirst(const wire::Message& message) {
  if (const auto* ack = std::get_if<wire::HelloAck>(&message)) return OnHello(*ack);
  if (const auto* error = std::get_if<wire::PeerError>(&message)) {
    return CutOff(Error{static_cast<int>(error->code),
                        "the aggregator reports: " + EscapePeerText(error->text), ""});
  }
  CutOff(Error{3302, "the aggregator did not answer Hello", ""});
}

void Agent::OnHello(const wire::HelloAck& ack) {
  if (ack.minor > wire::kMinor) {
    return CutOff(Error{3312, "the aggregator speaks a newer version", "use a newer skep-client"});
  }
  if (ack.chunk_bytes < wire::kSmallestChunkBytes || ack.chunk_bytes > wire::kLargestChunkBytes) {
    return CutOff(Error{3208, "the aggregator's chunk size is out of range", ""});
  }
  is_attached_ = true;
  was_attached_ = true;
  failed_in_a_row_ = 0;
  if (reach_.tries() > 0) log_.Info("connected again");
  reach_.Succeeded();
  ack_ = ack;
  if (deadline_) {
    const auto rest = std::chrono::duration_cast<Milliseconds>(*deadline_ - loop_.Clock().steady);
    const auto most =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(rest.count(), 0, ack_.max_hold_ms));
    ack_.max_hold_ms = most;
  }
  link_->SetChunkBytes(ack_.chunk_bytes);
  link_->SetSilence(Milliseconds(std::uint64_t{ack_.ping_interval_ms} * 5 / 2));
  log_.Write({.level = LogLevel::kDebug,
              .event = "session.open",
              .message = "connected to " + net::EndpointText(settings_.endpoint)});
  Renew(ack_.renew_now);
  Feed(client::Connected{ack_});
}

// Beside whatever the session does; a refusal is asked again after a quarter of the lifetime.
void Agent::Renew(bool is_asked) {
  const WallMs now = loop_.Clock().wall;
  if (!is_asked && now < renews_at_) return;
  const crypto::Certificate& own = identity_.own.certificate;
  renews_at_ = now + (own.NotAfter() - own.NotBefore()) / 4;
  const Result<wire::RenewRequest> request = BeginRenewal(storage_);
  if (!request.has_value()) return log_.Failure(request.error().code, request.error().message);
  link_->Send(*request);
}

bool Agent::IsAboutRenewal(const wire::Message& message) {
  if (const auto* issued = std::get_if<wire::RenewResult>(&message)) {
    OnRenewed(*issued);
    return true;
  }
  const auto* error = std::get_if<wire::PeerError>(&message);
  const auto request = static_cast<std::uint32_t>(wire::MessageId::kRenewRequest);
  if (error == nullptr || error->in_reply_to != request) return false;
  log_.Warning(static_cast<int>(error->code),
               "the certificate was not renewed: " + EscapePeerText(error->text));
  return true;
}

void Agent::OnRenewed(const wire::RenewResult& issued) {
  Status renewed = FinishRenewal(storage_, identity_, issued);
  if (renewed.has_value()) renewed = MakeTls();
  if (!renewed.has_value()) return log_.Failure(renewed.error().code, renewed.error().message);
  renews_at_ = RenewsAt(identity_);
  const WallMs end = identity_.own.certificate.NotAfter();
  log_.Info("certificate renewed, it ends in " +
            SpanText(Milliseconds(end - std::min(end, loop_.Clock().wall))));
}

void Agent::OnMessage(wire::Message message) {
  if (!is_attached_) return OnFirst(message);
  if (const auto* ping = std::get_if<wire::Ping>(&message)) {
    return link_->Send(wire::Pong{ping->nonce});
  }
  // Nothing overtakes the message that waits for data.
  if (!held_.empty()) {
    held_.push_back(std::move(message));
    return;
  }
  if (std::holds_alternative<wire::Pong>(message)) {
    return CutOff(Error{3306, "a Pong that nobody asked for", ""});
  }
  if (const auto* update = std::get_if<wire::SigningKeyUpdate>(&message)) {
    const Status pinned = PinKey(storage_, identity_, *update, loop_.Clock().wall);
    if (!pinned.has_value()) log_.Warning(pinned.error().code, pinned.error().message);
    return;
  }
  if (IsAboutRenewal(message)) return;
  if (AsksHost(message)) {
    held_.push_back(std::move(message));
    return;
  }
  Take(std::move(message));
}

// For the session.
void Agent::Take(wire::Message message) {
  const auto* begin = std::get_if<wire::DownloadBegin>(&message);
  const std::uint32_t begun = begin == nullptr ? 0 : begin->transfer_id;
  const bool has_no_work = std::holds_alternative<wire::ComeBack>(message);
  Feed(client::ServerMessage{std::move(message)});
  if (has_no_work && session_->state() == client::SessionState::kReady) Rest();
  if (begun != 0) DropUnwanted(begun);
  if (download_ && !outcome_ && session_->state() != client::SessionState::kDownloading) {
    const std::uint32_t transfer_id = download_->transfer_id;
    download_.reset();
    cache_.DropParts();
    DropUnwanted(transfer_id);
  }
}

// A download that nobody waits for any more: its round has closed meanwhile.
void Agent::DropUnwanted(std::uint32_t transfer_id) {
  const bool is_wanted = download_ && download_->transfer_id == transfer_id;
  if (is_wanted || link_ == nullptr) return;
  if (unwanted_.insert(transfer_id).second) link_->Send(wire::TransferCancel{transfer_id, 2212});
}

Status Agent::OnChunk(BytesView payload) {
  SKEP_ASSIGN(const wire::ChunkHeader header, wire::DecodeChunkHeader(payload));
  if (unwanted_.count(header.transfer_id) > 0) return Ok();
  if (!download_) return Error{3303, "a chunk of a download that was not asked for", ""};
  SKEP_ASSIGN(const wire::Chunk chunk, download_->receiver.Accept(payload));
  Append(download_->bytes, chunk.data);
  download_->hash.Update(chunk.data);
  const Now now = loop_.Clock();
  if (!download_->receiver.is_done()) {
    if (download_->bytes.size() - download_->kept >= kKeepEvery) KeepDownload();
    // A sign of life a second is enough.
    if (now.steady - download_->told < std::chrono::seconds(1)) return Ok();
    download_->told = now.steady;
    TellProgress(static_cast<double>(download_->bytes.size()) /
                 static_cast<double>(offered_.manifest.model_bytes));
    Feed(client::BodyProgress{download_->transfer_id});
    return Ok();
  }
  FinishDownload();
  return Ok();
}

void Agent::FinishDownload() {
  Download done = std::move(*download_);
  download_.reset();
  const client::Body model{std::make_shared<const Bytes>(std::move(done.bytes)),
                           done.hash.Finish()};
  if (model.sha256 == done.model) {
    cache_.Complete(model.sha256, *model.bytes);
    device_.Keep(model);
  }
  Feed(client::ModelArrived{done.transfer_id, model});
}

// The rest may come on another connection.
void Agent::KeepDownload() {
  if (!download_ || download_->bytes.size() == download_->kept) return;
  cache_.Append(download_->model, download_->kept,
                BytesView(download_->bytes).subspan(download_->kept));
  download_->kept = download_->bytes.size();
}

void Agent::OnBodySent(std::uint32_t transfer_id) {
  Feed(client::BodySent{transfer_id});
}

void Agent::CutOff(const Error& why) {
  CountTraffic();
  link_.reset();
  OnClosed(why);
}

void Agent::OnClosed(const Error& why) {
  CountTraffic();
  link_.reset();
  is_attached_ = false;
  KeepDownload();
  download_.reset();
  unwanted_.clear();
  held_.clear();
  if (outcome_) return;
  last_failure_ = why;
  Feed(client::Disconnected{why.code});
}

void Agent::Conclude(int code, std::string why) {
  if (!outcome_) {
    if (job_ != nullptr) job_->gate.Stop();
    CountTraffic();
    outcome_ = TakeOutcome(is_short_of_memory_ ? 9002 : code,
                           is_short_of_memory_ ? kNoMemory : std::move(why), so_far_.retry_after);
    KeepDownload();
    link_.reset();
    SaveNow();
  }
  // A name that is being looked up cannot be interrupted: nobody waits for it.
  const Milliseconds patience = was_cancelled_ ? kShortGoodbye : kGoodbye;
  link_.reset();
  loop_.Stop(patience);
  caller_.CloseBy(ReadClock().steady + patience);
}

Outcome Agent::TakeOutcome(int code, std::string why, Nanoseconds retry_after) {
  Outcome outcome = std::exchange(so_far_, {});
  outcome.code = code;
  outcome.why = std::move(why);
  // What was done says more than that there was something.
  std::string done = std::exchange(contribution_text_, {});
  if (outcome.has_contributed && code == 0) outcome.why = std::move(done);
  outcome.retry_after = retry_after;
  outcome.is_late = is_late_ && settings_.once;
  outcome.was_cancelled = was_cancelled_;
  return outcome;
}

}  // namespace skep::agent
