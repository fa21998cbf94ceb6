#include "client/faultproxy/event.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

namespace skep::faultproxy {
namespace {

constexpr std::array<std::string_view, 10> kNames = {"ready",  "accepted", "connected", "fault",
                                                     "closed", "rule",     "done",      "problem",
                                                     "count",  "stopped"};

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7F) {
      out += fmt::format("\\u{:04x}", byte);  // each byte by itself, so that any input is valid
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void AddText(std::string& line, std::string_view name, std::string_view value) {
  if (!value.empty()) line += fmt::format(",\"{}\":{}", name, Quoted(value));
}

}  // namespace

void Add(Counters& to, const Counters& from) {
  to.up_in += from.up_in;
  to.up_out += from.up_out;
  to.down_in += from.down_in;
  to.down_out += from.down_out;
}

std::string EventLine(const Event& event) {
  constexpr double kMicrosecondsPerMs = 1000;
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(event.time).count();
  std::string line = fmt::format("{{\"event\":\"{}\",\"ms\":{:.3f}",
                                 kNames.at(static_cast<std::size_t>(event.kind)),
                                 static_cast<double>(us) / kMicrosecondsPerMs);
  AddText(line, "listen", event.listen);
  AddText(line, "upstream", event.upstream);
  if (event.connection != 0) line += fmt::format(",\"connection\":{}", event.connection);
  if (event.rule != 0) line += fmt::format(",\"rule\":{}", event.rule);
  if (event.verb) AddText(line, "fault", VerbName(*event.verb));
  if (event.direction) AddText(line, "direction", DirectionName(*event.direction));
  if (event.at) line += fmt::format(",\"at\":{}", *event.at);
  AddText(line, "how", event.how);
  if (event.counters) {
    const Counters& c = *event.counters;
    line += fmt::format(",\"up_in\":{},\"up_out\":{},\"down_in\":{},\"down_out\":{}", c.up_in,
                        c.up_out, c.down_in, c.down_out);
  }
  if (event.code != 0) line += fmt::format(",\"code\":{}", event.code);
  AddText(line, "text", event.text);
  return line + "}";
}

}  // namespace skep::faultproxy
