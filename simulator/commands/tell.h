// Commands that only tell: `explain`, `list`, `schema`, `version`.
#pragma once

#include <string>
#include <vector>

#include "simulator/console.h"

namespace skep::simulator {

// A SKEP number, a section, a key, or a word of the field; or the JSON schema of experiment.toml.
[[nodiscard]] int ExplainCommand(const std::string& topic, bool is_json_schema,
                                 const Console& console);

// What this build has: algorithms, rules, partitions, models, datasets, metrics.
[[nodiscard]] int ListCommand(const std::string& what, const Console& console);

// [data] features, classes, categories and scaling of an experiment's data, ready to paste.
[[nodiscard]] int SchemaCommand(const std::string& file, const std::vector<std::string>& sets,
                                const Console& console);

[[nodiscard]] int VersionCommand(const Console& console);

}  // namespace skep::simulator
