// The typed Experiment from its effective settings; [data] also serves client.toml. Only for the
// loaders of this folder.
#pragma once

#include <string>

#include "shared/config/effective.h"
#include "shared/config/experiment.h"

namespace skep::config {

// `text` below `folder` unless it is absolute or empty.
[[nodiscard]] std::string PathBelow(const std::string& folder, const std::string& text);
// The folder that the relative paths of `file` start from.
[[nodiscard]] Schedule ScheduleOf(const std::string& text);
[[nodiscard]] std::string FolderOf(const std::string& file);

// Precondition of all: no problems were found.
void FillDataSource(const Effective& effective, const std::string& folder, DataConfig& data);
[[nodiscard]] Experiment FillExperiment(const Effective& effective, const std::string& folder);
// What FinishExperiment and SetDrawnSeed can change.
void FillLate(const Effective& effective, Experiment& experiment);

}  // namespace skep::config
