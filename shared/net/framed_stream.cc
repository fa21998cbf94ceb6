#include "shared/net/framed_stream.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/try.h"

namespace skep::net {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;
// NOLINTNEXTLINE(google-build-using-namespace): the only way to get ||
using namespace asio::experimental::awaitable_operators;

constexpr auto kToTuple = asio::as_tuple(asio::use_awaitable);
constexpr unsigned kUserTimeoutMs = 20'000;
constexpr std::size_t kMostDiscarded = 64 * 1024;
constexpr Milliseconds kAlertLinger{1000};
constexpr std::size_t kBulkFrames = 2;
constexpr std::size_t kFramesPerWrite = 8;
constexpr std::uint32_t kKeyUpdatesPerMinute = 16;

void SetOptions(tcp::socket& socket) {
  // Advice to the kernel: a connection without them is slower to notice a dead peer, not wrong.
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const unsigned timeout = kUserTimeoutMs;
  static_cast<void>(
      setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout)));
}

std::string AddressOf(const tcp::socket& socket) {
  error_code failure;
  const auto endpoint = socket.remote_endpoint(failure);
  return failure ? "unknown address" : endpoint.address().to_string();
}

Error Stopped() {
  return Error{3001, "connection closed on this side", ""};
}

// A cancellation that comes between two operations meets nothing to cancel: who begins to wait asks
// first.
awaitable<bool> IsCancelled() {
  const auto state = co_await asio::this_coro::cancellation_state;
  co_return state.cancelled() != asio::cancellation_type::none;
}

// A frame in the queue; `is_bulk` says which of the two bounds it counts against.
struct Queued {
  OutgoingFrame frame;
  bool is_bulk;
};

}  // namespace

Deadline Deadline::In(Milliseconds span, int number) {
  return Deadline(ReadClock().steady + span, number);
}

struct FramedStream::State {
  State(tcp::socket socket, TlsContext::Shared tls, SSL* connection, std::size_t bound)
      : context(std::move(tls)),
        address(AddressOf(socket)),
        stream(std::move(socket), connection),
        read_timer(stream.get_executor()),
        wake_writer(stream.get_executor()),
        room(stream.get_executor()),
        drained(stream.get_executor()),
        send_queue(bound) {
    WatchKeyUpdates(connection, [this] { CountKeyUpdate(); });
  }

  TlsContext::Shared context;  // before the stream: the connection uses its rules
  std::string address;
  asio::ssl::stream<tcp::socket> stream;
  asio::steady_timer read_timer;
  // These three wait without an end and are woken by cancel(): conditions of one executor.
  asio::steady_timer wake_writer;
  asio::steady_timer room;
  asio::steady_timer drained;

  std::deque<Queued> queue;
  std::size_t send_queue;
  std::size_t queued = 0;       // bytes of Send's frames, in the queue or being written
  std::size_t bulk_frames = 0;  // SendBulk's, likewise
  bool is_finishing = false;
  bool is_writing = false;  // RunWriter runs
  bool is_waiting_for_room = false;
  bool has_stopped_reading = false;

  std::optional<Error> fault;
  std::optional<Error> write_fault;
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::uint32_t key_updates = 0;  // since the minute began
  SteadyTime minute_began{};

  [[nodiscard]] SSL* tls() { return stream.native_handle(); }
  void CloseSocket() {
    error_code ignored;
    stream.lowest_layer().close(ignored);
  }
  void Fail(Error why) {
    if (!fault) fault = std::move(why);
    CloseSocket();
    wake_writer.cancel();
    room.cancel();
    drained.cancel();
  }
  // Also while the writer has not come to its first step.
  [[nodiscard]] bool IsBusyWriting() const { return is_writing || !queue.empty(); }
  void Release(const std::vector<Queued>& written);
  [[nodiscard]] std::vector<Queued> TakeBatch();
  [[nodiscard]] Error Explain(const error_code& failure);
  void CountKeyUpdate();
  awaitable<void> Discard();
  awaitable<void> LingerAfterAlert();
  awaitable<Status> ShakeHands(asio::ssl::stream_base::handshake_type role, Deadline deadline);
};

