// The checks: what a program that embeds the library has to keep to, each by its number.
//
// A check sets up its devices in a Trial, makes something happen, and judges. An Error is a FAIL:
// the program did not come to the point where it could be judged. Source: docs/conformance.md.
#pragma once

#include <vector>

#include "client/conform/report.h"
#include "client/conform/trial.h"

namespace skep::conform {

struct Check {
  int number;
  const char* name;
  Result<Finding> (*run)(Trial& trial);
};
// In ascending order.
[[nodiscard]] const std::vector<Check>& AllChecks();

// --- checks_enrol.cc ---
[[nodiscard]] Result<Finding> CheckEnrolment(Trial& trial);
[[nodiscard]] Result<Finding> CheckFingerprint(Trial& trial);
[[nodiscard]] Result<Finding> CheckForget(Trial& trial);

// --- checks_task.cc ---
[[nodiscard]] Result<Finding> CheckTraining(Trial& trial);
[[nodiscard]] Result<Finding> CheckEvaluation(Trial& trial);
[[nodiscard]] Result<Finding> CheckCancel(Trial& trial);
[[nodiscard]] Result<Finding> CheckMarks(Trial& trial);
[[nodiscard]] Result<Finding> CheckFiles(Trial& trial);
[[nodiscard]] Result<Finding> CheckRepeatability(Trial& trial);

// --- checks_network.cc ---
[[nodiscard]] Result<Finding> CheckAbsence(Trial& trial);
[[nodiscard]] Result<Finding> CheckDownloadCuts(Trial& trial);
[[nodiscard]] Result<Finding> CheckUploadCuts(Trial& trial);
[[nodiscard]] Result<Finding> CheckLostAcknowledgement(Trial& trial);
[[nodiscard]] Result<Finding> CheckKills(Trial& trial);

// --- checks_pace.cc ---
[[nodiscard]] Result<Finding> CheckPace(Trial& trial);

// --- checks_limits.cc ---
[[nodiscard]] Result<Finding> CheckMemory(Trial& trial);
[[nodiscard]] Result<Finding> CheckCpu(Trial& trial);
[[nodiscard]] Result<Finding> CheckBytes(Trial& trial);
[[nodiscard]] Result<Finding> CheckDisk(Trial& trial);
[[nodiscard]] Result<Finding> CheckPower(Trial& trial);

}  // namespace skep::conform
