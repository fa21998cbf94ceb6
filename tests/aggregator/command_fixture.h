// Installation: an aggregator made by `init` in a fresh folder, and its commands run as a user
// would.
#pragma once

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace skep::test {

inline const std::string kAggregator = SKEP_BINARY_DIR "/bin/skep-aggregator";

inline Outcome Aggregator(std::vector<std::string> words) {
  words.insert(words.begin(), kAggregator);
  return RunToEnd({.words = std::move(words)});
}

inline std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Installation {
 public:
  Installation() {
    const Outcome made = Aggregator({"init", "--allow-root", "--name", "127.0.0.1", "--dir",
                                     root().string(), "--devices-port", "0", "--enrol-port", "0"});
    INFO(made.err);
    REQUIRE(made.code == 0);
  }

  [[nodiscard]] std::filesystem::path root() const { return folder_.path() / "agg"; }
  [[nodiscard]] std::filesystem::path config() const { return root() / "server.toml"; }
  [[nodiscard]] std::filesystem::path pki(const char* name) const {
    return root() / "store" / "pki" / name;
  }

  [[nodiscard]] std::vector<std::string> Words(std::vector<std::string> words) const {
    words.insert(words.begin(), {kAggregator, "--allow-root", "--config", config().string()});
    return words;
  }
  [[nodiscard]] Outcome Run(std::vector<std::string> words) const {
    return RunToEnd({.words = Words(std::move(words))});
  }
  // Appends to server.toml; an open section goes on: give "[section]" first.
  void Configure(const std::string& lines) const {
    std::ofstream(config(), std::ios::app) << lines << "\n";
  }
  void Replace(const std::string& from, const std::string& to) const {
    std::string text = ReadText(config());
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    std::ofstream(config(), std::ios::trunc) << text;
  }

  // The daemon, once it accepts connections.
  [[nodiscard]] Process Serve() const {
    Process process({.words = Words({"serve"})}, (folder_.path() / "serve.err").string());
    const auto ready = process.ReadLine(Milliseconds(60'000));
    INFO(process.Errors());
    REQUIRE(ready.has_value());
    REQUIRE(ready->rfind("ready  devices 127.0.0.1:", 0) == 0);
    return process;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace skep::test