Error FramedStream::State::Explain(const error_code& failure) {
  if (failure.category() == asio::error::get_ssl_category()) {
    return ExplainTls(tls(), static_cast<unsigned long>(static_cast<unsigned>(failure.value())));
  }
  if (const auto refusal = RefusalOn(tls())) return *refusal;
  if (failure == asio::ssl::error::stream_truncated || failure == asio::error::eof) {
    return Error{3001, "connection broke: the peer ended it without close_notify", ""};
  }
  if (failure == asio::error::operation_aborted || failure == asio::error::bad_descriptor) {
    return Stopped();
  }
  return Error{3001, "connection broke: " + failure.message(), ""};
}

void FramedStream::State::CountKeyUpdate() {
  const SteadyTime now = ReadClock().steady;
  if (key_updates == 0 || now - minute_began > std::chrono::minutes(1)) {
    minute_began = now;
    key_updates = 0;
  }
  if (++key_updates <= kKeyUpdatesPerMinute) return;
  Fail(Error{3335, "too many messages: more than 16 TLS key updates in a minute", ""});
}

// Closing with unread bytes would make the kernel send a reset, which overtakes what the peer has
// still to read.
awaitable<void> FramedStream::State::Discard() {
  error_code ignored;
  stream.next_layer().shutdown(tcp::socket::shutdown_send, ignored);
  std::array<std::uint8_t, 4096> sink{};
  std::size_t discarded = 0;
  while (discarded < kMostDiscarded) {
    const auto buffer = asio::buffer(sink);
    auto winner = co_await (stream.next_layer().async_read_some(buffer, kToTuple) ||
                            read_timer.async_wait(kToTuple));
    if (winner.index() != 0) break;
    const auto& result = std::get<0>(winner);
    if (std::get<0>(result)) break;
    discarded += std::get<1>(result);
  }
  CloseSocket();
}

awaitable<void> FramedStream::State::LingerAfterAlert() {
  read_timer.expires_after(kAlertLinger);
  co_await Discard();
}

awaitable<Status> FramedStream::State::ShakeHands(asio::ssl::stream_base::handshake_type role,
                                                  Deadline deadline) {
  const bool is_cancelled = co_await IsCancelled();
  if (is_cancelled) Fail(Stopped());
  if (fault) co_return *fault;
  read_timer.expires_at(deadline.at);
  auto winner =
      co_await (stream.async_handshake(role, kToTuple) || read_timer.async_wait(kToTuple));
  if (fault) co_return *fault;
  if (winner.index() != 0) {
    const bool is_late = !std::get<0>(std::get<1>(winner));
    Fail(is_late ? Error{deadline.code, "handshake not completed in time", ""} : Stopped());
    co_return *fault;
  }
  const error_code failure = std::get<0>(std::get<0>(winner));
  Status agreed = Ok();
  if (failure) {
    agreed = Explain(failure);
  } else {
    agreed = CheckAgreed(tls());
  }
  if (agreed.has_value()) co_return Ok();
  co_await LingerAfterAlert();
  Fail(std::move(agreed).error());
  co_return *fault;
}

FramedStream::FramedStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
FramedStream::~FramedStream() = default;

Result<FramedStream::Owner> FramedStream::Accept(tcp::socket socket, TlsContext::Shared context,
                                                 std::size_t send_queue) {
  SKEP_CHECK(context->is_server());
  SetOptions(socket);
  SKEP_ASSIGN(auto connection, context->NewConnection());
  auto state =
      std::make_unique<State>(std::move(socket), std::move(context), connection.get(), send_queue);
  static_cast<void>(connection.release());
  return Owner(new FramedStream(std::move(state)));
}

awaitable<Status> FramedStream::Handshake(Deadline deadline) {
  return state_->ShakeHands(asio::ssl::stream_base::server, deadline);
}

