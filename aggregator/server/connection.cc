#include "aggregator/server/connection.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/try.h"
#include "shared/wire/codec.h"

namespace skep::aggregator {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using net::Awaitable;
using net::Deadline;

constexpr auto kToTuple = asio::as_tuple(asio::use_awaitable);
constexpr Milliseconds kLinger{1000};
constexpr Milliseconds kShortWait{20};
constexpr std::size_t kSmallBuffer = 2048;
constexpr std::size_t kLargeBuffer = 32'768;  // two TLS records
constexpr int kHandshakeTooSlow = 3326;
constexpr int kNoOpening = 3321;
constexpr int kTooSlow = 3325;
constexpr int kConnectionLost = 3001;
constexpr std::uint32_t kCapWaitMs = 10'000;
constexpr std::size_t kMemoryBeforeHello = 65'536;

Error Over(const char* how) {
  return Error{kConnectionLost, how, ""};
}

}  // namespace

bool HandshakeGate::TryEnter(const std::string& address) {
  if (inside_ >= in_all_) return false;
  std::uint32_t& of_address = by_address_[address];
  if (of_address >= per_address_) return false;
  ++of_address;
  ++inside_;
  return true;
}

void HandshakeGate::Leave(const std::string& address) {
  --inside_;
  const auto entry = by_address_.find(address);
  if (--entry->second == 0) by_address_.erase(entry);
  for (asio::steady_timer* timer : waiting) timer->cancel();
}

Connection::Connection(ConnectionContext& context, tcp::socket socket, net::TlsContext::Shared tls,
                       std::string address)
    : context_(context),
      timer_(socket.get_executor()),
      address_(std::move(address)),
      socket_(std::move(socket)),
      tls_(std::move(tls)),
      tasks_(timer_.get_executor()) {}

void Connection::AbortNow(Error why) {
  is_aborted_ = true;
  timer_.cancel();
  if (stream_) stream_->Abort(std::move(why));
}

Awaitable<Status> Connection::Open() {
  const SteadyTime until = ReadClock().steady + context_.rules.handshake_deadline;
  while (!is_aborted_ && !context_.gate.TryEnter(address_)) {
    if (ReadClock().steady >= until) {
      co_return Error{kHandshakeTooSlow, "too many handshakes: this one never began", ""};
    }
    context_.gate.waiting.push_back(&timer_);
    const auto place = std::prev(context_.gate.waiting.end());
    timer_.expires_at(until);
    [[maybe_unused]] const auto woken = co_await timer_.async_wait(kToTuple);
    context_.gate.waiting.erase(place);
  }
  if (is_aborted_) co_return Over("closed before its handshake");
  auto made =
      net::FramedStream::Accept(std::move(*socket_), std::move(tls_), context_.rules.send_queue);
  socket_.reset();
  if (!made.has_value()) {
    context_.gate.Leave(address_);
    co_return made.error();
  }
  stream_ = std::move(made).value();
  const Deadline deadline(until, kHandshakeTooSlow);
  Status shaken = co_await stream_->Handshake(deadline);
  context_.gate.Leave(address_);
  if (shaken.has_value()) tasks_.Spawn(stream_->RunWriter(), nullptr, nullptr);
  co_return shaken;
}

void Connection::Tell(int code, wire::MessageId in_reply_to) {
  const bool is_cap = code == 3331 || code == 3332;
  const Status queued =
      stream_->Send(wire::EncodeFrame(ErrorMessage(code, in_reply_to, is_cap ? kCapWaitMs : 0)));
  if (!queued.has_value()) stream_->Abort(queued.error());
}

// What is queued goes out, then both sides know that it was the end.
Awaitable<void> Connection::CloseInOrder() {
  co_await stream_->Close(kLinger);
  co_await tasks_.Stop(kLinger);
}

Awaitable<bool> Connection::WaitABit() {
  timer_.expires_after(kShortWait);
  [[maybe_unused]] const auto woken = co_await timer_.async_wait(kToTuple);
  co_return !is_aborted_;
}

