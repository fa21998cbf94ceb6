// Runs and rounds in the database: transactions applied, snapshots read.
//
// Functions of SqliteStore, which holds the lock and the SQL transaction around them. They never
// begin or end one. Source: docs/durability.md (round transactions, recovery).
#pragma once

#include <string_view>

#include "aggregator/store/model_files.h"
#include "aggregator/store/sqlite.h"
#include "aggregator/store/store.h"

namespace skep::aggregator {

// What a transaction is applied with.
struct ApplyContext {
  Database& database;
  const ModelFiles& models;
  WallMs now;
  BodySource& bodies;
};

// The sequence number of an UpdateTx, else 0. SKEP-4007: contradicts what is stored; the caller
// rolls back.
[[nodiscard]] Result<std::uint64_t> ApplyTransaction(const ApplyContext& context,
                                                     const Transaction& transaction);

[[nodiscard]] Status AppendAudit(Database& database, WallMs now, std::string_view actor,
                                 std::string_view action, std::string_view target,
                                 std::string_view detail);

// Where a round stands, if it does.
struct RoundPlace {
  std::int64_t position = 0;
  RoundState state = RoundState::kOpen;
};
[[nodiscard]] Result<std::optional<RoundPlace>> FindRound(Database& database,
                                                          const AttemptKey& key);

// All runs; what is damaged halts its run, in the snapshot and in the database.
[[nodiscard]] Result<StoreSnapshot> LoadSnapshot(Database& database, const ModelFiles& models);
// Every attempt of a run, in the order of opening, as it is stored.
[[nodiscard]] Result<std::vector<RoundRow>> LoadAttempts(Database& database, const RunId& run);
[[nodiscard]] Result<OpenRound> LoadRound(Database& database, const AttemptKey& key,
                                          const RoundPlace& place);
[[nodiscard]] Result<std::optional<StoredVerdict>> LoadVerdict(Database& database,
                                                               const AttemptKey& task,
                                                               const DeviceId& device);

}  // namespace skep::aggregator