awaitable<Result<std::size_t>> FramedStream::ReadSome(std::span<std::uint8_t> into,
                                                      Deadline deadline) {
  State& state = *state_;
  SKEP_CHECK(!into.empty());
  const bool is_cancelled = co_await IsCancelled();
  if (is_cancelled) state.Fail(Stopped());
  if (state.fault) co_return *state.fault;
  if (state.has_stopped_reading) co_return Stopped();
  state.read_timer.expires_at(deadline.at);
  const auto buffer = asio::buffer(into.data(), into.size());
  auto winner = co_await (state.stream.async_read_some(buffer, kToTuple) ||
                          state.read_timer.async_wait(kToTuple));
  if (state.fault) co_return *state.fault;
  if (winner.index() != 0 && state.has_stopped_reading) co_return Stopped();
  if (winner.index() != 0) {
    // A cancelled task sees both operations aborted, in either order.
    const bool is_late = !std::get<0>(std::get<1>(winner));
    state.Fail(is_late ? Error{deadline.code, "the peer did not send in time", ""} : Stopped());
    co_return *state.fault;
  }
  const auto& result = std::get<0>(winner);
  const error_code failure = std::get<0>(result);
  if (failure == asio::error::eof) co_return std::size_t{0};
  if (failure) {
    state.Fail(state.Explain(failure));
    co_return *state.fault;
  }
  const std::size_t count = std::get<1>(result);
  state.received += count;
  co_return count;
}

void FramedStream::StopReading() {
  state_->has_stopped_reading = true;
  state_->read_timer.cancel();
}

Status FramedStream::Send(Bytes frame) {
  State& state = *state_;
  SKEP_CHECK(!state.is_finishing);
  if (state.fault) return *state.fault;
  if (state.write_fault) return *state.write_fault;
  if (state.queued + frame.size() > state.send_queue) {
    return Error{3338, "peer does not read: " + std::to_string(state.queued) + " bytes wait", ""};
  }
  state.queued += frame.size();
  state.queue.push_back(Queued{OutgoingFrame(std::move(frame)), false});
  state.wake_writer.cancel();
  return Ok();
}

awaitable<Status> FramedStream::SendBulk(OutgoingFrame frame, Deadline deadline) {
  State& state = *state_;
  SKEP_CHECK(!state.is_waiting_for_room && !state.is_finishing);
  state.is_waiting_for_room = true;
  bool is_late = false;
  while (!state.fault && !state.write_fault && !is_late && state.bulk_frames >= kBulkFrames) {
    state.room.expires_at(deadline.at);
    [[maybe_unused]] const auto woken = co_await state.room.async_wait(kToTuple);
    is_late = ReadClock().steady >= deadline.at;
    const bool is_cancelled = co_await IsCancelled();
    if (is_cancelled) state.Fail(Stopped());
  }
  state.is_waiting_for_room = false;
  if (state.fault) co_return *state.fault;
  if (state.write_fault) co_return *state.write_fault;
  if (state.bulk_frames >= kBulkFrames) {
    co_return Error{deadline.code, "the peer did not read in time", ""};
  }
  ++state.bulk_frames;
  state.queue.push_back(Queued{std::move(frame), true});
  state.wake_writer.cancel();
  co_return Ok();
}

std::vector<Queued> FramedStream::State::TakeBatch() {
  std::vector<Queued> batch;
  while (!queue.empty() && batch.size() < kFramesPerWrite) {
    batch.push_back(std::move(queue.front()));
    queue.pop_front();
  }
  return batch;
}

void FramedStream::State::Release(const std::vector<Queued>& written) {
  for (const Queued& entry : written) {
    if (entry.is_bulk) {
      --bulk_frames;
    } else {
      queued -= entry.frame.head.size();
    }
  }
  room.cancel();
}

