#include "client/cli/dev_aggregator.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "shared/base/bytes.h"
#include "shared/base/file.h"

namespace skep::cli {
namespace {

constexpr const char* kProgram = "skep-aggregator";
constexpr std::size_t kLogLines = 5;
constexpr std::uint64_t kLongestLog = std::uint64_t{64} << 20;

// A device comes back soon, a run waits for a first build, and the end does not wait for devices.
constexpr const char* kSettings = R"(
[pace]
min_return = "1s"

[service]
drain = "1s"
)";

bool IsProgram(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0;
}

// The first number of an error that a text names.
int NumberIn(const std::string& text) {
  constexpr std::string_view kPrefix = "SKEP-";
  const std::size_t at = text.find(kPrefix);
  const int number = at == std::string::npos ? 0 : std::atoi(text.c_str() + at + kPrefix.size());
  constexpr int kInternal = 9001;
  return number > 0 ? number : kInternal;
}

}  // namespace

Result<std::string> FindAggregator() {
  std::error_code ignored;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!own.empty()) {
    const std::string beside = own.parent_path() / kProgram;
    if (IsProgram(beside)) return beside;
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string found = (folder.empty() ? "." : folder) + "/" + kProgram;
    if (IsProgram(found)) return found;
  }
  return Error{
      1402,
      std::string(kProgram) + " is neither beside " + own.filename().string() + " nor in PATH",
      "install the package skep-aggregator"};
}

DevAggregator::DevAggregator(std::string program, bool allows_root)
    : program_(std::move(program)), allows_root_(allows_root) {}

DevAggregator::~DevAggregator() {
  children_.EndAll();
  if (!folder_.empty()) static_cast<void>(RemoveWithContent(folder_));
}

std::vector<std::string> DevAggregator::Command(std::vector<std::string> words) const {
  std::vector<std::string> command{program_, "--config", PathOf("agg/server.toml")};
  if (allows_root_) command.emplace_back("--allow-root");
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

Error DevAggregator::WhatIsWrong(const std::string& said) const {
  std::string text = said;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return Error{NumberIn(text), std::string(kProgram) + " says: " + text, ""};
}

Result<std::string> DevAggregator::Call(std::vector<std::string> command) {
  SKEP_ASSIGN(const std::size_t child, children_.Start(std::move(command), ""));
  std::string text;
  while (const auto line = children_.ReadLine(child)) text += *line + "\n";
  if (children_.Wait(child) != 0) return WhatIsWrong(text);
  return text;
}

Result<std::string> DevAggregator::Ask(std::vector<std::string> words) {
  return Call(Command(std::move(words)));
}

Status DevAggregator::Start() {
  std::error_code ignored;
  std::string name = (std::filesystem::temp_directory_path(ignored) / "skep-dev-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    return Error{4001, "cannot make a folder like " + name + ": " + SystemReason(errno), ""};
  }
  folder_ = name;
  std::vector<std::string> init{program_, "--quiet"};
  if (allows_root_) init.emplace_back("--allow-root");
  init.insert(init.end(), {"init", "--name", "127.0.0.1", "--dir", PathOf("agg"), "--devices-port",
                           "0", "--enrol-port", "0"});
  SKEP_ASSIGN(const std::string made, Call(std::move(init)));
  SKEP_TRY(AppendToFile(PathOf("agg/server.toml"), AsBytes(kSettings), FileMode::kShared));
  SKEP_ASSIGN(const std::size_t server, children_.Start(Command({"serve"}), PathOf("log")));
  while (const auto line = children_.ReadLine(server)) {
    std::istringstream words(*line);
    for (std::string word; words >> word;) {
      if (word == "devices" && words >> devices_) return Ok();
    }
  }
  return WhatIsWrong(LastLines());
}

Status DevAggregator::WriteInFolder(const std::string& name, const std::string& content) const {
  return WriteFileAtomically(PathOf(name), AsBytes(content));
}

std::string DevAggregator::LastLines() const {
  const Result<Bytes> log = ReadFile(PathOf("log"), kLongestLog, 1010);
  if (!log.has_value()) return log.error().message;
  const std::string text(AsText(*log));
  std::size_t from = text.size();
  for (std::size_t lines = 0; lines <= kLogLines && from != std::string::npos && from > 0;
       ++lines) {
    from = text.rfind('\n', from - 1);
  }
  return from == std::string::npos ? text : text.substr(from + 1);
}

}  // namespace skep::cli