namespace {

class DeviceConnection final : public Connection, public Link {
 public:
  DeviceConnection(ConnectionContext& context, tcp::socket socket, net::TlsContext::Shared tls,
                   std::string address)
      : Connection(context, std::move(socket), std::move(tls), std::move(address)),
        memory_(context.rules.connection_memory, &context.memory),
        decoder_(wire::Role::kDeviceListener, memory_) {
    decoder_.SetChunkBytes(context.rules.chunk_bytes);
  }

  Awaitable<Status> Serve() override;

  // Link.
  Status Send(Bytes frame) override { return stream_->Send(std::move(frame)); }
  void SendModel(const wire::Transfer& transfer, ModelBytes model) override;
  void StopModel(std::uint32_t transfer_id) override;
  void Close() override;
  void Abort(Error why) override { AbortNow(std::move(why)); }

 private:
  struct Model {
    wire::Transfer transfer;
    ModelBytes bytes;
    bool is_stopped = false;
  };

  Awaitable<Status> Read();
  Awaitable<bool> TakeFrames(BytesView input);
  Awaitable<bool> WaitForRoom();
  Awaitable<Status> SendModels();
  Awaitable<Status> SendOne(std::shared_ptr<Model> model);

  wire::CountingBudget memory_;
  wire::FrameDecoder decoder_;
  LinkUser* user_ = nullptr;
  bool is_closing_ = false;
  Bytes buffer_;
  std::deque<std::shared_ptr<Model>> models_;  // the first is on its way
};

Awaitable<Status> DeviceConnection::Serve() {
  Status opened = co_await Open();
  if (!opened.has_value()) co_return opened;
  const int cap = context_.cap_of(address_);
  const auto device = stream_->device();
  auto certificate = stream_->peer_certificate();
  Status ended = Ok();
  if (cap != 0 || !device || !certificate) {
    Tell(cap != 0 ? cap : 3107, wire::MessageId{});
    ended = Error{cap, "connection beyond a cap", ""};
  } else {
    user_ =
        &context_.user.OnDevice(*this, Visitor{device->device, std::move(*certificate), address_});
    ended = co_await Read();
    LinkUser* user = std::exchange(user_, nullptr);
    user->OnEnded(ended.has_value() ? Over("the peer closed") : ended.error());
    for (const auto& model : models_) model->is_stopped = true;
  }
  // A model on its way to a peer that does not read must not keep the end from coming.
  if (!models_.empty()) {
    const SteadyTime until = ReadClock().steady + kLinger;
    while (!models_.empty() && !is_aborted_ && ReadClock().steady < until) {
      [[maybe_unused]] const bool goes_on = co_await WaitABit();
    }
    if (!models_.empty()) stream_->Abort(Over("closed while a model was on its way"));
  }
  co_await CloseInOrder();
  co_return ended;
}

Awaitable<Status> DeviceConnection::Read() {
  buffer_.resize(kSmallBuffer);
  const Deadline never(SteadyTime::max(), kConnectionLost);
  while (!is_closing_) {
    if (context_.user.IsCongested()) {
      const bool goes_on = co_await WaitForRoom();
      if (!goes_on) break;
    }
    if (is_closing_) break;
    const std::span<std::uint8_t> into(buffer_);
    const auto count = co_await stream_->ReadSome(into, never);
    if (is_closing_) break;
    if (!count.has_value()) co_return count.error();
    if (*count == 0) co_return Ok();
    const bool goes_on = co_await TakeFrames(BytesView(buffer_.data(), *count));
    if (!goes_on) break;
    // Idle sessions are many: only those that receive much keep a large buffer.
    if (*count == buffer_.size() && buffer_.size() < kLargeBuffer) {
      buffer_.resize(kLargeBuffer);
    } else if (*count < kSmallBuffer / 2 && buffer_.size() > kSmallBuffer &&
               !decoder_.is_in_body()) {
      buffer_ = Bytes(kSmallBuffer);
    }
  }
  co_return Over("closed by the aggregator");
}

// False when the session is over.
Awaitable<bool> DeviceConnection::TakeFrames(BytesView input) {
  while (true) {
    auto frame = decoder_.Next(input);
    if (!frame.has_value()) {
      user_->OnRefused(frame.error().code);
      co_return false;
    }
    if (frame.value().has_value()) {
      user_->OnFrame(std::move(*frame.value()));
      if (is_closing_) co_return false;
      continue;
    }
    if (input.empty()) break;
    const bool goes_on = co_await WaitForRoom();
    if (!goes_on) co_return false;
  }
  user_->OnBytes({.is_open = decoder_.is_open(),
                  .is_in_header = decoder_.is_in_header(),
                  .is_in_body = decoder_.is_in_body(),
                  .body_length = decoder_.is_in_body() ? decoder_.body_length() : 0});
  co_return !is_closing_;
}

// Budgets and queues empty by themselves; looking again is cheaper than keeping lists of who waits.
Awaitable<bool> DeviceConnection::WaitForRoom() {
  user_->OnReading(false);
  const bool goes_on = co_await WaitABit();
  if (!goes_on || is_closing_) co_return false;
  user_->OnReading(true);
  co_return true;
}

void DeviceConnection::SendModel(const wire::Transfer& transfer, ModelBytes model) {
  models_.push_back(std::make_shared<Model>(Model{transfer, std::move(model), false}));
  if (models_.size() == 1) tasks_.Spawn(SendModels(), nullptr, nullptr);
}

void DeviceConnection::StopModel(std::uint32_t transfer_id) {
  for (const auto& model : models_) {
    if (model->transfer.id == transfer_id) model->is_stopped = true;
  }
}

Awaitable<Status> DeviceConnection::SendModels() {
  Status sent = Ok();
  while (!models_.empty()) {
    const std::shared_ptr<Model> model = models_.front();
    if (sent.has_value()) sent = co_await SendOne(model);
    models_.pop_front();
    if (user_ == nullptr) continue;
    if (!sent.has_value()) {
      if (sent.error().code == kTooSlow) user_->OnRefused(kTooSlow);
    } else if (model->is_stopped) {
      user_->OnModelStopped(model->transfer.id);
    } else {
      user_->OnModelSent(model->transfer.id);
    }
  }
  co_return sent;
}

Awaitable<Status> DeviceConnection::SendOne(std::shared_ptr<Model> model) {
  wire::ChunkSender sender(model->transfer);
  const auto chunk_time = Nanoseconds(std::chrono::seconds(context_.rules.chunk_bytes)) /
                          static_cast<std::int64_t>(context_.rules.min_rate);
  const auto allowed =
      std::chrono::duration_cast<Milliseconds>(context_.rules.rate_window + chunk_time);
  while (!sender.is_done() && !model->is_stopped) {
    const BytesView data = model->bytes.bytes.subspan(sender.offset(), sender.NextLength());
    net::OutgoingFrame frame(sender.NextFrame(data));
    const Deadline deadline = Deadline::In(allowed, kTooSlow);
    Status queued = co_await stream_->SendBulk(std::move(frame), deadline);
    if (!queued.has_value()) co_return queued;
  }
  if (sender.is_done()) model->is_stopped = false;  // nothing was left to stop
  co_return Ok();
}

void DeviceConnection::Close() {
  is_closing_ = true;
  timer_.cancel();
  stream_->StopReading();
}

class EnrolmentConnection final : public Connection {
 public:
  EnrolmentConnection(ConnectionContext& context, tcp::socket socket, net::TlsContext::Shared tls,
                      std::string address)
      : Connection(context, std::move(socket), std::move(tls), std::move(address)),
        memory_(kMemoryBeforeHello, &context.memory),
        decoder_(wire::Role::kEnrolListener, memory_) {}

