// Words of the run's files for the enumerations of records.h.
//
// Pure functions; any thread. Source: docs/formats.md (metrics.jsonl, run.db).
#pragma once

#include <string_view>

#include "simulator/records.h"

namespace skep::simulator {

[[nodiscard]] std::string_view OutcomeName(aggregator::Outcome outcome);  // "ok", "rejected", ...
[[nodiscard]] aggregator::Outcome OutcomeOf(std::string_view name);       // kFailed if unknown
[[nodiscard]] std::string_view NoteLevelName(NoteLevel level);            // "info", ...
[[nodiscard]] NoteLevel NoteLevelOf(std::string_view name);               // kError if unknown
[[nodiscard]] std::string_view EndStateName(EndState state);              // "finished", ...
// "client 17" or "client north".
[[nodiscard]] std::string ClientName(ClientNumber number, const std::string& owner);
// "test/accuracy" -> "accuracy".
[[nodiscard]] std::string_view ShortMetricName(std::string_view name);

}  // namespace skep::simulator
