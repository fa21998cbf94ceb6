// World: an upstream, a proxy in front of it, and clients, all over real sockets of the loopback
// device; time is the test's.
//
// Every wait has a deadline of ten seconds, which only a failing test reaches.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/faultproxy/background.h"
#include "tests/support/catch.h"

namespace skep::faultproxy::test {

// One end of a connection.
class Peer {
 public:
  Peer() = default;
  explicit Peer(int descriptor) : descriptor_(descriptor) {}
  ~Peer() { Close(); }
  Peer(Peer&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Peer& operator=(Peer&& other) noexcept {
    Close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    return *this;
  }

  // Connects to that port of 127.0.0.1; not open if that fails, with the system's error.
  [[nodiscard]] static Peer To(std::uint16_t port, int* error = nullptr);

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  // Whether everything could be written.
  bool Send(std::string_view bytes) const;
  // So many bytes, or fewer if the connection ends or fails.
  [[nodiscard]] std::string Receive(std::size_t count) const;
  // Reads to the end; "end", "reset" or "late" is why it is over.
  [[nodiscard]] std::pair<std::string, std::string> ReceiveAll() const;
  void EndWriting() const;
  void Reset();
  void Close();

 private:
  int descriptor_ = -1;
};

class Upstream {
 public:
  Upstream();
  ~Upstream();
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] Peer Accept() const;
  // Whether somebody waits to be accepted now.
  [[nodiscard]] bool HasCaller() const;

 private:
  int descriptor_ = -1;
  std::uint16_t port_ = 0;
};

struct World {
  // A proxy with these rules, in front of `upstream`.
  explicit World(const std::vector<std::string>& rules, ProxyOptions options = {});

  // Time begins at one second and moves only here.
  void Advance(Nanoseconds span);
  // A client, and its connection as the upstream sees it.
  struct Pair {
    Peer client;
    Peer server;
  };
  [[nodiscard]] Pair Connect();
  [[nodiscard]] Peer Call() { return Peer::To(proxy->port()); }
  // The counters of all, once everything that is due now has been done.
  [[nodiscard]] Counters Count();
  // Counts until the proxy has received so many bytes of clients, or of the upstream.
  [[nodiscard]] Counters AwaitIn(std::uint64_t up, std::uint64_t down);
  // The first event of that kind; a test that waits in vain fails.
  Event Await(Event::Kind kind, std::uint32_t connection = 0);

  std::atomic<std::int64_t> time{1'000'000'000};
  Upstream upstream;
  std::unique_ptr<BackgroundProxy> proxy;
};

// `count` bytes that differ from their neighbours and depend on `salt`.
[[nodiscard]] std::string Pattern(std::size_t count, unsigned salt = 0);
// Open descriptors of this process.
[[nodiscard]] std::size_t OpenDescriptors();

}  // namespace skep::faultproxy::test