  Awaitable<Status> Serve() override;

 private:
  struct Pending {
    explicit Pending(const asio::any_io_executor& executor) : done(executor) {}
    asio::steady_timer done;
    std::optional<Result<wire::Message>> answer;
  };

  Awaitable<Status> Watch(SteadyTime until);
  Awaitable<Result<wire::EnrolRequest>> ReadRequest();
  Awaitable<Result<wire::Message>> Ask(wire::EnrolRequest request);

  wire::CountingBudget memory_;
  wire::FrameDecoder decoder_;
  asio::steady_timer watch_{timer_.get_executor()};
  bool is_late_ = false;
};

Awaitable<Status> EnrolmentConnection::Serve() {
  Status opened = co_await Open();
  if (!opened.has_value()) co_return opened;
  tasks_.Spawn(Watch(ReadClock().steady + context_.rules.first_frame_deadline), nullptr, nullptr);
  Result<wire::Message> answer = Over("nothing was asked");
  auto request = co_await ReadRequest();
  watch_.cancel();
  if (!request.has_value()) {
    answer = request.error();
  } else {
    answer = co_await Ask(std::move(request).value());
  }
  Status ended = Ok();
  if (answer.has_value()) {
    ended = stream_->Send(wire::EncodeFrame(*answer));
  } else {
    ended = answer.error();
    if (ended.error().code != kConnectionLost) {
      Tell(ended.error().code, wire::MessageId::kEnrolRequest);
    }
  }
  co_await CloseInOrder();
  co_return ended;
}

Awaitable<Status> EnrolmentConnection::Watch(SteadyTime until) {
  watch_.expires_at(until);
  const auto result = co_await watch_.async_wait(kToTuple);
  if (!std::get<0>(result)) {
    is_late_ = true;
    stream_->StopReading();
  }
  co_return Ok();
}

Awaitable<Result<wire::EnrolRequest>> EnrolmentConnection::ReadRequest() {
  Bytes buffer(kSmallBuffer);
  const Deadline never(SteadyTime::max(), kConnectionLost);
  while (true) {
    const std::span<std::uint8_t> into(buffer);
    const auto count = co_await stream_->ReadSome(into, never);
    if (is_late_) co_return Error{kNoOpening, "no request in time", ""};
    if (!count.has_value()) co_return count.error();
    if (*count == 0) co_return Over("the peer closed");
    BytesView input(buffer.data(), *count);
    auto frame = decoder_.Next(input);
    if (!frame.has_value()) co_return frame.error();
    if (!frame.value().has_value()) {
      if (!input.empty()) co_return Error{3336, "no memory for a request", ""};
      continue;
    }
    const wire::Frame& whole = *frame.value();
    auto message = wire::DecodeMessage(whole.id, whole.payload);
    if (!message.has_value()) co_return message.error();
    if (auto* request = std::get_if<wire::EnrolRequest>(&message.value())) {
      co_return std::move(*request);
    }
    co_return Error{3302, "not an enrolment request", ""};
  }
}

Awaitable<Result<wire::Message>> EnrolmentConnection::Ask(wire::EnrolRequest request) {
  const auto pending = std::make_shared<Pending>(timer_.get_executor());
  context_.user.OnEnrolment(address_, std::move(request), [pending](Result<wire::Message> answer) {
    pending->answer = std::move(answer);
    pending->done.cancel();
  });
  while (!pending->answer && !is_aborted_) {
    pending->done.expires_after(kLinger);
    [[maybe_unused]] const auto woken = co_await pending->done.async_wait(kToTuple);
  }
  if (!pending->answer) co_return Over("closed before the answer");
  co_return std::move(*pending->answer);
}

}  // namespace

std::unique_ptr<Connection> MakeConnection(Network::Kind kind, ConnectionContext& context,
                                           tcp::socket socket, net::TlsContext::Shared tls,
                                           std::string address) {
  if (kind == Network::Kind::kEnrolment) {
    return std::make_unique<EnrolmentConnection>(context, std::move(socket), std::move(tls),
                                                 std::move(address));
  }
  return std::make_unique<DeviceConnection>(context, std::move(socket), std::move(tls),
                                            std::move(address));
}

}  // namespace skep::aggregator
