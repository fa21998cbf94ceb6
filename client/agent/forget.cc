#include "client/agent/forget.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

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

}  // namespace

Status Forget(const Storage& storage) {
  SKEP_TRY(RemoveWithContent(storage.Path("identity/enrolment.json")));
  SKEP_TRY(Overwrite(storage.Path("identity/key.pem")));
  SKEP_ASSIGN(const std::vector<std::string> names, ListFolder(storage.folder()));
  for (const std::string& name : names) {
    if (name == "FORMAT" || name == "ledger.jsonl" || name == "lock") continue;
    SKEP_TRY(RemoveWithContent(storage.Path(name)));
  }
  return Ok();
}

}  // namespace skep::agent
