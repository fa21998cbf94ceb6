// SQLite behind values and Results: a connection, statements with typed parameters and columns.
//
// The only place that knows sqlite3's calls. Not an abstraction over databases: SQL stays where it
// is used. One thread at a time. Source: sqlite.org, "C/C++ Interface"; error numbers from
// docs/durability.md.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/base/try.h"

struct sqlite3;
struct sqlite3_stmt;

namespace skep::aggregator {

// Parameters are numbered from 1 in the order of Bind, columns from 0. Ends when it goes out of
// scope: the compiled statement goes back to the Database, which must outlive it.
class Statement {
 public:
  Statement(sqlite3_stmt* statement, sqlite3* connection)
      : statement_(statement), connection_(connection) {}
  Statement(Statement&& other) noexcept
      : statement_(std::exchange(other.statement_, nullptr)),
        connection_(other.connection_),
        failed_(other.failed_) {}
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  template <class... Values>
  void Bind(const Values&... values) {
    int index = 0;
    (BindOne(++index, values), ...);
  }

  // True: a row is there. False: done.
  [[nodiscard]] Result<bool> Step();

  [[nodiscard]] bool IsNull(int column) const;
  [[nodiscard]] double Real(int column) const;     // NaN if null: SQLite stores NaN as null
  [[nodiscard]] BytesView Blob(int column) const;  // valid until the next Step
  [[nodiscard]] std::string Text(int column) const;
  template <std::integral Number>
  [[nodiscard]] Number Int(int column) const {
    return static_cast<Number>(Int64(column));
  }
  // Zero unless the column holds exactly as many bytes.
  template <class Fixed>
  [[nodiscard]] Fixed Id(int column) const {
    return Fixed::From(Blob(column)).value_or(Fixed{});
  }

 private:
  template <std::integral Number>
  void BindOne(int index, Number value) {
    BindInt(index, static_cast<std::int64_t>(value));
  }
  void BindOne(int index, double value);
  void BindOne(int index, std::string_view text);
  void BindOne(int index, const std::string& text) { BindOne(index, std::string_view(text)); }
  void BindOne(int index, const char* text) { BindOne(index, std::string_view(text)); }
  void BindOne(int index, BytesView bytes);
  void BindOne(int index, const Bytes& bytes) { BindOne(index, BytesView(bytes)); }
  void BindOne(int index, std::nullopt_t);
  template <std::size_t kSize, class Tag>
  void BindOne(int index, const FixedBytes<kSize, Tag>& id) {
    BindOne(index, id.view());
  }
  template <class Value>
  void BindOne(int index, const std::optional<Value>& value) {
    if (value) {
      BindOne(index, *value);
    } else {
      BindOne(index, std::nullopt);
    }
  }
  void BindInt(int index, std::int64_t value);
  [[nodiscard]] std::int64_t Int64(int column) const;

  sqlite3_stmt* statement_;
  sqlite3* connection_;
  int failed_ = 0;  // the first Bind that did not work
};

class Database {
 public:
  enum class Use { kRead, kWrite };
  // An existing file (an empty one is an empty database).
  [[nodiscard]] static Result<Database> Open(const std::string& path, Use use = Use::kWrite);

  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  // Statements without parameters and results, separated by semicolons.
  [[nodiscard]] Status Execute(const char* sql);
  // `sql` must live as long as the program: its compiled form is kept under it.
  [[nodiscard]] Result<Statement> Prepare(const char* sql);

  // Runs one statement to its end; rows are given to `row`, which returns a Status.
  template <class Row, class... Values>
  [[nodiscard]] Status ForEach(const char* sql, Row row, const Values&... values) {
    SKEP_ASSIGN(Statement statement, Prepare(sql));
    statement.Bind(values...);
    while (true) {
      SKEP_ASSIGN(const bool has_row, statement.Step());
      if (!has_row) return Ok();
      SKEP_TRY(row(statement));
    }
  }
  template <class... Values>
  [[nodiscard]] Status Run(const char* sql, const Values&... values) {
    return ForEach(
        sql, [](const Statement&) { return Ok(); }, values...);
  }
  // The first column of the first row; nothing without a row or if it is null.
  template <class... Values>
  [[nodiscard]] Result<std::optional<std::int64_t>> Number(const char* sql,
                                                           const Values&... values) {
    std::optional<std::int64_t> number;
    SKEP_TRY(ForEach(
        sql,
        [&](const Statement& row) {
          if (!row.IsNull(0)) number = row.Int<std::int64_t>(0);
          return Ok();
        },
        values...));
    return number;
  }

  [[nodiscard]] std::int64_t rows_changed() const;  // by the last Run
  // Pages in the write-ahead log after the last commit.
  [[nodiscard]] int wal_pages() const;
  // Moves the log into the database; `truncate` also empties the file and waits for readers.
  [[nodiscard]] Status Checkpoint(bool truncate);

 private:
  struct State;
  explicit Database(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace skep::aggregator
