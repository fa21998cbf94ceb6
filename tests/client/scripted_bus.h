// A D-Bus system bus for tests: a socket, one connection, and a thread that does as it is told.
//
// Messages are put together here by hand, so that client and test do not share a mistake.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/agent/system_bus.h"
#include "shared/base/check.h"
#include "tests/support/temporary_folder.h"

namespace skep::test {

// A number as D-Bus writes it at position `at` of a message: after the zeros that align it.
inline std::string BusNumber(bool is_big, std::size_t at, std::size_t size, std::uint64_t value) {
  std::string text((size - at % size) % size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t shift = 8 * (is_big ? size - 1 - i : i);
    text += static_cast<char>(value >> shift & 0xFFU);
  }
  return text;
}

struct BusMessage {
  bool is_big = false;
  char type = 2;  // 1 call, 2 return, 3 error, 4 signal
  std::uint32_t reply_to = 0;
  std::string signature = "v";
  std::string body{};

  [[nodiscard]] std::string Text() const {
    std::string fields("\x05\x01u\0", 4);
    fields += BusNumber(is_big, fields.size(), 4, reply_to);
    fields +=
        std::string("\x07\x01s\0", 4) + BusNumber(is_big, 12, 4, 4) + std::string(":1.4\0", 5);
    fields.resize(24, '\0');
    fields +=
        std::string("\x08\x01g\0", 4) + static_cast<char>(signature.size()) + signature + '\0';
    std::string text{is_big ? 'B' : 'l', type, 1, 1};
    text += BusNumber(is_big, 4, 4, body.size());
    text += BusNumber(is_big, 8, 4, 77);  // the sender's serial
    text += BusNumber(is_big, 12, 4, fields.size());
    text += fields;
    text.resize((text.size() + 7) / 8 * 8, '\0');
    return text + body;
  }
};

// The value of a property: 'u' or 'b' of four bytes, 't' of eight.
inline std::string BusVariant(char type, std::uint64_t value, bool is_big = false) {
  const std::string head{1, type, 0};
  return head + BusNumber(is_big, head.size(), type == 't' ? 8 : 4, value);
}

class ScriptedBus {
 public:
  using Script = std::function<void(ScriptedBus&)>;

  // The script runs in a thread once somebody has connected; after it the connection is closed.
  explicit ScriptedBus(Script script) : path_((place_.path() / "bus").string()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    SKEP_CHECK(path_.size() < sizeof(address.sun_path));
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    SKEP_CHECK(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
               0);
    SKEP_CHECK(::listen(listener_, 1) == 0);
    thread_ = std::thread([this, run = std::move(script)] {
      pollfd wanted{listener_, POLLIN, 0};
      if (::poll(&wanted, 1, 20'000) != 1) return;
      peer_ = ::accept(listener_, nullptr, nullptr);
      run(*this);
      ::close(peer_);
    });
  }
  ~ScriptedBus() {
    Wait();
    ::close(listener_);
  }
  ScriptedBus(const ScriptedBus&) = delete;
  ScriptedBus& operator=(const ScriptedBus&) = delete;

  [[nodiscard]] agent::SystemBus At(Milliseconds patience = Milliseconds(20'000)) const {
    return agent::SystemBus(path_, patience);
  }
  // Until the script is done; then what was heard may be looked at.
  void Wait() {
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] const std::string& login() const { return login_; }
  [[nodiscard]] const std::vector<std::string>& calls() const { return calls_; }

  // --- for scripts ---

  void Say(const std::string& text) const {
    (void)::send(peer_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  // What comes up to `end`, or to the end of the connection.
  [[nodiscard]] std::string Hear(const std::string& end) const {
    std::string heard;
    char next = 0;
    while (!heard.ends_with(end) && ::recv(peer_, &next, 1, 0) == 1) heard += next;
    return heard;
  }
  [[nodiscard]] std::string HearBytes(std::size_t count) const {
    std::string heard(count, '\0');
    const ssize_t got = ::recv(peer_, heard.data(), count, MSG_WAITALL);
    heard.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return heard;
  }
  void Welcome() {
    login_ = Hear("\r\n");
    Say("OK 0123456789abcdef0123456789abcdef\r\n");
    SKEP_CHECK(Hear("\r\n") == "BEGIN\r\n");
  }
  // The next call, or nothing after the last one.
  [[nodiscard]] std::string HearCall() {
    std::string call = HearBytes(16);
    if (call.size() < 16) return {};
    const auto number = [&call](std::size_t at) {
      std::uint32_t value = 0;
      std::memcpy(&value, call.data() + at, sizeof(value));
      return value;
    };
    call += HearBytes((number(12) + 7) / 8 * 8 + number(4));
    calls_.push_back(call);
    return call;
  }
  [[nodiscard]] static std::uint32_t SerialOf(const std::string& call) {
    std::uint32_t serial = 0;
    std::memcpy(&serial, call.data() + 8, sizeof(serial));
    return serial;
  }

  // A bus on which properties have these values; others are refused.
  struct Value {
    char type;
    std::uint64_t value;
  };
  [[nodiscard]] static Script Knows(std::map<std::string, Value> properties, bool is_big = false) {
    return [properties = std::move(properties), is_big](ScriptedBus& bus) {
      bus.Welcome();
      for (std::string call = bus.HearCall(); !call.empty(); call = bus.HearCall()) {
        BusMessage answer{.is_big = is_big,
                          .type = 3,
                          .reply_to = SerialOf(call),
                          .signature = "s",
                          .body = BusNumber(is_big, 0, 4, 2) + std::string("no\0", 3)};
        for (const auto& [name, value] : properties) {
          if (call.find(name + '\0') == std::string::npos) continue;
          answer.type = 2;
          answer.signature = "v";
          answer.body = BusVariant(value.type, value.value, is_big);
        }
        bus.Say(answer.Text());
      }
    };
  }

 private:
  TemporaryFolder place_;
  std::string path_;
  int listener_ = -1;
  int peer_ = -1;
  std::string login_;
  std::vector<std::string> calls_;
  std::thread thread_;
};

}  // namespace skep::test
