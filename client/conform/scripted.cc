#include "client/conform/scripted.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "shared/base/file.h"
#include "shared/base/try.h"
#include "shared/wire/budget.h"
#include "shared/wire/chunk.h"
#include "shared/wire/codec.h"
#include "shared/wire/frame.h"

namespace skep::conform {

// One connection from its handshake to its end.
class ScriptedConnection final : public ScriptedPeer {
 public:
  ScriptedConnection(Scripted& owner, SSL* tls, int socket)
      : owner_(owner), tls_(tls), socket_(socket) {
    decoder_.SetChunkBytes(kScriptedChunk);
  }

  void Send(const wire::Message& message) override { SendRaw(wire::EncodeFrame(message)); }
  void SendRaw(BytesView bytes) override {
    if (is_open_ && ::SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size())) <= 0)
      is_open_ = false;
  }
  void SendBody(std::uint32_t transfer_id, BytesView body, std::uint64_t offset) override {
    wire::ChunkSender sender(
        {.id = transfer_id, .total = body.size(), .offset = offset, .chunk_bytes = kScriptedChunk});
    while (is_open_ && !sender.is_done()) {
      const BytesView data = body.subspan(sender.offset(), sender.NextLength());
      SendRaw(sender.NextFrame(data));
    }
  }
  void Close() override { is_open_ = false; }

  void Run() {
    constexpr std::size_t kBlock = 16 * 1024;
    Bytes block(kBlock);
    while (is_open_ && WaitReadable()) {
      const int count = ::SSL_read(tls_, block.data(), static_cast<int>(block.size()));
      if (count <= 0) return;
      Take(BytesView(block).first(static_cast<std::size_t>(count)));
    }
    (void)::SSL_shutdown(tls_);
  }

 private:
  bool WaitReadable() {
    if (::SSL_has_pending(tls_) == 1) return true;
    std::array<pollfd, 2> events{pollfd{.fd = socket_, .events = POLLIN, .revents = 0},
                                 pollfd{.fd = owner_.waker_, .events = POLLIN, .revents = 0}};
    return ::poll(events.data(), events.size(), -1) > 0 && !owner_.must_stop_;
  }

  void Take(BytesView input) {
    while (!input.empty() && is_open_) {
      Result<std::optional<wire::Frame>> frame = decoder_.Next(input);
      if (!frame.has_value()) {
        is_open_ = false;
        return;
      }
      if (!frame->has_value()) return;
      if ((**frame).kind == wire::FrameKind::kControl) Answer(**frame);
    }
  }

  void Answer(const wire::Frame& frame) {
    const Result<wire::Message> message = wire::DecodeMessage(frame.id, frame.payload);
    if (!message.has_value()) {
      is_open_ = false;
      return;
    }
    if (std::holds_alternative<wire::Hello>(*message)) return Greet();
    if (const auto* ping = std::get_if<wire::Ping>(&*message)) return Send(wire::Pong{ping->nonce});
    Scripted::Handler handler;
    {
      const std::lock_guard lock(owner_.mutex_);
      handler = owner_.handler_;
    }
    if (handler) handler(*this, *message);
  }

  void Greet() {
    wire::HelloAck ack;
    ack.software = "skep-client check";
    ack.federation_id = owner_.federation_;
    ack.session_id.bytes.fill(9);
    ack.epoch = 1;
    ack.clock_ms = ReadClock().wall;
    ack.ping_interval_ms = 30'000;
    ack.progress_interval_ms = 15'000;
    ack.max_hold_ms = 60'000;
    ack.chunk_bytes = kScriptedChunk;
    ack.signing_key_ids = {owner_.key_->id()};
    Send(ack);
  }

  Scripted& owner_;
  SSL* tls_;
  int socket_;
  bool is_open_ = true;
  wire::CountingBudget budget_{16UL << 20};
  wire::FrameDecoder decoder_{wire::Role::kDeviceListener, budget_};
};

Result<std::unique_ptr<Scripted>> Scripted::Listen() {
  std::unique_ptr<Scripted> made(new Scripted);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  made->listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  made->waker_ = ::eventfd(0, EFD_CLOEXEC);
  if (made->listener_ < 0 || made->waker_ < 0 || ::bind(made->listener_, any, size) != 0 ||
      ::listen(made->listener_, SOMAXCONN) != 0 ||
      ::getsockname(made->listener_, any, &size) != 0) {
    return Error{5201, "no listener on 127.0.0.1: " + SystemReason(errno), ""};
  }
  made->port_ = ntohs(address.sin_port);
  return made;
}

Scripted::~Scripted() {
  must_stop_ = true;
  if (waker_ >= 0) (void)::eventfd_write(waker_, 1);
  if (thread_.joinable()) thread_.join();
  if (listener_ >= 0) ::close(listener_);
  if (waker_ >= 0) ::close(waker_);
}

Status Scripted::Serve(const std::string& pki_folder, const FederationId& federation) {
  federation_ = federation;
  SKEP_ASSIGN(crypto::Certificate certificate,
              crypto::Certificate::Load(pki_folder + "server.crt"));
  SKEP_ASSIGN(crypto::PrivateKey key, crypto::PrivateKey::Load(pki_folder + "server.key"));
  SKEP_ASSIGN(crypto::Certificate devices, crypto::Certificate::Load(pki_folder + "device-ca.crt"));
  SKEP_ASSIGN(key_, crypto::SigningKey::Load(pki_folder + "manifest.key"));
  SKEP_ASSIGN(tls_, net::TlsContext::ForDeviceListener(
                        {certificate, key, {}}, {devices, federation, nullptr, std::nullopt}));
  thread_ = std::thread([this] { Run(); });
  return Ok();
}

void Scripted::SetHandler(Handler handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

std::vector<SteadyTime> Scripted::Arrivals() {
  const std::lock_guard lock(mutex_);
  return arrivals_;
}

std::size_t Scripted::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void Scripted::Run() {
  while (!must_stop_) {
    std::array<pollfd, 2> events{pollfd{.fd = listener_, .events = POLLIN, .revents = 0},
                                 pollfd{.fd = waker_, .events = POLLIN, .revents = 0}};
    if (::poll(events.data(), events.size(), -1) <= 0 || must_stop_) continue;
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    {
      const std::lock_guard lock(mutex_);
      arrivals_.push_back(ReadClock().steady);
    }
    ServeOne(socket);
    ::close(socket);
    const std::lock_guard lock(mutex_);
    ++ended_;
  }
}

void Scripted::ServeOne(int socket) {
  // A program that stands still must not hold up the end of the check.
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  (void)::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  (void)::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const auto tls = tls_->NewConnection();
  if (!tls.has_value() || ::SSL_set_fd(tls->get(), socket) != 1 || ::SSL_accept(tls->get()) != 1)
    return;
  ScriptedConnection(*this, tls->get(), socket).Run();
}

}  // namespace skep::conform
