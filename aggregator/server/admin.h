// AdminApi: the routes of the administration, from requests to what Control does.
//
// Not the transport (admin_socket.h) and not the commands (commands/), which print the answers.
// Every answer with a body is one JSON object: {"schema":1,"status":"ok","data":...} or
// {"schema":1,"status":"error","error":{"code":...,"message":...}} (several: "errors"), except a
// model, which is a safetensors file. Thread-safe as far as Control is. Source: docs/operations.md
// (REST).
#pragma once

#include "aggregator/server/admin_message.h"
#include "aggregator/server/control.h"

namespace skep::aggregator {

// What `status` says of the process itself.
struct DaemonFacts {
  std::string version;
  std::int64_t pid = 0;
  std::string admin_socket;
};

class AdminApi {
 public:
  // `control` outlives this.
  AdminApi(Control& control, DaemonFacts facts) : control_(control), facts_(std::move(facts)) {}

  // 400 a request that makes no sense (SKEP-5408, or problems of a file), 404 SKEP-5403, 409
  // SKEP-5404 and 5405, 503 SKEP-5401, 500 what is the aggregator's own fault.
  [[nodiscard]] AdminResponse Answer(const AdminRequest& request);

 private:
  Control& control_;
  DaemonFacts facts_;
};

}  // namespace skep::aggregator
