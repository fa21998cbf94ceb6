#include "client/agent/commands/forget.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "client/agent/storage.h"
#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;

// What was written there stays on some disks; this is what a program can do.
Status Overwrite(const std::string& path) {
  std::error_code failure;
  const std::uintmax_t size = fs::file_size(path, failure);
  if (failure) return Ok();  // not there
  std::FILE* const file = std::fopen(path.c_str(), "r+e");
  if (file == nullptr) return Error{4001, "cannot overwrite " + path, ""};
  bool is_done = true;
  for (std::uintmax_t i = 0; i < size; ++i) is_done = std::fputc(0, file) == 0 && is_done;
  is_done = std::fflush(file) == 0 && ::fdatasync(::fileno(file)) == 0 && is_done;
  is_done = std::fclose(file) == 0 && is_done;
  return is_done ? Ok() : Status(Error{4001, "cannot overwrite " + path, ""});
}

// Everything but what says that a privacy budget was spent. The identity's last part first: an
// interrupted removal leaves a folder that is not enrolled.
Status Forget(const std::string& folder) {
  SKEP_ASSIGN(const Storage storage, Storage::Open(folder));
  SKEP_TRY(RemoveWithContent(storage.Path("identity/enrolment.json")));
  SKEP_TRY(Overwrite(storage.Path("identity/key.pem")));
  std::error_code failure;
  std::vector<std::string> paths;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (name != "FORMAT" && name != "ledger.jsonl" && name != "lock") {
      paths.push_back(at->path().string());
    }
  }
  for (const std::string& path : paths) SKEP_TRY(RemoveWithContent(path));
  return Ok();
}

bool IsAnsweredYes() {
  if (::isatty(STDIN_FILENO) != 1) return false;
  const int answer = std::fgetc(stdin);
  return answer == 'y' || answer == 'Y';
}

}  // namespace

int RunForget(const GlobalOptions& options, bool is_sure) {
  const auto config = LoadConfig(options);
  if (!config.has_value()) return Fail(options, config.problems());
  const std::string& folder = config->storage_dir;
  if (!is_sure) {
    Tell(options, "wipe keys, unsent work and history in " + folder + "? [y/N] ");
    if (!IsAnsweredYes()) {
      return Fail(options, Error{1103, "nothing was wiped", "answer y, or give --yes"});
    }
  }
  const Status forgotten = Forget(folder);
  if (!forgotten.has_value()) return Fail(options, forgotten.error());
  return Succeed(
      options, {{"storage", folder}},
      folder + " is wiped; without its key the certificate serves nobody, and ends by itself\n");
}

}  // namespace skep::agent
