// History: one line per task that this device worked on, in history.jsonl.
//
// For people (`status`, `history`); nothing is decided by it. Kept for 400 days and up to 4 MiB.
// One writer; any reader. Source: Skep client library, section 8.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/agent/storage.h"
#include "shared/base/clock.h"
#include "shared/wire/messages.h"

namespace skep::agent {

struct HistoryEntry {
  WallMs time = 0;
  wire::TaskRef task;
  std::string outcome;  // contributed, refused, failed
  int code = 0;         // SKEP-nnnn of the last two
  std::uint32_t examples = 0;
  std::uint64_t up = 0;  // bytes since the entry before
  std::uint64_t down = 0;
};

[[nodiscard]] Status AppendHistory(const Storage& storage, const HistoryEntry& entry);

// The latest `most` entries, newest first. A line that cannot be read is left out.
[[nodiscard]] std::vector<HistoryEntry> ReadHistory(const Storage& storage, std::size_t most);

}  // namespace skep::agent
