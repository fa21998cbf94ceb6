#include "simulator/run_db_sql.h"

#include <fmt/format.h>

namespace skep::simulator {
namespace {

constexpr const char* kHint = "look at the free space and the permissions of its folder";

}  // namespace

Error DbFailure(const std::string& path, sqlite3* db) {
  return Error{4001, fmt::format("{}: {}", path, db == nullptr ? "no memory" : sqlite3_errmsg(db)),
               kHint};
}

Result<DbPtr> OpenDb(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  DbPtr db(raw);
  if (code != SQLITE_OK) return DbFailure(path, raw);
  return db;
}

}  // namespace skep::simulator
