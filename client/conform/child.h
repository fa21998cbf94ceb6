// Child: a process that the harness starts, watches and ends, by its own id alone.
//
// It leads a process group of its own, dies with the harness, and its output goes to a file. What
// it uses is read from /proc. An object that goes kills and reaps what still runs of the group.
// One thread. Source: proc(5).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/conform/den.h"
#include "shared/base/clock.h"

namespace skep::conform {

struct Start {
  std::vector<std::string> words;  // the program's path first
  std::string log;                 // standard output and error are added to it
  std::string output = {};         // standard output apart, or empty
  const Den* den = nullptr;
  std::vector<std::string> variables = {};  // "NAME=VALUE", beside this process's own
};

// How it ended.
struct Exit {
  int code = 0;    // of an end in order
  int signal = 0;  // of another
};
[[nodiscard]] std::string TextOf(const Exit& exit);

class Child {
 public:
  // SKEP-5205 if there can be no process. A program that cannot be executed ends with code 127.
  [[nodiscard]] static Result<Child> Spawn(const Start& start);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  [[nodiscard]] pid_t id() const { return id_; }
  // How it ended, or nothing after `limit`.
  std::optional<Exit> WaitFor(Milliseconds limit);
  [[nodiscard]] bool has_ended() { return WaitFor(Milliseconds(0)).has_value(); }
  void Signal(int number) const;
  // SIGKILL to the whole group, and reaped.
  void Kill();

  // Of a process that runs; 0 where it has just gone.
  [[nodiscard]] Nanoseconds CpuTime() const;
  [[nodiscard]] std::uint64_t ResidentBytes() const;
  [[nodiscard]] std::uint64_t PeakBytes() const;
  [[nodiscard]] std::vector<pid_t> Children() const;
  // Its TCP sockets: local port of those that listen, remote address and port of the others.
  struct Sockets {
    std::vector<std::string> listening;
    std::vector<std::string> peers;  // "127.0.0.1:8443"
  };
  [[nodiscard]] Sockets TcpSockets() const;

 private:
  Child() = default;
  [[nodiscard]] std::uint64_t StatusBytes(const std::string& key) const;

  pid_t id_ = -1;
  int end_ = -1;  // readable once it has ended
  std::optional<Exit> exit_;
};

// Until `limit` has passed.
void Pause(Milliseconds limit);

}  // namespace skep::conform
