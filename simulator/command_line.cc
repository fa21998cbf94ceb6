#include "simulator/command_line.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "shared/config/utf8.h"
#include "simulator/json.h"

namespace skep::simulator {
namespace {

std::string ShellWord(const std::string& word) {
  constexpr std::string_view kPlain = "=-_./,:+@%";
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kPlain.find(c) != std::string_view::npos;
  });
  if (is_plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string LastPart(const std::string& word) {
  if (!word.starts_with('/')) return word;
  return word.substr(word.rfind('/') + 1);
}

}  // namespace

std::string CommandText(int argc, char** argv) {
  std::string text = "skep-simulator";
  for (int i = 1; i < argc; ++i) text += " " + ShellWord(LastPart(argv[i]));
  return text;
}

int RefuseCommandLine(const Console& console, const std::string& message, const std::string& hint,
                      const std::string& command) {
  const std::string shown = config::Printable(message);
  if (console.options().is_json) {
    JsonObject error;
    error.Add("message", shown);
    if (!hint.empty()) error.Add("hint", hint);
    JsonObject object;
    object.Add("schema", 1).Add("status", "error").Add("exit_code", kExitUsage);
    std::fputs((object.Raw("error", error.Text()).Text() + "\n").c_str(), stdout);
    return kExitUsage;
  }
  std::string text = "error: " + shown + "\n";
  if (!hint.empty()) text += "   " + hint + "\n";
  text += fmt::format("   skep-simulator {}{}--help\n", command, command.empty() ? "" : " ");
  std::fputs(text.c_str(), stderr);
  return kExitUsage;
}

}  // namespace skep::simulator
