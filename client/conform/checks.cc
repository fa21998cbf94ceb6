#include "client/conform/checks.h"

namespace skep::conform {

const std::vector<Check>& AllChecks() {
  static const std::vector<Check> kChecks{
      {1, "enrolment", &CheckEnrolment},
      {2, "wrong fingerprint in the join string", &CheckFingerprint},
      {3, "train task", &CheckTraining},
      {4, "evaluate task", &CheckEvaluation},
      {5, "pace", &CheckPace},
      {6, "aggregator gone 60 s", &CheckAbsence},
      {7, "download cut at 10 points", &CheckDownloadCuts},
      {8, "upload cut at 10 points", &CheckUploadCuts},
      {9, "acknowledgement lost", &CheckLostAcknowledgement},
      {10, "kill -9 at 20 random moments", &CheckKills},
      {11, "cancel", &CheckCancel},
      {12, "memory", &CheckMemory},
      {13, "CPU and threads", &CheckCpu},
      {14, "bytes per day", &CheckBytes},
      {15, "disk full", &CheckDisk},
      {16, "power", &CheckPower},
      {19, "marked values", &CheckMarks},
      {20, "files", &CheckFiles},
      {21, "repeatability", &CheckRepeatability},
      {22, "forget", &CheckForget},
  };
  return kChecks;
}

}  // namespace skep::conform