awaitable<Status> FramedStream::RunWriter() {
  State& state = *state_;
  state.is_writing = true;
  while (!state.fault && !state.write_fault) {
    if (state.queue.empty()) {
      if (state.is_finishing) break;
      state.wake_writer.expires_at(SteadyTime::max());
      [[maybe_unused]] const auto woken = co_await state.wake_writer.async_wait(kToTuple);
      const bool is_cancelled = co_await IsCancelled();
      if (is_cancelled) state.Fail(Stopped());
      continue;
    }
    // Together, so that small frames share a TLS record.
    const std::vector<Queued> batch = state.TakeBatch();
    std::vector<asio::const_buffer> buffers;
    for (const Queued& entry : batch) {
      buffers.emplace_back(entry.frame.head.data(), entry.frame.head.size());
      buffers.emplace_back(entry.frame.body.data(), entry.frame.body.size());
    }
    const auto [failure, count] = co_await asio::async_write(state.stream, buffers, kToTuple);
    state.sent += count;
    state.Release(batch);
    // Not the end of reading: the alert that says why may still be on its way.
    if (failure) state.write_fault = state.Explain(failure);
  }
  state.is_writing = false;
  state.room.cancel();
  state.drained.cancel();
  if (state.fault) co_return *state.fault;
  if (state.write_fault) co_return *state.write_fault;
  co_return Ok();
}

void FramedStream::FinishSending() {
  state_->is_finishing = true;
  state_->wake_writer.cancel();
}

std::size_t FramedStream::queued_bytes() const {
  return state_->queued;
}

awaitable<void> FramedStream::Close(Milliseconds linger) {
  State& state = *state_;
  FinishSending();
  const SteadyTime until = ReadClock().steady + linger;
  while (state.IsBusyWriting() && !state.fault && ReadClock().steady < until) {
    state.drained.expires_at(until);
    [[maybe_unused]] const auto woken = co_await state.drained.async_wait(kToTuple);
  }
  if (!state.fault && !state.write_fault && !state.IsBusyWriting()) {
    state.read_timer.expires_at(until);
    [[maybe_unused]] const auto shut =
        co_await (state.stream.async_shutdown(kToTuple) || state.read_timer.async_wait(kToTuple));
    state.read_timer.expires_at(until);
    co_await state.Discard();
  }
  state.Fail(Stopped());
}

void FramedStream::Abort(Error why) {
  state_->Fail(std::move(why));
}

std::optional<crypto::DeviceIdentity> FramedStream::device() const {
  return DeviceOn(state_->tls());
}
std::optional<crypto::Certificate> FramedStream::peer_certificate() const {
  return PeerCertificate(state_->tls());
}
const std::string& FramedStream::peer_address() const {
  return state_->address;
}
std::uint64_t FramedStream::bytes_received() const {
  return state_->received;
}
std::uint64_t FramedStream::bytes_sent() const {
  return state_->sent;
}

awaitable<Result<FramedStream::Owner>> FramedStream::Connect(Endpoint endpoint,
                                                             TlsContext::Shared context,
                                                             ConnectLimits limits,
                                                             std::size_t send_queue) {
  SKEP_CHECK(!context->is_server());
  SKEP_CO_ASSIGN(tcp::socket socket, co_await ConnectTcp(endpoint, limits));
  SetOptions(socket);
  SKEP_CO_ASSIGN(auto connection, context->NewConnection());
  auto state =
      std::make_unique<State>(std::move(socket), std::move(context), connection.get(), send_queue);
  static_cast<void>(connection.release());
  Owner stream(new FramedStream(std::move(state)));
  const Deadline deadline = Deadline::In(limits.handshake, 3326);
  Status shaken = co_await stream->state_->ShakeHands(asio::ssl::stream_base::client, deadline);
  if (shaken.has_value()) co_return std::move(stream);
  Error why = std::move(shaken).error();
  // A connection that broke or stalled is unreachable; trust keeps its own number.
  if (why.code == 3326) why.code = 3001;
  if (why.code != 3001) co_return why;
  std::string place = "cannot reach " + EndpointText(endpoint);
  if (limits.proxy) place += " by way of the proxy " + EndpointText(*limits.proxy);
  co_return std::move(why).Within(place);
}

}  // namespace skep::net
