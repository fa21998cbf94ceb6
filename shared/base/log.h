// Log: lines for people or for machines, on standard error or wherever its owner wants them.
//
// One record is one line, whatever it holds. Not for a command's results (standard output) nor for
// the audit trail (the store). Text that a peer supplied goes through EscapePeerText first; keys,
// tokens and data values are never logged.
//
// Called by the programs' drivers; cores report through their outputs instead. Thread-safe.
// Source: docs/operations.md (logs), docs/reference/client.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/clock.h"

namespace skep {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };
enum class LogFormat : std::uint8_t {
  kBareText,   // SKEP-2104 update rejected run=pump round=12: its reader adds time and level
  kShortText,  // 12:04:31 info round 12: trained 412 examples
  kText,       // 2026-11-30T18:04:05.123Z warning SKEP-2104 update rejected run=pump round=12
  kJson,  // {"time":"2026-11-30T18:04:05.123Z","level":"warning","code":2104,"event":"update.rejected",...}
};

struct LogField {
  LogField(std::string_view field_name, std::string_view text) : name(field_name), value(text) {}
  LogField(std::string_view field_name, std::int64_t number)
      : name(field_name), value(std::to_string(number)), is_number(true) {}

  std::string_view name;  // of the program's own text
  std::string value;
  bool is_number = false;
};

struct LogRecord {
  LogLevel level = LogLevel::kInfo;
  int code = 0;                 // SKEP-nnnn, or 0
  std::string_view event = {};  // a stable name: "update.rejected"
  std::string message = {};
  std::vector<LogField> fields = {};
};

struct LogOptions {
  LogFormat format = LogFormat::kText;
  LogLevel level = LogLevel::kInfo;  // less severe records are dropped
  std::uint32_t rate = 0;            // lines per second and code; 0: no limit. The rest is counted
  // Where lines go, without their line feed; empty: nowhere. Called by one thread at a time.
  std::function<void(LogLevel level, std::string_view line)> sink = {};
  std::function<Now()> clock = ReadClock;
};

class Log {
 public:
  explicit Log(LogOptions options);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void Write(const LogRecord& record);
  void Info(std::string message) { Write({.message = std::move(message)}); }
  void Warning(int code, std::string message) {
    Write({.level = LogLevel::kWarning, .code = code, .message = std::move(message)});
  }
  void Failure(int code, std::string message) {
    Write({.level = LogLevel::kError, .code = code, .message = std::move(message)});
  }
  [[nodiscard]] bool IsEnabled(LogLevel level) const;
  // After a reload of the configuration.
  void SetLevel(LogLevel level);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A sink for programs.
[[nodiscard]] std::function<void(LogLevel, std::string_view)> StandardErrorSink();

// "debug", "info", "warning", "error".
[[nodiscard]] std::string_view LogLevelName(LogLevel level);
[[nodiscard]] std::optional<LogLevel> ParseLogLevel(std::string_view name);

// What a peer said, fit for a log line or a message: printable ASCII, other bytes as \xHH, cut to
// 64 characters.
[[nodiscard]] std::string EscapePeerText(std::string_view text);

}  // namespace skep
