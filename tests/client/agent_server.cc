#include "tests/client/agent_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include <list>

#include "shared/net/framed_stream.h"
#include "shared/net/task_group.h"
#include "shared/wire/budget.h"
#include "shared/wire/chunk.h"
#include "shared/wire/codec.h"
#include "shared/wire/frame.h"

namespace skep::test {
namespace {

namespace asio = boost::asio;

constexpr Milliseconds kPatience{20'000};
constexpr std::size_t kQueue = 16 * 1024 * 1024;
constexpr std::uint32_t kChunkBytes = wire::kSmallestChunkBytes;

struct Connection final : Peer {
  Connection(net::FramedStream::Owner from, wire::Role role, int which)
      : stream(std::move(from)), decoder(role, budget), number_(which) {
    decoder.SetChunkBytes(kChunkBytes);
  }

  void Send(const wire::Message& message) override {
    if (is_open) static_cast<void>(stream->Send(wire::EncodeFrame(message)));
  }
  void SendBody(std::uint32_t transfer_id, BytesView body, std::uint64_t offset,
                std::uint64_t most) override {
    wire::ChunkSender sender(
        {.id = transfer_id, .total = body.size(), .offset = offset, .chunk_bytes = kChunkBytes});
    while (is_open && !sender.is_done() && sender.offset() - offset < most) {
      const BytesView data = body.subspan(sender.offset(), sender.NextLength());
      static_cast<void>(stream->Send(sender.NextFrame(data)));
    }
  }
  void Cut() override {
    is_open = false;
    // What was sent before shall arrive: the cut comes when the queue is empty.
    is_cut = true;
    stream->StopReading();
  }
  void Close() override {
    is_open = false;
    stream->StopReading();
  }
  [[nodiscard]] int number() const override { return number_; }

  net::FramedStream::Owner stream;
  wire::CountingBudget budget{kQueue};
  wire::FrameDecoder decoder;
  bool is_open = true;
  bool is_cut = false;
  int number_;
};

}  // namespace

struct AgentServer::State {
  State(AgentServer& from, Kind which)
      : owner(from),
        kind(which),
        acceptor(context, {asio::ip::address_v4::loopback(), 0}),
        port(acceptor.local_endpoint().port()),
        group(context.get_executor()) {}

  AgentServer& owner;
  Kind kind;
  asio::io_context context{1};
  asio::ip::tcp::acceptor acceptor;
  std::uint16_t port;
  net::TaskGroup group;
  net::TlsContext::Shared tls;
  std::thread thread;
  std::list<std::shared_ptr<Connection>> open;

  void Take(Connection& peer, wire::Frame frame) {
    if (frame.kind == wire::FrameKind::kChunk) {
      if (owner.on_chunk) owner.on_chunk(peer, frame.payload);
      return;
    }
    Result<wire::Message> message = wire::DecodeMessage(frame.id, frame.payload);
    if (!message.has_value()) return peer.Cut();
    owner.heard.push_back(*message);
    if (owner.on_message) owner.on_message(peer, *message);
  }
};

namespace {

using SharedConnection = std::shared_ptr<Connection>;

net::Awaitable<Status> Read(AgentServer::State* state, SharedConnection peer) {
  std::vector<std::uint8_t> buffer(16 * 1024);
  while (peer->is_open) {
    const net::Deadline deadline = net::Deadline::In(kPatience, 3324);
    const Result<std::size_t> count = co_await peer->stream->ReadSome(buffer, deadline);
    if (!count.has_value()) {
      co_return count.error();
    }
    if (*count == 0) break;
    BytesView input = BytesView(buffer).first(*count);
    while (!input.empty() && peer->is_open) {
      Result<std::optional<wire::Frame>> frame = peer->decoder.Next(input);
      if (!frame.has_value()) {
        co_return frame.error();
      }
      if (!frame->has_value()) break;
      state->Take(*peer, std::move(**frame));
    }
  }
  co_return Ok();
}

net::Awaitable<Status> Serve(AgentServer::State* state, asio::ip::tcp::socket socket, int number) {
  Result<net::FramedStream::Owner> made =
      net::FramedStream::Accept(std::move(socket), state->tls, kQueue);
  if (!made.has_value()) {
    co_return made.error();
  }
  const bool is_enrolment = state->kind == AgentServer::Kind::kEnrolment;
  const wire::Role role = is_enrolment ? wire::Role::kEnrolListener : wire::Role::kDeviceListener;
  const auto peer = std::make_shared<Connection>(std::move(made).value(), role, number);
  const net::Deadline deadline = net::Deadline::In(kPatience, 3326);
  Status shaken = co_await peer->stream->Handshake(deadline);
  if (!shaken.has_value()) {
    co_return shaken;
  }
  net::TaskGroup writer(state->context.get_executor());
  writer.Spawn(peer->stream->RunWriter(), nullptr, nullptr);
  state->open.push_back(peer);
  Status status = co_await Read(state, peer);
  state->open.remove(peer);
  if (peer->is_cut) {
    peer->stream->FinishSending();
    [[maybe_unused]] const bool is_written =
        co_await writer.WaitUntil(ReadClock().steady + kPatience);
    peer->stream->Abort(Error{3001, "cut", ""});
  } else {
    co_await peer->stream->Close(Milliseconds(1000));
  }
  co_await writer.Stop(kPatience);
  co_return status;
}

net::Awaitable<Status> Listen(AgentServer::State* state) {
  for (;;) {
    auto [failure, socket] =
        co_await state->acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
    if (failure) {
      co_return Ok();
    }
    const int number = state->owner.connections++;
    state->group.Spawn(Serve(state, std::move(socket), number), nullptr, nullptr);
  }
}

}  // namespace

AgentServer::AgentServer(Kind kind) : state_(std::make_unique<State>(*this, kind)) {}

AgentServer::~AgentServer() {
  Stop();
}

std::uint16_t AgentServer::port() const {
  return state_->port;
}

void AgentServer::Start() {
  const Holder holder = certificate ? *certificate : pki_.Server();
  const net::Credentials own{holder.certificate, holder.key, {}};
  if (state_->kind == Kind::kEnrolment) {
    state_->tls = net::TlsContext::ForEnrolmentListener(
                      {own.certificate, own.key, {pki_.server_ca.certificate()}})
                      .value();
  } else {
    state_->tls = net::TlsContext::ForDeviceListener(
                      own, {judges_devices_by.value_or(pki_.device_ca.certificate()),
                            pki_.federation, nullptr, std::nullopt})
                      .value();
  }
  state_->group.Spawn(Listen(state_.get()), nullptr, nullptr);
  state_->thread = std::thread([this] { state_->context.run(); });
}

void AgentServer::Stop() {
  if (!state_->thread.joinable()) return;
  asio::post(state_->context, [this] {
    state_->acceptor.close();
    for (const auto& peer : state_->open) peer->Close();
  });
  state_->thread.join();
}

}  // namespace skep::test
