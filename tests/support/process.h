// Process: a program that a test starts, talks to and ends, by its own process id alone.
//
// Standard output is read line by line as it comes; standard error goes to a file in the test's
// folder. Every wait has a deadline. A process that still runs when its object goes is killed and
// reaped. For tests only; one thread at a time.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "shared/base/clock.h"

namespace skep::test {

struct Command {
  std::vector<std::string> words = {};      // the program first
  std::string folder = {};                  // working folder; empty: the test's own
  std::string input = {};                   // standard input
  std::vector<std::string> variables = {};  // "NAME=VALUE", beside the test's own environment
};

class Process {
 public:
  // `error_file`: where its standard error goes.
  Process(const Command& command, const std::string& error_file);
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  [[nodiscard]] pid_t id() const { return id_; }
  // The exit code (128 + signal of one that a signal ended); nothing if it runs on after `limit`.
  [[nodiscard]] std::optional<int> WaitFor(Milliseconds limit);
  // The next line of standard output without its line feed; nothing at its end or after `limit`.
  [[nodiscard]] std::optional<std::string> ReadLine(Milliseconds limit);
  void Signal(int number) const;

  // Everything that has not been read by ReadLine, once it has ended.
  [[nodiscard]] std::string RestOfOutput();
  [[nodiscard]] std::string Errors() const;

 private:
  [[nodiscard]] bool Fill(Milliseconds limit);

  pid_t id_ = -1;
  int exit_event_ = -1;  // becomes readable when the process ends
  int output_ = -1;
  std::string error_file_;
  std::string pending_;
  std::optional<int> code_;
};

struct Outcome {
  int code = -1;  // -1: killed at the deadline
  std::string out;
  std::string err;
  Nanoseconds took{};
};

// Runs a program to its end.
[[nodiscard]] Outcome RunToEnd(const Command& command, Milliseconds limit = Milliseconds(60'000));

}  // namespace skep::test
