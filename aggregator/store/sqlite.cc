#include "aggregator/store/sqlite.h"

#include <sqlite3.h>

#include <limits>
#include <utility>

namespace skep::aggregator {
namespace {

// What a failed call means for the operator.
Error Translate(int code, sqlite3* connection) {
  const std::string reason =
      connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  switch (code & 0xFF) {
    case SQLITE_CONSTRAINT:
      return Error{4007, "the store holds something else: " + reason, ""};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_MISMATCH:
      return Error{4006, "the database is damaged: " + reason, "restore a backup"};
    case SQLITE_FULL:
      return Error{4001, "the disk is full", "free space"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Error{4002, "another program holds the database", "stop it"};
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Error{4004, "the database cannot be opened for writing: " + reason, ""};
    default:
      return Error{4005, "the database cannot be written or read: " + reason, "check the disk"};
  }
}

int RememberWalPages(void* pages, sqlite3*, const char*, int count) {
  *static_cast<int*>(pages) = count;
  return SQLITE_OK;
}

}  // namespace

struct Database::State {
  sqlite3* connection = nullptr;
  std::unordered_map<const char*, sqlite3_stmt*> statements;
  int wal_pages = 0;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const auto& [sql, statement] : statements) sqlite3_finalize(statement);
    sqlite3_close_v2(connection);
  }
};

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Result<bool> Statement::Step() {
  if (failed_ != SQLITE_OK) return Translate(failed_, connection_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return Translate(code, connection_);
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
double Statement::Real(int column) const {
  return IsNull(column) ? std::numeric_limits<double>::quiet_NaN()
                        : sqlite3_column_double(statement_, column);
}
std::int64_t Statement::Int64(int column) const {
  return sqlite3_column_int64(statement_, column);
}
BytesView Statement::Blob(int column) const {
  const auto* bytes = static_cast<const std::uint8_t*>(sqlite3_column_blob(statement_, column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}
std::string Statement::Text(int column) const {
  return std::string(AsText(Blob(column)));
}

void Statement::BindInt(int index, std::int64_t value) {
  if (const int code = sqlite3_bind_int64(statement_, index, value); failed_ == 0) failed_ = code;
}
void Statement::BindOne(int index, double value) {
  if (const int code = sqlite3_bind_double(statement_, index, value); failed_ == 0) failed_ = code;
}
void Statement::BindOne(int index, std::string_view text) {
  const char* data = text.data() == nullptr ? "" : text.data();
  const int code =
      sqlite3_bind_text64(statement_, index, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (failed_ == 0) failed_ = code;
}
void Statement::BindOne(int index, BytesView bytes) {
  // Null data would bind NULL in place of no bytes.
  const void* data = bytes.empty() ? static_cast<const void*>("") : bytes.data();
  const int code = sqlite3_bind_blob64(statement_, index, data, bytes.size(), SQLITE_TRANSIENT);
  if (failed_ == 0) failed_ = code;
}
void Statement::BindOne(int index, std::nullopt_t) {
  if (const int code = sqlite3_bind_null(statement_, index); failed_ == 0) failed_ = code;
}

Database::Database(std::unique_ptr<State> state) : state_(std::move(state)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Result<Database> Database::Open(const std::string& path, Use use) {
  auto state = std::make_unique<State>();
  const int mode = use == Use::kWrite ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  const int flags = mode | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.c_str(), &state->connection, flags, nullptr);
  if (code != SQLITE_OK) return Translate(code, state->connection).Within(path);
  sqlite3* connection = state->connection;
  if (sqlite3_busy_timeout(connection, 5000) != SQLITE_OK ||
      sqlite3_db_config(connection, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr) != SQLITE_OK ||
      sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr) != SQLITE_OK ||
      sqlite3_db_config(connection, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr) != SQLITE_OK) {
    return Translate(SQLITE_ERROR, connection).Within(path);
  }
  return Database(std::move(state));
}

Status Database::Execute(const char* sql) {
  const int code = sqlite3_exec(state_->connection, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return Translate(code, state_->connection);
  return Ok();
}

Result<Statement> Database::Prepare(const char* sql) {
  sqlite3_stmt*& kept = state_->statements[sql];
  if (kept == nullptr) {
    const int code =
        sqlite3_prepare_v3(state_->connection, sql, -1, SQLITE_PREPARE_PERSISTENT, &kept, nullptr);
    if (code != SQLITE_OK) return Translate(code, state_->connection);
  }
  return Statement(kept, state_->connection);
}

std::int64_t Database::rows_changed() const {
  return sqlite3_changes64(state_->connection);
}

int Database::wal_pages() const {
  return state_->wal_pages;
}

Status Database::Checkpoint(bool truncate) {
  // The hook counts pages from the first call on; it also takes the place of automatic checkpoints.
  sqlite3_wal_hook(state_->connection, RememberWalPages, &state_->wal_pages);
  const int mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
  const int code = sqlite3_wal_checkpoint_v2(state_->connection, nullptr, mode, nullptr, nullptr);
  state_->wal_pages = 0;
  if (code != SQLITE_OK && code != SQLITE_BUSY) return Translate(code, state_->connection);
  return Ok();
}

}  // namespace skep::aggregator
