// Caps, allowances, quarantine, descriptors, signals: the server stays usable for everybody else.
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <limits>

#include "shared/base/sha256.h"
#include "tests/aggregator/server_fixture.h"

namespace skep::aggregator::test {
namespace {

using Changes = TestServer::Changes;

bool HasFinished(Server& server) {
  const auto run = server.FindRun("demo");
  return run.has_value() && run->status.view.state == RunState::kFinished;
}

// A TCP connection that says nothing.
class Silent {
 public:
  explicit Silent(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = socket_ >= 0 && ::connect(socket_, reinterpret_cast<const sockaddr*>(&address),
                                         sizeof(address)) == 0;
    const timeval patience{20, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~Silent() { Close(); }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;
  void Close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  [[nodiscard]] bool is_open() const { return is_open_; }
  void Write(std::string_view text) {
    REQUIRE(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }
  // Whether the other side ends the connection within the patience.
  [[nodiscard]] bool IsEnded() {
    std::array<char, 256> buffer{};
    ssize_t count = 0;
    while ((count = ::recv(socket_, buffer.data(), buffer.size(), 0)) > 0) {
    }
    return count == 0 || errno == ECONNRESET;
  }

 private:
  int socket_;
  bool is_open_ = false;
};

int OpenDescriptors() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  REQUIRE(folder != nullptr);
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count - 3;  // . and .. and the folder itself
}

TEST_CASE("plaintext on a TLS port is closed", "[unit]") {
  TestServer server;
  for (const std::uint16_t port : {server.devices_port(), server.enrol_port()}) {
    Silent peer(port);
    REQUIRE(peer.is_open());
    peer.Write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(peer.IsEnded());
  }
}

TEST_CASE("a handshake that stalls delays its own address for no longer than the deadline",
          "[unit]") {
  TestServer server(Changes{{"tls", "handshakes_per_address = 1\nhandshake_deadline = \"1s\""}});
  const auto devices = server.Enrol(1);
  Silent stalled(server.devices_port());
  REQUIRE(stalled.is_open());
  Silent next(server.devices_port());
  REQUIRE(next.is_open());
  CHECK(stalled.IsEnded());
  CHECK(next.IsEnded());
  devices.front()->Join();
}

TEST_CASE("connections of one address beyond its cap are told 3332, and let in later", "[unit]") {
  TestServer server(Changes{{"limits", "connections_per_address = 1"}});
  const auto devices = server.Enrol(2);
  devices[0]->Join();
  TlsPeer& second = devices[1]->Connect();
  REQUIRE(second.is_open());
  const auto error = second.Expect<wire::PeerError>();
  CHECK(error.code == 3332);
  CHECK(error.retry_after_ms > 0);
  CHECK(second.ReadEnd() == 0);
  devices[0]->peer().Send(wire::Goodbye{.reason = wire::GoodbyeReason::kDone});
  CHECK(devices[0]->peer().ReadEnd() == 0);
  devices[0]->peer().Cut();
  REQUIRE(server.Until([&](Server&) {
    TlsPeer& again = devices[1]->Connect();
    again.Send(wire::Hello{.major = 1, .software = "scripted device"});
    const auto answer = again.ReadMessage();
    return answer && std::holds_alternative<wire::HelloAck>(*answer);
  }));
}

TEST_CASE("the listener survives running out of descriptors", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  // Room for the client's socket and not for the server's.
  low.rlim_cur = static_cast<rlim_t>(OpenDescriptors() + 1);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  bool was_opened = false;
  bool has_ended = false;
  {
    Silent refused(server.devices_port());
    was_opened = refused.is_open();
    has_ended = was_opened && refused.IsEnded();
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(was_opened);
  CHECK(has_ended);
  devices.front()->Join();
}

TEST_CASE("a device whose updates are refused too often is quarantined until it is released",
          "[unit]") {
  TestServer server(Changes{{"admission", "strikes = 1"}});
  const auto devices = server.Enrol(1);
  server.StartRun(1, 1);
  Device& device = *devices.front();
  device.Join();
  device.Poll();
  const wire::Manifest manifest = ManifestOf(device.ExpectOffer());
  device.Accept(manifest);
  const Bytes body = UpdateOf(std::numeric_limits<float>::quiet_NaN());
  const wire::UploadBegin begin = device.Begin(manifest, body, 1);
  device.peer().Send(begin);
  static_cast<void>(device.peer().Expect<wire::UploadAccept>());
  device.SendBody(begin.transfer_id, body);
  CHECK(device.peer().Expect<wire::UpdateRefused>().code == 2104);
  const auto state_is = [&](DeviceState state) {
    return server.Until([&](Server& s) { return s.Devices().value().front().row.state == state; });
  };
  REQUIRE(state_is(DeviceState::kQuarantined));
  REQUIRE(server.Until(
      [&](Server& s) { return s.FindRun("demo").value().status.view.attempt.attempt == 2; }));
  device.Join();
  device.Poll();
  CHECK(device.peer().Expect<wire::ComeBack>().reason == wire::ComeBackReason::kQuarantined);
  const DeviceId id = server.server().Devices().value().front().row.device;
  REQUIRE(server.server().ChangeDevice(id, DeviceState::kActive, "test").has_value());
  device.Poll();
  static_cast<void>(device.Train(device.ExpectOffer(), 0.5F, 1));
  REQUIRE(server.Until(HasFinished));
}

TEST_CASE("bytes of one device in one round are bounded: 3403", "[unit]") {
  TestServer server(Changes{{"limits", "max_update_bytes = \"1KiB\"\nupload_bytes_factor = 1"}});
  const auto devices = server.Enrol(1);
  auto request = server.Request(1, 1);
  request.sets = {"model.architecture=mlp", "model.hidden=[40]"};
  const auto started = server.server().StartRun(request);
  if (!started) FAIL(config::FormatProblems(started.problems(), {.program = "test"}));
  REQUIRE(started.value().update_bytes > 512);
  Device& device = *devices.front();
  device.Join();
  device.Poll();
  const wire::Manifest manifest = ManifestOf(device.ExpectOffer());
  device.Accept(manifest);
  const Bytes body(started.value().update_bytes);
  device.peer().Send(device.Begin(manifest, body, 1));
  static_cast<void>(device.peer().Expect<wire::UploadAccept>());
  device.peer().Cut();
  device.Join();
  device.peer().Send(device.Begin(manifest, body, 1));
  CHECK(device.peer().Expect<wire::UpdateRefused>().code == 3403);
}

TEST_CASE("a model or update larger than this server takes is refused at the start", "[unit]") {
  TestServer server(Changes{{"limits", "max_update_bytes = \"1KiB\""}});
  const auto devices = server.Enrol(1);
  auto request = server.Request(1, 1);
  request.sets = {"model.architecture=mlp", "model.hidden=[1000]"};
  const auto started = server.server().StartRun(request);
  REQUIRE_FALSE(started.has_value());
  CHECK(started.problems().front().code == 2103);
}

TEST_CASE("clients evaluate a published model and the means are on record", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(2);
  const std::string keys = "client_eval_every = 1\nclient_eval_clients = 2\n";
  auto request = server.Request(1, 2, keys);
  request.sets = {"data.client_test_fraction=0.3"};
  const auto started = server.server().StartRun(request);
  if (!started) FAIL(config::FormatProblems(started.problems(), {.program = "test"}));
  for (const auto& device : devices) device->Join();
  for (const auto& device : devices) device->Poll();
  for (const auto& device : devices) {
    static_cast<void>(device->Train(device->ExpectOffer(), 0.5F, 2));
  }
  for (const auto& device : devices) device->Poll();
  for (std::uint32_t i = 0; i < 2; ++i) {
    const wire::Manifest manifest = ManifestOf(devices[i]->ExpectOffer());
    REQUIRE(manifest.kind == wire::TaskKind::kEvaluate);
    devices[i]->Accept(manifest);
    wire::UploadBegin begin = devices[i]->Begin(manifest, {}, 1 + i);
    begin.metrics = {{.id = 2, .value = 0.25 + 0.5 * i}};  // accuracy
    devices[i]->peer().Send(begin);
    static_cast<void>(devices[i]->peer().Expect<wire::UpdateAck>());
  }
  REQUIRE(server.Until(HasFinished));
  const auto detail = server.server().FindRun("demo").value();
  REQUIRE(detail.rounds.size() == 2);
  CHECK(detail.rounds[1].row.key.kind == TaskKind::kEvaluate);
  REQUIRE_FALSE(detail.rounds[1].row.metrics.empty());
  CHECK(detail.rounds[1].row.metrics[0].value == Approx((0.25 + 2 * 0.75) / 3));
  CHECK(detail.rounds[1].row.metrics[0].clients == 2);
  // The aggregator's own test data were used as well.
  CHECK_FALSE(detail.rounds[0].row.metrics.empty());
}

// Nothing more can be written while it lives.
class FullDisk {
 public:
  FullDisk() {
    ::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit none = before_;
    none.rlim_cur = 0;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  }
  ~FullDisk() {
    static_cast<void>(::setrlimit(RLIMIT_FSIZE, &before_));
    ::signal(SIGXFSZ, SIG_DFL);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

TEST_CASE("a disk that fails ends the server with 70 and without an acknowledgement", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  server.StartRun(1, 1);
  Device& device = *devices.front();
  device.Join();
  device.Poll();
  const wire::Manifest manifest = ManifestOf(device.ExpectOffer());
  device.Accept(manifest);
  const Bytes body = UpdateOf(0.5F);
  wire::UploadBegin begin = device.Begin(manifest, body, 1);
  device.peer().Send(begin);
  static_cast<void>(device.peer().Expect<wire::UploadAccept>());
  int code = 0;
  bool was_acknowledged = false;
  {
    const FullDisk disk;
    device.SendBody(begin.transfer_id, body);
    while (const auto message = device.peer().ReadMessage()) {
      was_acknowledged = was_acknowledged || std::holds_alternative<wire::UpdateAck>(*message);
    }
    code = server.server().Wait();
    server.Kill();
  }
  CHECK(code == 70);
  CHECK_FALSE(was_acknowledged);
  server.Start();
  device.Join();
  begin.transfer_id = device.NextTransfer();
  device.peer().Send(begin);
  static_cast<void>(device.peer().Expect<wire::UploadAccept>());
  device.SendBody(begin.transfer_id, body);
  CHECK(device.peer().Expect<wire::UpdateAck>().disposition == wire::Disposition::kAccepted);
  REQUIRE(server.Until(HasFinished));
}

TEST_CASE("an address in use, or none at all, stops the start by number", "[unit]") {
  TestServer first;
  const std::uint16_t port = first.devices_port();
  TestServer second;
  second.Kill();
  second.devices_address = "127.0.0.1:" + std::to_string(port);
  const Status in_use = second.TryStart();
  REQUIRE_FALSE(in_use.has_value());
  CHECK(in_use.error().code == 5201);
  second.devices_address = "203.0.113.1:0";
  const Status not_ours = second.TryStart();
  REQUIRE_FALSE(not_ours.has_value());
  CHECK(not_ours.error().code == 5202);
  second.devices_address = "127.0.0.1:0";
  CHECK(second.TryStart().has_value());
}

TEST_CASE("the first SIGTERM drains, and the process goes on to its end", "[unit]") {
  TestServer server(Changes{}, true);
  const auto devices = server.Enrol(1);
  devices.front()->Join();
  REQUIRE(::raise(SIGTERM) == 0);
  CHECK(devices.front()->peer().Expect<wire::Goodbye>().reason == wire::GoodbyeReason::kDraining);
  CHECK(server.server().Wait() == 0);
}

}  // namespace
}  // namespace skep::aggregator::test
