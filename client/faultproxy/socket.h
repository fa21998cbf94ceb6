// Socket, Address: a stream socket that never waits, and where it goes to.
//
// Thin over the system's calls: no buffers, no rules. Called by proxy.h, connection.h and shadow.h.
// One thread. Source: Skep durability, section 18.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/result.h"

namespace skep::faultproxy {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] std::uint16_t port() const;
  // "127.0.0.1:8443", "[::1]:8443".
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is_loopback() const;
};

// The addresses of "HOST:PORT", at least one, in the order to try them. SKEP-5202 for text of
// another form, SKEP-3002 for a name that is not found; waits for the system's resolver.
[[nodiscard]] Result<std::vector<Address>> Resolve(const std::string& host_and_port);

struct Transfer {
  enum class Kind : std::uint8_t {
    kSome,    // `count` bytes, at least one
    kLater,   // none now
    kEnd,     // the other side has ended
    kBroken,  // the connection is no more
  };
  Kind kind = Kind::kLater;
  std::size_t count = 0;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { Close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    Close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    return *this;
  }

  // A stream socket for the family of `address`, bound to it, but not listening. SKEP-5201,
  // SKEP-5209.
  [[nodiscard]] static Result<Socket> Bind(const Address& address);
  // Begins to connect; whether that worked shows once it is writable (ConnectError).
  [[nodiscard]] static Socket Connect(const Address& address, int& system_error);

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] Address LocalAddress() const;

  [[nodiscard]] int Listen() const;                      // 0 or the system's error
  [[nodiscard]] Socket Accept(int& system_error) const;  // EAGAIN: nobody waits
  [[nodiscard]] int ConnectError() const;

  [[nodiscard]] Transfer Read(std::span<std::uint8_t> into) const;
  [[nodiscard]] Transfer Write(BytesView bytes) const;
  // Reads what is there and throws it away, up to a bound; the last transfer.
  [[nodiscard]] Transfer Drain() const;
  // No more bytes will be written; those that were go first.
  void EndWriting() const;
  // Whether the other side has confirmed every byte that was written.
  [[nodiscard]] bool HasDelivered() const;
  // Closes so that the other side sees a reset. What it has not got yet is lost.
  void Reset();
  void Close();

 private:
  int descriptor_ = -1;
};

}  // namespace skep::faultproxy
