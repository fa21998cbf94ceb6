#include "aggregator/server/admin_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::test {
namespace {

using namespace skep::aggregator;

constexpr Milliseconds kLimit{20'000};

AdminResponse Echo(const AdminRequest& request) {
  return {.status = 201,
          .etag = "\"" + request.idempotency_key + "\"",
          .body = request.method + " " + request.path + " " + request.body};
}

std::string SocketIn(const TemporaryFolder& folder) {
  return (folder.path() / "admin.sock").string();
}

std::unique_ptr<AdminListener> Listen(const TemporaryFolder& folder, AdminHandler handler = Echo,
                                      Milliseconds deadline = kLimit) {
  auto listener = AdminListener::Start(
      {.path = SocketIn(folder), .group = "no-such-group", .request_deadline = deadline},
      std::move(handler));
  REQUIRE(listener.has_value());
  return std::move(listener).value();
}

// A connection that speaks bytes instead of HTTP.
class RawPeer {
 public:
  explicit RawPeer(const std::string& path) : file_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    REQUIRE(::connect(file_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  }
  ~RawPeer() { ::close(file_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  void Send(const std::string& text) const {
    (void)::send(file_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  // Until the other side closes.
  [[nodiscard]] std::string ReadAll() const {
    std::string text;
    std::array<char, 4096> block{};
    for (ssize_t count = 1; count > 0;) {
      count = ::recv(file_, block.data(), block.size(), 0);
      if (count > 0) text.append(block.data(), static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int file_;
};

TEST_CASE("a request reaches the handler and its answer comes back whole", "[unit]") {
  const TemporaryFolder folder;
  const auto listener = Listen(folder);
  const std::string body(900'000, 'x');
  const AdminRequest request{
      .method = "POST", .path = "/a b", .idempotency_key = "key", .body = body};
  const auto answer = CallAdmin(SocketIn(folder), request, kLimit);
  REQUIRE(answer.has_value());
  CHECK(answer->status == 201);
  CHECK(answer->etag == "\"key\"");
  CHECK(answer->body == "POST /a b " + body);
}

TEST_CASE("a large answer comes back whole", "[unit]") {
  const TemporaryFolder folder;
  const std::string model(20'000'000, 'm');
  const auto listener =
      Listen(folder, [&](const AdminRequest&) { return AdminResponse{.body = model}; });
  const auto answer = CallAdmin(SocketIn(folder), {.path = "/model"}, kLimit);
  REQUIRE(answer.has_value());
  CHECK(answer->body == model);
}

TEST_CASE("the socket is for its owner and its group alone", "[unit]") {
  const TemporaryFolder folder;
  const auto listener = Listen(folder);
  struct stat facts {};
  REQUIRE(::stat(SocketIn(folder).c_str(), &facts) == 0);
  CHECK(S_ISSOCK(facts.st_mode));
  CHECK((facts.st_mode & 07777U) == 0660U);
}

TEST_CASE("without a daemon a command meets SKEP-5401, with the socket's path", "[unit]") {
  const TemporaryFolder folder;
  const auto missing = CallAdmin(SocketIn(folder), {.path = "/"}, kLimit);
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == 5401);
  CHECK(missing.error().message ==
        "daemon not reachable at " + SocketIn(folder) + " (not running?)");
  CHECK(missing.error().hint == "systemctl status skep-aggregator");
}

TEST_CASE("an answer that does not come is SKEP-5407", "[unit]") {
  const TemporaryFolder folder;
  std::mutex mutex;
  std::condition_variable changed;
  bool may_end = false;
  const auto listener = Listen(folder, [&](const AdminRequest&) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return may_end; });
    return AdminResponse{};
  });
  const auto answer = CallAdmin(SocketIn(folder), {.path = "/"}, Milliseconds(50));
  CHECK(answer.has_value() == false);
  CHECK(answer.error().code == 5407);
  const std::scoped_lock lock(mutex);
  may_end = true;
  changed.notify_all();
}

TEST_CASE("a socket that a killed daemon left is replaced", "[unit]") {
  const TemporaryFolder folder;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  SocketIn(folder).copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(left, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  ::close(left);
  const auto listener = Listen(folder);
  CHECK(CallAdmin(SocketIn(folder), {.path = "/"}, kLimit).has_value());
}

TEST_CASE("a socket that is in use stays with its owner: SKEP-5201", "[unit]") {
  const TemporaryFolder folder;
  const auto first = Listen(folder);
  const auto second = AdminListener::Start({.path = SocketIn(folder), .group = {}}, Echo);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == 5201);
  CHECK(CallAdmin(SocketIn(folder), {.path = "/"}, kLimit).has_value());
}

TEST_CASE("somebody's file at the socket's path is not touched: SKEP-4001", "[unit]") {
  const TemporaryFolder folder;
  (void)folder.Write("admin.sock", "precious");
  const auto listener = AdminListener::Start({.path = SocketIn(folder), .group = {}}, Echo);
  REQUIRE_FALSE(listener.has_value());
  CHECK(listener.error().code == 4001);
  CHECK(std::filesystem::file_size(SocketIn(folder)) == 8);
}

TEST_CASE("a path too long for a socket is SKEP-1102 on both sides", "[unit]") {
  const std::string path = "/tmp/" + std::string(200, 'x');
  const auto listener = AdminListener::Start({.path = path, .group = {}}, Echo);
  REQUIRE_FALSE(listener.has_value());
  CHECK(listener.error().code == 1102);
  CHECK(CallAdmin(path, {.path = "/"}, kLimit).error().code == 1102);
}

TEST_CASE("what is no bounded HTTP request is refused by status, and reaches nobody", "[unit]") {
  const TemporaryFolder folder;
  std::atomic<int> handled = 0;
  const auto listener = Listen(folder, [&](const AdminRequest&) {
    ++handled;
    return AdminResponse{};
  });
  const std::string head = "POST / HTTP/1.1\r\nHost: localhost\r\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"\x16\x03\x01 this is not HTTP\r\n\r\n", " 400 "},
      {head + "X: " + std::string(9000, 'x') + "\r\n\r\n", " 431 "},
      {head + "Content-Length: 1048577\r\n\r\n", " 413 "},
      {"GET /a%zz HTTP/1.1\r\n\r\n", " 400 "},
      {"GET nowhere HTTP/1.1\r\n\r\n", " 400 "}};
  for (const auto& [sent, status] : cases) {
    const RawPeer peer(SocketIn(folder));
    peer.Send(sent);
    const std::string answer = peer.ReadAll();
    INFO(sent.substr(0, 60));
    CHECK(answer.substr(0, 14).find(status) != std::string::npos);
  }
  CHECK(handled == 0);
}

TEST_CASE("a request that does not arrive in time is answered with 408", "[unit]") {
  const TemporaryFolder folder;
  const auto listener = Listen(folder, Echo, Milliseconds(50));
  const RawPeer peer(SocketIn(folder));
  peer.Send("GET / HT");
  CHECK(peer.ReadAll().substr(0, 12) == "HTTP/1.1 408");
}

TEST_CASE("beyond 64 connections one is closed unanswered, and the others live", "[unit]") {
  const TemporaryFolder folder;
  const auto listener = Listen(folder);
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 64; ++i) peers.push_back(std::make_unique<RawPeer>(SocketIn(folder)));
  const RawPeer refused(SocketIn(folder));
  CHECK(refused.ReadAll().empty());
  peers.back()->Send("GET / HTTP/1.1\r\n\r\n");
  CHECK(peers.back()->ReadAll().substr(0, 12) == "HTTP/1.1 201");
}

TEST_CASE("the listener ends while a silent peer is connected, and takes its socket along",
          "[unit]") {
  const TemporaryFolder folder;
  auto listener = Listen(folder);
  const RawPeer peer(SocketIn(folder));
  peer.Send("GET / HT");
  listener.reset();
  CHECK_FALSE(std::filesystem::exists(SocketIn(folder)));
}

}  // namespace
}  // namespace skep::test
