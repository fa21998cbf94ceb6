#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

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

// A peer that is not built on Skep: plain OpenSSL on blocking sockets, in a thread of its own.
struct Foreign {
  std::string protocols;  // in wire form; empty: no ALPN
  int highest_version = TLS1_3_VERSION;
  std::optional<test::Holder> shows = {};
  std::string plain = {};  // sent instead of TLS
  int key_updates = 0;     // sent after the handshake
};

crypto::Owned<SSL_CTX> ContextOf(const Foreign& foreign, const SSL_METHOD* method) {
  crypto::Owned<SSL_CTX> context(SSL_CTX_new(method));
  SSL_CTX_set_max_proto_version(context.get(), foreign.highest_version);
  if (foreign.shows) {
    SSL_CTX_use_certificate(context.get(), foreign.shows->certificate.handle());
    SSL_CTX_use_PrivateKey(context.get(), foreign.shows->key.handle());
  }
  return context;
}

sockaddr_in LoopbackAddress(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int ConnectedSocket(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = LoopbackAddress(port);
  REQUIRE(connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  return socket;
}

// What a foreign client learns: the reason of OpenSSL's failure, 0 for a clean end.
int VisitAsForeign(const Foreign& foreign, int socket) {
  char byte = 0;
  if (!foreign.plain.empty()) {
    static_cast<void>(send(socket, foreign.plain.data(), foreign.plain.size(), MSG_NOSIGNAL));
    while (recv(socket, &byte, 1, 0) > 0) {
    }
    return 0;
  }
  const auto context = ContextOf(foreign, TLS_client_method());
  const crypto::Owned<SSL> connection(SSL_new(context.get()));
  const BytesView protocols = AsBytes(std::string_view(foreign.protocols));
  SSL_set_alpn_protos(connection.get(), protocols.data(), static_cast<unsigned>(protocols.size()));
  SSL_set_fd(connection.get(), socket);
  ERR_clear_error();
  int result = SSL_connect(connection.get());
  for (int i = 0; i < foreign.key_updates && result > 0; ++i) {
    SSL_key_update(connection.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    result = SSL_do_handshake(connection.get());
  }
  if (foreign.key_updates > 0) SSL_shutdown(connection.get());
  while (result > 0) result = SSL_read(connection.get(), &byte, 1);
  return ERR_GET_REASON(ERR_get_error());
}

struct Meeting {
  Outcome outcome;
  int foreign_reason = 0;
};

Meeting VisitListener(const TlsContext::Shared& listener, const Foreign& foreign,
                      const test::Party& party = ReadToEnd) {
  Meeting meeting;
  Loopback loopback;
  const int socket = ConnectedSocket(loopback.port());
  std::thread visitor([&] {
    meeting.foreign_reason = VisitAsForeign(foreign, socket);
    close(socket);
  });
  loopback.group().Spawn(Loopback::Serve(loopback, listener, party, &meeting.outcome), nullptr,
                         [&meeting](Status status) { meeting.outcome.server = std::move(status); });
  loopback.Run();
  visitor.join();
  return meeting;
}

// "skep/1" as the wire has it.
const std::string kDeviceProtocol = "\x06skep/1";

TEST_CASE("a client without a certificate is refused by the device listener", "[unit]") {
  const Pki pki;
  const Meeting meeting = VisitListener(DeviceListener(pki), {kDeviceProtocol});
  CHECK(CodeOf(meeting.outcome.server) == 3107);
  CHECK(meeting.foreign_reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED);
}

TEST_CASE("TLS 1.2 is refused by both listeners", "[unit]") {
  const Pki pki;
  const Foreign old{kDeviceProtocol, TLS1_2_VERSION, pki.Device()};
  const Meeting meeting = VisitListener(DeviceListener(pki), old);
  CHECK(CodeOf(meeting.outcome.server) == 3114);
  CHECK(meeting.foreign_reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
  const Foreign joining{"\x0cskep-enrol/1", TLS1_2_VERSION};
  CHECK(CodeOf(VisitListener(test::EnrolmentListener(pki), joining).outcome.server) == 3114);
}

TEST_CASE("a client that offers no protocol is refused by both listeners", "[unit]") {
  const Pki pki;
  const Foreign silent{"", TLS1_3_VERSION, pki.Device()};
  const Meeting meeting = VisitListener(DeviceListener(pki), silent);
  CHECK(CodeOf(meeting.outcome.server) == 3114);
  CHECK(meeting.foreign_reason == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
  CHECK(CodeOf(VisitListener(test::EnrolmentListener(pki), silent).outcome.server) == 3114);
}

TEST_CASE("a client that offers only other protocols is refused", "[unit]") {
  const Pki pki;
  for (const char* other : {"\x02h2", "\x06skep/2", "\x05skep/", "\x07skep/11"}) {
    INFO(other);
    const Foreign foreign{other, TLS1_3_VERSION, pki.Device()};
    CHECK(CodeOf(VisitListener(DeviceListener(pki), foreign).outcome.server) == 3114);
  }
}

TEST_CASE("the listener's protocol is chosen whatever else is offered", "[unit]") {
  const Pki pki;
  const Foreign foreign{"\x02h2" + kDeviceProtocol, TLS1_3_VERSION, pki.Device()};
  const Meeting meeting = VisitListener(DeviceListener(pki), foreign, DoNothing);
  CHECK(CodeOf(meeting.outcome.server) == 0);
  CHECK(meeting.foreign_reason == 0);
}

TEST_CASE("bytes that are not TLS end the connection", "[unit]") {
  const Pki pki;
  for (const std::string& plain :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(64, '\x01')}) {
    Foreign foreign;
    foreign.plain = plain;
    CHECK(CodeOf(VisitListener(DeviceListener(pki), foreign).outcome.server) == 3114);
  }
}

TEST_CASE("a certificate list of more than 16 KiB is refused", "[unit]") {
  const Pki pki;
  auto extensions = pki.DeviceExtensions();
  extensions.emplace_back("nsComment", std::string(17'000, 'x'));
  const Foreign bulky{kDeviceProtocol, TLS1_3_VERSION, pki.RawDevice(extensions)};
  CHECK(CodeOf(VisitListener(DeviceListener(pki), bulky).outcome.server) == 3101);
}

TEST_CASE("16 key updates a minute are borne, more are abuse", "[unit]") {
  const Pki pki;
  Foreign busy{kDeviceProtocol, TLS1_3_VERSION, pki.Device()};
  busy.key_updates = 16;
  CHECK(CodeOf(VisitListener(DeviceListener(pki), busy).outcome.server) == 0);
  busy.key_updates = 17;
  CHECK(CodeOf(VisitListener(DeviceListener(pki), busy).outcome.server) == 3335);
}

// One connection of a listening socket, served by plain OpenSSL.
void ServeAsForeign(const Foreign& foreign, int listening) {
  const int socket = accept(listening, nullptr, nullptr);
  const auto context = ContextOf(foreign, TLS_server_method());
  const crypto::Owned<SSL> connection(SSL_new(context.get()));
  SSL_set_fd(connection.get(), socket);
  char byte = 0;
  int result = SSL_accept(connection.get());
  while (result > 0) result = SSL_read(connection.get(), &byte, 1);
  // No close_notify: the socket alone ends.
  close(socket);
}

int VisitForeignServer(const TlsContext::Shared& client, const Foreign& foreign) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = LoopbackAddress(0);
  socklen_t size = sizeof(address);
  REQUIRE(bind(listening, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(listen(listening, 1) == 0);
  REQUIRE(getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  std::thread server([&] { ServeAsForeign(foreign, listening); });
  Loopback loopback;
  Status status = Error{9001, "never ran", ""};
  const Endpoint endpoint{"127.0.0.1", ntohs(address.sin_port)};
  loopback.group().Spawn(Loopback::Visit(loopback, endpoint, client, DoNothing), nullptr,
                         [&status](Status ended) { status = std::move(ended); });
  loopback.Run();
  server.join();
  close(listening);
  return CodeOf(status);
}

TEST_CASE("a device refuses an aggregator of TLS 1.2", "[unit]") {
  const Pki pki;
  const Foreign old{"", TLS1_2_VERSION, pki.Server()};
  CHECK(VisitForeignServer(DeviceClient(pki, pki.Device()), old) == 3114);
}

TEST_CASE("a device refuses an aggregator that chooses no protocol", "[unit]") {
  const Pki pki;
  const Foreign silent{"", TLS1_3_VERSION, pki.Server()};
  CHECK(VisitForeignServer(DeviceClient(pki, pki.Device()), silent) == 3114);
}

TEST_CASE("a broken end of the stream is never a clean one", "[unit]") {
  const Pki pki;
  Loopback loopback;
  const int socket = ConnectedSocket(loopback.port());
  std::thread visitor([&] {
    const Foreign foreign{kDeviceProtocol, TLS1_3_VERSION, pki.Device()};
    const auto context = ContextOf(foreign, TLS_client_method());
    const crypto::Owned<SSL> connection(SSL_new(context.get()));
    const BytesView protocols = AsBytes(std::string_view(kDeviceProtocol));
    SSL_set_alpn_protos(connection.get(), protocols.data(),
                        static_cast<unsigned>(protocols.size()));
    SSL_set_fd(connection.get(), socket);
    SSL_connect(connection.get());
    SSL_write(connection.get(), "x", 1);
    close(socket);
  });
  Outcome outcome;
  loopback.group().Spawn(Loopback::Serve(loopback, DeviceListener(pki), ReadToEnd, &outcome),
                         nullptr,
                         [&outcome](Status status) { outcome.server = std::move(status); });
  loopback.Run();
  visitor.join();
  REQUIRE_FALSE(outcome.server.has_value());
  CHECK(outcome.server.error().code == 3001);
  CHECK(outcome.server.error().message.find("without close_notify") != std::string::npos);
}

}  // namespace
}  // namespace skep::net
