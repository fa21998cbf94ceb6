// SQLite as run.db uses it: an open database and a prepared statement.
//
// Nobody but the writer and the reader of run.db includes this. One thread a database.
// Source: sqlite.org, C interface.
#pragma once

#include <sqlite3.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace skep::simulator {

// A prepared statement; bound from the left, read from the left.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    failed_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr) != SQLITE_OK;
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(const std::string& text) {
    return Check(sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                                   SQLITE_TRANSIENT));
  }
  Statement& Bind(std::string_view text) { return Bind(std::string(text)); }
  template <std::integral T>
  Statement& Bind(T value) {
    return Check(sqlite3_bind_int64(statement_, ++bound_, static_cast<sqlite3_int64>(value)));
  }
  Statement& Bind(double value) {
    if (!std::isfinite(value)) return Null();
    return Check(sqlite3_bind_double(statement_, ++bound_, value));
  }
  Statement& Null() { return Check(sqlite3_bind_null(statement_, ++bound_)); }
  template <class T>
  Statement& Bind(const std::optional<T>& value) {
    return value ? Bind(*value) : Null();
  }
  Statement& TextOrNull(const std::string& text) { return text.empty() ? Null() : Bind(text); }
  Statement& CodeOrNull(int code) { return code == 0 ? Null() : Bind(code); }

  // Executes a statement that yields no rows. False on failure.
  [[nodiscard]] bool Run() {
    if (failed_) return false;
    const bool is_done = sqlite3_step(statement_) == SQLITE_DONE;
    sqlite3_reset(statement_);
    bound_ = 0;
    return is_done;
  }

  // The next row, if there is one.
  [[nodiscard]] bool Next() {
    column_ = 0;
    if (failed_) return false;
    const int code = sqlite3_step(statement_);
    failed_ = code != SQLITE_ROW && code != SQLITE_DONE;
    return code == SQLITE_ROW;
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::string Text() {
    const int column = column_++;
    const auto* const text = sqlite3_column_text(statement_, column);
    if (text == nullptr) return "";
    return {reinterpret_cast<const char*>(text),
            static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }
  template <class T = std::uint64_t>
  [[nodiscard]] T Whole() {
    return static_cast<T>(sqlite3_column_int64(statement_, column_++));
  }
  [[nodiscard]] double Number() { return sqlite3_column_double(statement_, column_++); }
  [[nodiscard]] std::optional<double> NumberOrNull() {
    if (sqlite3_column_type(statement_, column_) != SQLITE_NULL) return Number();
    ++column_;
    return std::nullopt;
  }
  template <class T>
  [[nodiscard]] std::optional<T> WholeOrNull() {
    if (sqlite3_column_type(statement_, column_) != SQLITE_NULL) return Whole<T>();
    ++column_;
    return std::nullopt;
  }

 private:
  Statement& Check(int code) {
    failed_ = failed_ || code != SQLITE_OK;
    return *this;
  }

  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  int column_ = 0;
  bool failed_ = false;
};

struct CloseDb {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
using DbPtr = std::unique_ptr<sqlite3, CloseDb>;

// `flags` as of sqlite3_open_v2. SKEP-4001.
[[nodiscard]] Result<DbPtr> OpenDb(const std::string& path, int flags);
// SKEP-4001 with what the database says of its last failure.
[[nodiscard]] Error DbFailure(const std::string& path, sqlite3* db);

}  // namespace skep::simulator
