#include "client/faultproxy/socket.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "shared/base/file.h"
#include "shared/config/host_port.h"

namespace skep::faultproxy {
namespace {

constexpr int kBacklog = 1024;
constexpr std::size_t kPiece = 16UL * 1024;
constexpr int kMostPieces = 16;

void SetFlag(int descriptor, int level, int name) {
  const int on = 1;
  (void)::setsockopt(descriptor, level, name, &on, sizeof on);
}

Transfer Failed(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) return {};
  return {.kind = Transfer::Kind::kBroken};
}

const sockaddr* Generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

}  // namespace

std::uint16_t Address::port() const {
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

std::string Address::text() const {
  std::array<char, INET6_ADDRSTRLEN> host{};
  const bool is_six = storage.ss_family == AF_INET6;
  const void* const from =
      is_six ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr)
             : &reinterpret_cast<const sockaddr_in&>(storage).sin_addr;
  (void)::inet_ntop(storage.ss_family, from, host.data(), host.size());
  const std::string name = host.data();
  return (is_six ? "[" + name + "]" : name) + ":" + std::to_string(port());
}

bool Address::is_loopback() const {
  if (storage.ss_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
  }
  constexpr unsigned kHostBits = 24;
  const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
  return ntohl(four.sin_addr.s_addr) >> kHostBits == IN_LOOPBACKNET;
}

Result<std::vector<Address>> Resolve(const std::string& host_and_port) {
  const auto parsed = config::ParseHostPort(host_and_port);
  if (!parsed) {
    return Error{5202, "\"" + host_and_port.substr(0, 300) + "\" is not ADDRESS:PORT",
                 "as in 127.0.0.1:8443"};
  }
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure =
      ::getaddrinfo(parsed->host.c_str(), std::to_string(parsed->port).c_str(), &wanted, &found);
  if (failure != 0) {
    return Error{3002, "name not found: " + parsed->host + ": " + ::gai_strerror(failure),
                 "give an address, or correct the name"};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Address& address = addresses.emplace_back();
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
  }
  return addresses;
}

Result<Socket> Socket::Bind(const Address& address) {
  Socket made(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  SetFlag(made.descriptor_, SOL_SOCKET, SO_REUSEADDR);
  if (made.is_open() && ::bind(made.descriptor_, Generic(address), address.size) == 0) return made;
  const int error = errno;
  const std::string where = "cannot listen on " + address.text() + ": " + SystemReason(error);
  if (error == EACCES) return Error{5209, where, "choose a port from 1024 on, or 0 for a free one"};
  return Error{5201, where, "choose another address or port; port 0 is a free one"};
}

Socket Socket::Connect(const Address& address, int& system_error) {
  Socket made(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  system_error = 0;
  if (!made.is_open()) {
    system_error = errno;
    return made;
  }
  SetFlag(made.descriptor_, IPPROTO_TCP, TCP_NODELAY);
  if (::connect(made.descriptor_, Generic(address), address.size) != 0 && errno != EINPROGRESS &&
      errno != EINTR) {
    system_error = errno;
  }
  return made;
}

Address Socket::LocalAddress() const {
  Address address;
  address.size = sizeof address.storage;
  (void)::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address.storage), &address.size);
  return address;
}

int Socket::Listen() const {
  return ::listen(descriptor_, kBacklog) == 0 ? 0 : errno;
}

Socket Socket::Accept(int& system_error) const {
  Socket made(::accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  system_error = made.is_open() ? 0 : errno;
  if (made.is_open()) SetFlag(made.descriptor_, IPPROTO_TCP, TCP_NODELAY);
  return made;
}

int Socket::ConnectError() const {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

Transfer Socket::Read(std::span<std::uint8_t> into) const {
  const ssize_t count = ::recv(descriptor_, into.data(), into.size(), 0);
  if (count < 0) return Failed(errno);
  if (count == 0) return {.kind = Transfer::Kind::kEnd};
  return {.kind = Transfer::Kind::kSome, .count = static_cast<std::size_t>(count)};
}

Transfer Socket::Write(BytesView bytes) const {
  const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count < 0) return Failed(errno);
  return {.kind = Transfer::Kind::kSome, .count = static_cast<std::size_t>(count)};
}

Transfer Socket::Drain() const {
  std::array<std::uint8_t, kPiece> waste{};
  Transfer last;
  std::size_t total = 0;
  for (int i = 0; i < kMostPieces; ++i) {
    last = Read(waste);
    total += last.count;
    if (last.kind != Transfer::Kind::kSome) break;
  }
  last.count = total;
  return last;
}

void Socket::EndWriting() const {
  (void)::shutdown(descriptor_, SHUT_WR);
}

bool Socket::HasDelivered() const {
  int waiting = 0;
  return ::ioctl(descriptor_, SIOCOUTQ, &waiting) != 0 || waiting == 0;
}

void Socket::Reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  (void)::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  Close();
}

void Socket::Close() {
  if (is_open()) ::close(std::exchange(descriptor_, -1));
}

}  // namespace skep::faultproxy
