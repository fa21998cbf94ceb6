// The database's schema: its tables, how one is made and how one is recognised.
//
// Called by SqliteStore when it opens. Source: docs/durability.md (database).
#pragma once

#include "aggregator/store/sqlite.h"
#include "shared/base/clock.h"

namespace skep::aggregator {

inline constexpr int kSchemaVersion = 1;

// How every connection of ours behaves: WAL, full sync, no surprises from the file.
[[nodiscard]] Status Configure(Database& database);

// Makes the tables in an empty database.
[[nodiscard]] Status CreateSchema(Database& database, const FederationId& federation, WallMs now);

// SKEP-4006: not one of our databases. SKEP-4012: of a newer program. SKEP-4013: of one too old.
[[nodiscard]] Status CheckSchema(Database& database);

// SKEP-4006 with the first problem that SQLite's quick_check finds.
[[nodiscard]] Status QuickCheck(Database& database);

}  // namespace skep::aggregator
