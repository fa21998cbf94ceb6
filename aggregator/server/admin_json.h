// What Control says, as JSON. The names of the members are part of the administration's interface.
//
// Durations are milliseconds, times milliseconds since the Unix epoch, hashes and ids hexadecimal.
// What does not apply is absent. Pure functions; any thread. Source: docs/operations.md (REST).
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <string>
#include <vector>

#include "aggregator/server/control.h"
#include "shared/config/problem.h"

namespace skep::aggregator {

[[nodiscard]] boost::json::object ToJson(const StatusView& status);
[[nodiscard]] boost::json::object ToJson(const PopulationView& population);
[[nodiscard]] boost::json::object ToJson(const TokenRow& token);
[[nodiscard]] boost::json::object ToJson(const DeviceView& device);
[[nodiscard]] boost::json::object ToJson(const RunStatus& run);
[[nodiscard]] boost::json::object ToJson(const RunDetail& run);
[[nodiscard]] boost::json::object ToJson(const StartedRun& run);
[[nodiscard]] boost::json::object ToJson(const Error& error);
// With all that FormatProblems needs, so that the command shows the caret.
[[nodiscard]] boost::json::object ToJson(const config::Problem& problem);
[[nodiscard]] boost::json::object ToJson(const config::Note& note);

template <class Row>
[[nodiscard]] boost::json::array ToJsonArray(const std::vector<Row>& rows) {
  boost::json::array array;
  for (const Row& row : rows) array.push_back(ToJson(row));
  return array;
}

// The reverse, for the commands. Members that are missing stay empty.
[[nodiscard]] Error ErrorFromJson(const boost::json::value& json);
[[nodiscard]] config::Problem ProblemFromJson(const boost::json::value& json);
[[nodiscard]] config::Note NoteFromJson(const boost::json::value& json);

// "running", "active", "train", "published": as they stand everywhere.
[[nodiscard]] std::string_view WordFor(RunState state);
[[nodiscard]] std::string_view WordFor(DeviceState state);
[[nodiscard]] std::string_view WordFor(RoundState state);

}  // namespace skep::aggregator
