#include "client/conform/request.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

namespace skep::conform {
namespace {

namespace fs = std::filesystem;

bool IsExecutable(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<std::string> FindInPath(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view left = path == nullptr ? "/usr/bin:/bin" : path;
  while (!left.empty()) {
    const std::size_t end = left.find(':');
    const fs::path found = fs::path(left.substr(0, end)) / name;
    if (IsExecutable(found)) return fs::absolute(found).string();
    left = end == std::string_view::npos ? std::string_view() : left.substr(end + 1);
  }
  return std::nullopt;
}

}  // namespace

Result<std::set<int>> ParseOnly(std::string_view text, const std::set<int>& known) {
  std::set<int> numbers;
  while (true) {
    const std::string_view word = text.substr(0, text.find(','));
    int number = 0;
    const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (fault != std::errc() || end != word.data() + word.size()) {
      return Error{
          1101, "--only takes numbers of checks, as in 1,2,20, not \"" + std::string(word) + "\"",
          ""};
    }
    if (!known.contains(number)) {
      return Error{1102, "--only: there is no check " + std::to_string(number),
                   "the numbers are in docs/conformance.md; without --only all are made"};
    }
    numbers.insert(number);
    if (word.size() == text.size()) return numbers;
    text.remove_prefix(word.size() + 1);
  }
}

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find(' '));
    words.emplace_back(word);
    text.remove_prefix(word.size());
  }
}

std::vector<std::string> Fill(std::vector<std::string> words,
                              const std::map<std::string, std::string>& values) {
  for (std::string& word : words) {
    for (const auto& [name, value] : values) {
      const std::string mark = "{" + name + "}";
      for (std::size_t at = word.find(mark); at != std::string::npos;
           at = word.find(mark, at + value.size())) {
        word.replace(at, mark.size(), value);
      }
    }
  }
  return words;
}

bool Mentions(const std::vector<std::string>& words, std::string_view name) {
  const std::string mark = "{" + std::string(name) + "}";
  for (const std::string& word : words) {
    if (word.find(mark) != std::string::npos) return true;
  }
  return false;
}

Result<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (IsExecutable(name)) return fs::absolute(name).lexically_normal().string();
    return Error{1102, "check: " + name + " is not a program that can be executed", ""};
  }
  if (const auto found = FindInPath(name)) return *found;
  return Error{1102, "check: there is no program " + name + " in PATH",
               "give its path, as in ./" + name};
}

Result<std::string> FindCompanion(const std::string& name) {
  std::error_code fault;
  const fs::path own = fs::read_symlink("/proc/self/exe", fault);
  if (!fault && IsExecutable(own.parent_path() / name)) return (own.parent_path() / name).string();
  if (const auto found = FindInPath(name)) return *found;
  return Error{1102, "check: " + name + " is not beside this program and not in PATH",
               "install the package " + name};
}

}  // namespace skep::conform
