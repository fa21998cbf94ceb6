#include <algorithm>

#include "tests/shared/net_fixture.h"
#include "tests/support/catch.h"

namespace skep::net {
namespace {

using test::CodeOf;
using test::DeviceClient;
using test::DeviceListener;
using test::DoNothing;
using test::Loopback;
using test::Outcome;
using test::Pki;
using test::ReadToEnd;

Status ConnectOnly(Endpoint endpoint, ConnectLimits limits) {
  const Pki pki;
  Loopback loopback;
  const auto client = DeviceClient(pki, pki.Device());
  Status ended = Ok();
  const auto connect = [](Endpoint to, TlsContext::Shared tls,
                          ConnectLimits with) -> Awaitable<Status> {
    auto stream =
        co_await FramedStream::Connect(std::move(to), std::move(tls), with, test::kSendQueue);
    if (!stream.has_value()) co_return stream.error();
    co_return Ok();
  };
  loopback.group().Spawn(connect(std::move(endpoint), client, limits), nullptr,
                         [&ended](Status status) { ended = std::move(status); });
  loopback.Run();
  return ended;
}

// A port of loopback that refuses: bound once, so nobody else has it now, then let go.
std::uint16_t RefusingPort() {
  const Loopback loopback;
  return loopback.port();
}

TEST_CASE("a refused connection says so, with the address as it was given", "[unit]") {
  const std::uint16_t port = RefusingPort();
  const Status status = ConnectOnly({"127.0.0.1", port}, {});
  REQUIRE(CodeOf(status) == 3001);
  CHECK(status.error().message ==
        "cannot reach 127.0.0.1:" + std::to_string(port) + ": connection refused");
}

TEST_CASE("an address to listen on is not one to connect to, and the text says it", "[unit]") {
  for (const char* host : {"0.0.0.0", "::"}) {
    const Status status = ConnectOnly({host, 8443}, {});
    REQUIRE(CodeOf(status) == 3001);
    CHECK(status.error().message == "cannot reach " + EndpointText({host, 8443}) + ": " + host +
                                        " is an address to listen on, not one to connect to");
  }
}

TEST_CASE("port 0 is not one to connect to", "[unit]") {
  const Status status = ConnectOnly({"127.0.0.1", 0}, {});
  REQUIRE(CodeOf(status) == 3001);
  CHECK(status.error().message == "cannot reach 127.0.0.1:0: 0 is not a port to connect to");
}

TEST_CASE("a connection that nobody answers says how long it tried", "[unit]") {
  // The kernel drops what comes to a full queue, as a firewall would.
  boost::asio::io_context context;
  boost::asio::ip::tcp::acceptor full(context);
  full.open(boost::asio::ip::tcp::v4());
  full.bind({boost::asio::ip::address_v4::loopback(), 0});
  full.listen(0);
  boost::asio::ip::tcp::socket first(context);
  first.connect(full.local_endpoint());
  ConnectLimits limits;
  limits.tcp = Milliseconds(30);
  const std::uint16_t port = full.local_endpoint().port();
  const Status status = ConnectOnly({"127.0.0.1", port}, limits);
  REQUIRE(CodeOf(status) == 3001);
  CHECK(status.error().message ==
        "cannot reach 127.0.0.1:" + std::to_string(port) + ": timed out after 30 ms");
}

TEST_CASE("an aggregator that accepts and stays silent is unreachable, not untrusted", "[unit]") {
  // The kernel accepts for the listener; nobody shakes hands.
  const Loopback silent;
  ConnectLimits limits;
  limits.handshake = Milliseconds(20);
  const Status status = ConnectOnly({"127.0.0.1", silent.port()}, limits);
  REQUIRE(CodeOf(status) == 3001);
  CHECK(status.error().message.find("handshake not completed in time") != std::string::npos);
}

TEST_CASE("a name that cannot exist is not found", "[unit]") {
  const Status status = ConnectOnly({"no-such-host.invalid", 8443}, {});
  REQUIRE(CodeOf(status) == 3002);
  CHECK(status.error().message.find("no-such-host.invalid") != std::string::npos);
}

TEST_CASE("a client that connects and says nothing runs into the handshake deadline", "[unit]") {
  const Pki pki;
  Loopback loopback;
  boost::asio::ip::tcp::socket visitor(loopback.context());
  visitor.connect(loopback.acceptor().local_endpoint());
  const auto serve = [](Loopback& at, TlsContext::Shared tls) -> Awaitable<Status> {
    auto socket = co_await at.acceptor().async_accept(boost::asio::use_awaitable);
    auto stream = FramedStream::Accept(std::move(socket), std::move(tls), test::kSendQueue);
    co_return co_await (*stream)->Handshake(Deadline::In(Milliseconds(20), 3326));
  };
  Status ended = Ok();
  loopback.group().Spawn(serve(loopback, DeviceListener(pki)), nullptr,
                         [&ended](Status status) { ended = std::move(status); });
  loopback.Run();
  CHECK(CodeOf(ended) == 3326);
}

Awaitable<Status> WaitInVain(FramedStream& stream) {
  std::array<std::uint8_t, 16> buffer{};
  const auto count = co_await stream.ReadSome(buffer, Deadline::In(Milliseconds(20), 3324));
  if (count.has_value()) co_return Ok();
  // The error is final.
  const auto again = co_await stream.ReadSome(buffer, Deadline::In(test::kPatience, 3326));
  if (again.has_value() || again.error().code != count.error().code) co_return Ok();
  co_return count.error();
}

TEST_CASE("a read that waits too long ends with the number of its deadline, for good", "[unit]") {
  const Pki pki;
  Loopback loopback;
  const Outcome outcome =
      loopback.Meet(DeviceListener(pki), DeviceClient(pki, pki.Device()), WaitInVain, ReadToEnd);
  CHECK(CodeOf(outcome.server) == 3324);
  CHECK(CodeOf(outcome.client) == 3001);
}

Awaitable<Status> SendTooMuch(FramedStream& stream) {
  // The writer has not run yet, so the queue only grows.
  Status sent = Ok();
  std::size_t frames = 0;
  while (sent.has_value() && frames < 100) {
    sent = stream.Send(Bytes(16 * 1024));
    if (sent.has_value()) ++frames;
  }
  if (frames != test::kSendQueue / (16 * 1024)) co_return Error{9001, std::to_string(frames), ""};
  if (stream.queued_bytes() != test::kSendQueue) co_return Error{9001, "bytes", ""};
  co_return sent;
}

TEST_CASE("a full send queue refuses the next frame and keeps what it has", "[unit]") {
  const Pki pki;
  Loopback loopback;
  const Outcome outcome =
      loopback.Meet(DeviceListener(pki), DeviceClient(pki, pki.Device()), SendTooMuch, ReadToEnd);
  CHECK(CodeOf(outcome.server) == 3338);
  CHECK(CodeOf(outcome.client) == 0);
}

constexpr std::size_t kChunk = 256 * 1024;
constexpr std::size_t kChunks = 8;

Awaitable<Status> SendChunks(FramedStream& stream) {
  const auto body = std::make_shared<const Bytes>(kChunk, std::uint8_t{7});
  for (std::size_t i = 0; i < kChunks; ++i) {
    OutgoingFrame frame(Bytes(40, static_cast<std::uint8_t>(i)), *body, body);
    const Status sent =
        co_await stream.SendBulk(std::move(frame), Deadline::In(test::kPatience, 3325));
    if (!sent.has_value()) co_return sent;
    // At most two chunks wait and one is being written.
    if (body.use_count() > 4) co_return Error{9001, "too many chunks held", ""};
  }
  co_return Ok();
}

struct Counted {
  std::size_t bytes = 0;
  std::size_t sevens = 0;
};

Awaitable<Status> Count(FramedStream& stream, Counted* counted) {
  Bytes buffer(64 * 1024);
  for (;;) {
    const auto count = co_await stream.ReadSome(buffer, Deadline::In(test::kPatience, 3324));
    if (!count.has_value()) co_return count.error();
    if (*count == 0) co_return Ok();
    counted->bytes += *count;
    counted->sevens += static_cast<std::size_t>(std::count(
        buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(*count), std::uint8_t{7}));
  }
}

TEST_CASE("chunks arrive whole, in order, with at most two waiting", "[unit]") {
  const Pki pki;
  Loopback loopback;
  Counted counted;
  const Outcome outcome =
      loopback.Meet(DeviceListener(pki), DeviceClient(pki, pki.Device()), SendChunks,
                    [&counted](FramedStream& stream) { return Count(stream, &counted); });
  CHECK(CodeOf(outcome.server) == 0);
  CHECK(CodeOf(outcome.client) == 0);
  CHECK(counted.bytes == kChunks * (kChunk + 40));
  CHECK(counted.sevens == kChunks * kChunk + 40);
}

Awaitable<Status> SendAgainstSilence(FramedStream& stream) {
  const auto body = std::make_shared<const Bytes>(8 * 1024 * 1024);
  Status sent = Ok();
  for (int i = 0; i < 8 && sent.has_value(); ++i) {
    sent = co_await stream.SendBulk(OutgoingFrame(Bytes(40), *body, body),
                                    Deadline::In(Milliseconds(50), 3325));
  }
  stream.Abort(Error{3325, "transfer below the minimum rate", ""});
  co_return sent;
}

Awaitable<Status> Hold(FramedStream& stream, boost::asio::steady_timer* released) {
  released->expires_at(SteadyTime::max());
  [[maybe_unused]] const auto woken =
      co_await released->async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  stream.Abort(Error{3001, "test", ""});
  co_return Ok();
}

TEST_CASE("a peer that does not read makes the sender's deadline pass", "[unit]") {
  const Pki pki;
  Loopback loopback;
  boost::asio::steady_timer released(loopback.context());
  const auto sender = [](FramedStream& stream,
                         boost::asio::steady_timer* timer) -> Awaitable<Status> {
    Status sent = co_await SendAgainstSilence(stream);
    timer->cancel();
    co_return sent;
  };
  const Outcome outcome = loopback.Meet(
      DeviceListener(pki), DeviceClient(pki, pki.Device()),
      [&](FramedStream& stream) { return sender(stream, &released); },
      [&](FramedStream& stream) { return Hold(stream, &released); });
  CHECK(CodeOf(outcome.server) == 3325);
}

Awaitable<Status> CancelAll(FramedStream&, TaskGroup* group) {
  group->Cancel();
  co_return Ok();
}

TEST_CASE("a cancelled connection ends as closed on this side, whatever it was doing", "[unit]") {
  const Pki pki;
  Loopback loopback;
  const Outcome outcome = loopback.Meet(
      DeviceListener(pki), DeviceClient(pki, pki.Device()), ReadToEnd,
      [&loopback](FramedStream& stream) { return CancelAll(stream, &loopback.group()); });
  REQUIRE(CodeOf(outcome.server) == 3001);
  CHECK(outcome.server.error().message == "connection closed on this side");
}

Awaitable<Status> WaitFor(boost::asio::steady_timer* timer) {
  timer->expires_at(SteadyTime::max());
  const auto woken = co_await timer->async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  if (std::get<0>(woken)) co_return Error{3337, "draining", ""};
  co_return Ok();
}

Awaitable<Status> StopGroup(TaskGroup* group) {
  co_await group->Stop(Milliseconds(20));
  co_return Ok();
}

TEST_CASE("a task group asks first, cancels what does not listen, and waits for all", "[unit]") {
  boost::asio::io_context context;
  boost::asio::steady_timer polite(context);
  boost::asio::steady_timer deaf(context);
  TaskGroup workers(context.get_executor());
  TaskGroup boss(context.get_executor());
  std::string order;
  workers.Spawn(
      WaitFor(&polite), [&polite] { polite.cancel(); },
      [&order](const Status&) { order += "polite "; });
  workers.Spawn(WaitFor(&deaf), nullptr, [&order](const Status&) { order += "deaf "; });
  boss.Spawn(StopGroup(&workers), nullptr, [&order](const Status&) { order += "boss"; });
  context.run();
  CHECK(order == "polite deaf boss");
  CHECK(workers.running() == 0);
}

Awaitable<Status> Throw() {
  throw std::runtime_error("bad day");
  co_return Ok();
}

TEST_CASE("an exception that leaves a task is a result of the task", "[unit]") {
  boost::asio::io_context context;
  TaskGroup group(context.get_executor());
  Status ended = Ok();
  group.Spawn(Throw(), nullptr, [&ended](Status status) { ended = std::move(status); });
  context.run();
  REQUIRE(CodeOf(ended) == 9001);
  CHECK(ended.error().message.find("bad day") != std::string::npos);
}

}  // namespace
}  // namespace skep::net
