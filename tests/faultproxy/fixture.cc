#include "tests/faultproxy/fixture.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <iterator>

#include "shared/base/check.h"

namespace skep::faultproxy::test {
namespace {

constexpr int kPatienceSeconds = 10;

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void SetPatience(int descriptor) {
  const timeval patience{.tv_sec = kPatienceSeconds, .tv_usec = 0};
  SKEP_CHECK(::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  SKEP_CHECK(::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0);
}

bool IsReadable(int descriptor, int milliseconds) {
  pollfd wanted{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, milliseconds) == 1;
}

}  // namespace

Peer Peer::To(std::uint16_t port, int* error) {
  Peer made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SKEP_CHECK(made.is_open());
  SetPatience(made.descriptor_);
  const sockaddr_in address = Loopback(port);
  const int result =
      ::connect(made.descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (error != nullptr) *error = result == 0 ? 0 : errno;
  if (result != 0) made.Close();
  return made;
}

bool Peer::Send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::string Peer::Receive(std::size_t count) const {
  std::string bytes(count, '\0');
  std::size_t have = 0;
  while (have < count) {
    const ssize_t got = ::recv(descriptor_, bytes.data() + have, count - have, 0);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

std::pair<std::string, std::string> Peer::ReceiveAll() const {
  std::string bytes;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t got = ::recv(descriptor_, piece.data(), piece.size(), 0);
    if (got == 0) return {bytes, "end"};
    if (got < 0) return {bytes, errno == ECONNRESET ? "reset" : "late"};
    bytes.append(piece.data(), static_cast<std::size_t>(got));
  }
}

void Peer::EndWriting() const {
  (void)::shutdown(descriptor_, SHUT_WR);
}

void Peer::Reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  (void)::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  Close();
}

void Peer::Close() {
  if (is_open()) ::close(std::exchange(descriptor_, -1));
}

Upstream::Upstream() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  SKEP_CHECK(::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  SKEP_CHECK(::listen(descriptor_, 1024) == 0);
  SKEP_CHECK(::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
}

Upstream::~Upstream() {
  ::close(descriptor_);
}

Peer Upstream::Accept() const {
  if (!IsReadable(descriptor_, kPatienceSeconds * 1000)) return {};
  const int accepted = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
  if (accepted >= 0) SetPatience(accepted);
  return Peer(accepted);
}

bool Upstream::HasCaller() const {
  return IsReadable(descriptor_, 0);
}

World::World(const std::vector<std::string>& rules, ProxyOptions options) {
  for (const std::string& rule : rules) options.rules.push_back(ParseRule(rule).value());
  if (options.upstream.empty()) options.upstream = "127.0.0.1:" + std::to_string(upstream.port());
  options.clock = [this] { return SteadyTime(Nanoseconds(time.load())); };
  auto started = BackgroundProxy::Start(std::move(options));
  REQUIRE(started);
  proxy = std::move(*started);
}

void World::Advance(Nanoseconds span) {
  time += span.count();
  proxy->Wake();
}

World::Pair World::Connect() {
  Pair pair;
  pair.client = Call();
  pair.server = upstream.Accept();
  REQUIRE(pair.client.is_open());
  REQUIRE(pair.server.is_open());
  return pair;
}

Counters World::Count() {
  (void)proxy->Do("count");
  const auto event = proxy->Do("count");
  REQUIRE(event);
  return event->counters.value();
}

Counters World::AwaitIn(std::uint64_t up, std::uint64_t down) {
  const SteadyTime until = ReadClock().steady + std::chrono::seconds(kPatienceSeconds);
  Counters counters = Count();
  while ((counters.up_in < up || counters.down_in < down) && ReadClock().steady < until) {
    counters = Count();
  }
  return counters;
}

Event World::Await(Event::Kind kind, std::uint32_t connection) {
  const auto event = proxy->WaitFor([=](const Event& one) {
    return one.kind == kind && (connection == 0 || one.connection == connection);
  });
  REQUIRE(event);
  return *event;
}

std::string Pattern(std::size_t count, unsigned salt) {
  std::string bytes(count, '\0');
  unsigned state = salt * 2654435761U + 1;
  for (char& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<char>(state >> 24U);
  }
  return bytes;
}

std::size_t OpenDescriptors() {
  const std::filesystem::directory_iterator folder("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(folder), end(folder)));
}

}  // namespace skep::faultproxy::test
