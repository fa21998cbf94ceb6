// DevAggregator: a skep-aggregator for this machine alone, with keys and a store that nobody keeps.
//
// Calls the installed program by its own commands; its folder lies below that for temporary files
// and goes with the object. One thread; Stop from any.
#pragma once

#include <string>
#include <vector>

#include "client/cli/child.h"
#include "shared/base/result.h"
#include "shared/base/try.h"

namespace skep::cli {

// skep-aggregator beside this program, else in PATH. SKEP-1402 if there is none.
[[nodiscard]] Result<std::string> FindAggregator();

class DevAggregator {
 public:
  // `allows_root`: for a user who is root, and wants it.
  DevAggregator(std::string program, bool allows_root);
  ~DevAggregator();
  DevAggregator(const DevAggregator&) = delete;
  DevAggregator& operator=(const DevAggregator&) = delete;

  // Makes the authorities and begins to serve on free ports of loopback. What the program says is
  // wrong, by its number; SKEP-5407 after Stop.
  [[nodiscard]] Status Start();
  // What one of its commands prints. Its errors, as those of Start.
  [[nodiscard]] Result<std::string> Ask(std::vector<std::string> words);
  // The same, line by line while it runs; a line may be an error's, too. Its exit code.
  template <class Teller>
  [[nodiscard]] Result<int> Follow(std::vector<std::string> words, const Teller& tell) {
    SKEP_ASSIGN(const std::size_t child, children_.Start(Command(std::move(words)), ""));
    while (const auto line = children_.ReadLine(child)) tell(*line);
    return children_.Wait(child);
  }
  [[nodiscard]] Status WriteInFolder(const std::string& name, const std::string& content) const;
  [[nodiscard]] std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }
  // Where devices connect: "127.0.0.1:41507".
  [[nodiscard]] const std::string& devices() const { return devices_; }
  // The end of the daemon's log.
  [[nodiscard]] std::string LastLines() const;
  // Ends the daemon and the command that runs. Any thread.
  void Stop() { children_.Stop(); }

 private:
  [[nodiscard]] std::vector<std::string> Command(std::vector<std::string> words) const;
  [[nodiscard]] Error WhatIsWrong(const std::string& said) const;
  [[nodiscard]] Result<std::string> Call(std::vector<std::string> command);

  std::string program_;
  bool allows_root_;
  std::string folder_;
  std::string devices_;
  Children children_;
};

}  // namespace skep::cli
