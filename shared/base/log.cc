#include "shared/base/log.h"

#include <array>
#include <map>
#include <mutex>

#include <fmt/format.h>

namespace skep {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames{"debug", "info", "warning", "error"};

bool IsPrintable(char c) {
  return c >= 0x20 && c < 0x7F;
}

// A record is one line: what could end it, or steer a terminal, is escaped. UTF-8 stays readable.
std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte >= 0x80 || IsPrintable(c) ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return line;
}

std::string FieldText(const LogField& field) {
  const bool needs_quotes =
      !field.is_number &&
      (field.value.empty() || field.value.find_first_of(" =\"\\") != std::string::npos);
  if (!needs_quotes) return OneLine(field.value);
  std::string quoted = "\"";
  for (const char c : field.value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return OneLine(quoted) + '"';
}

std::string JsonText(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      json += fmt::format("\\u{:04x}", byte);
    } else {
      json += c;
    }
  }
  return json + '"';
}

std::string BareLine(const LogRecord& record) {
  std::string line = record.code != 0 ? fmt::format("SKEP-{} ", record.code) : "";
  line += OneLine(record.message);
  for (const LogField& field : record.fields)
    line += fmt::format(" {}={}", field.name, FieldText(field));
  return line;
}

std::string TextLine(const LogRecord& record, LogFormat format, WallMs wall) {
  if (format == LogFormat::kBareText) return BareLine(record);
  constexpr std::size_t kTimeOfDay = 11;  // of 2026-11-30T18:04:05.123Z
  const std::string time = UtcText(wall);
  return fmt::format("{} {} {}",
                     format == LogFormat::kShortText ? time.substr(kTimeOfDay, 8) : time,
                     LogLevelName(record.level), BareLine(record));
}

std::string JsonLine(const LogRecord& record, WallMs wall) {
  std::string line =
      fmt::format(R"({{"time":"{}","level":"{}")", UtcText(wall), LogLevelName(record.level));
  if (record.code != 0) line += fmt::format(",\"code\":{}", record.code);
  if (!record.event.empty()) line += ",\"event\":" + JsonText(record.event);
  line += ",\"message\":" + JsonText(record.message);
  for (const LogField& field : record.fields) {
    line += fmt::format(",{}:{}", JsonText(field.name),
                        field.is_number ? field.value : JsonText(field.value));
  }
  return line + "}";
}

}  // namespace

struct Log::State {
  explicit State(LogOptions from) : options(std::move(from)) {}

  // Lines of one code within the running second.
  struct Window {
    SteadyTime start{};
    std::uint32_t written = 0;
    std::uint32_t dropped = 0;
  };

  LogOptions options;
  mutable std::mutex mutex;
  std::map<int, Window> windows;

  void Put(const LogRecord& record, WallMs wall) {
    if (!options.sink) return;
    options.sink(record.level, options.format == LogFormat::kJson
                                   ? JsonLine(record, wall)
                                   : TextLine(record, options.format, wall));
  }

  // Closes the seconds that are over and says how many lines each swallowed.
  void SumUp(const Now& now) {
    for (auto window = windows.begin(); window != windows.end();) {
      if (now.steady - window->second.start < std::chrono::seconds(1)) {
        ++window;
        continue;
      }
      if (window->second.dropped > 0) {
        Put({.level = LogLevel::kWarning,
             .code = window->first,
             .event = "log.dropped",
             .message = fmt::format("{} more lines of this kind were not written",
                                    window->second.dropped)},
            now.wall);
      }
      window = windows.erase(window);
    }
  }

  // Whether a line of `code` still fits into its second.
  bool Admit(int code, const Now& now) {
    if (options.rate == 0) return true;
    SumUp(now);
    Window& window = windows.try_emplace(code, Window{.start = now.steady}).first->second;
    if (window.written < options.rate) {
      ++window.written;
      return true;
    }
    ++window.dropped;
    return false;
  }
};

Log::Log(LogOptions options) : state_(std::make_unique<State>(std::move(options))) {}

Log::~Log() {
  // What the last second swallowed is said too.
  Now end = state_->options.clock();
  end.steady = SteadyTime::max();
  state_->SumUp(end);
}

void Log::Write(const LogRecord& record) {
  const std::lock_guard lock(state_->mutex);
  if (record.level < state_->options.level) return;
  const Now now = state_->options.clock();
  if (state_->Admit(record.code, now)) state_->Put(record, now.wall);
}

bool Log::IsEnabled(LogLevel level) const {
  const std::lock_guard lock(state_->mutex);
  return level >= state_->options.level;
}

void Log::SetLevel(LogLevel level) {
  const std::lock_guard lock(state_->mutex);
  state_->options.level = level;
}

std::string_view LogLevelName(LogLevel level) {
  return kLevelNames[static_cast<std::size_t>(level)];
}

std::optional<LogLevel> ParseLogLevel(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

std::string EscapePeerText(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  std::string escaped;
  for (const char c : text) {
    const std::string next = IsPrintable(c) && c != '\\'
                                 ? std::string(1, c)
                                 : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    if (escaped.size() + next.size() > kLongest) break;
    escaped += next;
  }
  return escaped;
}

}  // namespace skep
