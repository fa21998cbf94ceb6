#include "client/cli/forget.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "client/cli/settings.h"
#include "shared/base/try.h"

namespace skep::cli {
namespace {

Status Forget(ClientOptions& settings) {
  SKEP_TRY(CheckEnrolled(settings));
  SKEP_ASSIGN(const ClientPtr client, OpenClient(settings, NoData()));
  const skep_status forgotten = skep_client_forget(client.get());
  if (forgotten == SKEP_OK) return Ok();
  return Error{4001, std::string("not all could be wiped (") + skep_status_name(forgotten) + ")",
               "try again"};
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
  ClientOptions settings(options, *config);
  const Status forgotten = Forget(settings);
  if (!forgotten.has_value()) return Fail(options, forgotten.error());
  return Succeed(
      options, {{"storage", folder}},
      folder + " is wiped; without its key the certificate serves nobody, and ends by itself\n");
}

}  // namespace skep::cli
