// Children: programs that this one starts, listens to and never leaves behind.
//
// Each gets SIGKILL from the system when this process dies in whatever way (PR_SET_PDEATHSIG), a
// process group of its own, so that Ctrl-C is this program's question alone, and an empty standard
// input. Start, ReadLine and Wait belong to the thread that made the object; Stop comes from any.
#pragma once

#include <sys/types.h>

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace skep::cli {

class Children {
 public:
  Children() = default;
  ~Children() { EndAll(); }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Starts words[0], a path. Standard output is for ReadLine; standard error goes to `error_file`,
  // or with "" the same way as standard output. The number of the child. SKEP-4001 if the system
  // refuses, SKEP-5407 after Stop.
  Result<std::size_t> Start(std::vector<std::string> words, const std::string& error_file);
  // The next line of its output without the line feed; nothing at its end.
  [[nodiscard]] std::optional<std::string> ReadLine(std::size_t child);
  // Until it has ended: its exit code, 128 + signal of one that a signal ended.
  int Wait(std::size_t child);
  // Ends those that still run, and waits for them: SIGTERM, and SIGKILL for one that takes longer
  // than ten seconds. Afterwards nothing but Stop may be called.
  void EndAll();
  // Asks all to end, and starts none any more. Any thread.
  void Stop();

 private:
  struct Child {
    pid_t id = -1;     // -1: reaped
    int output = -1;   // what it prints
    std::string text;  // read, and not yet given
    int code = 0;
  };
  void End(Child& child);
  int Reap(Child& child);

  std::mutex mutex_;  // a process id is signalled only while it is not reaped
  bool is_stopped_ = false;
  std::deque<Child> children_;
};

}  // namespace skep::cli
