// The admin socket: HTTP/1.1 over a Unix socket, for the daemon (AdminListener) and for the
// commands (CallAdmin). There is no TCP here and no way to ask for it.
//
// Knows no route: that is admin.h. Who may connect is decided by the socket's mode (0660) and
// group. One request a connection. Source: RFC 9112; docs/operations.md.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "aggregator/server/admin_message.h"
#include "shared/base/clock.h"
#include "shared/base/result.h"

namespace skep::aggregator {

// Called from several threads at once; may block.
using AdminHandler = std::function<AdminResponse(const AdminRequest&)>;

struct AdminListenerOptions {
  std::string path;
  std::string group;  // of the socket; nothing changes where the system has no such group
  Milliseconds request_deadline{10'000};
};

class AdminListener {
 public:
  // Replaces a socket that a killed daemon left behind, and nothing else. SKEP-5201 someone listens
  // there; SKEP-1102 the path is too long for a socket; SKEP-4001 it cannot be made.
  [[nodiscard]] static Result<std::unique_ptr<AdminListener>> Start(AdminListenerOptions options,
                                                                    AdminHandler handler);
  // What Start would refuse, without a change: SKEP-1102, 4001, 5201.
  [[nodiscard]] static Status Inspect(const std::string& path);
  // Takes no more requests, waits for those at work, removes the socket.
  ~AdminListener();
  AdminListener(const AdminListener&) = delete;
  AdminListener& operator=(const AdminListener&) = delete;

 private:
  struct State;
  explicit AdminListener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The daemon's answer, whatever its status. SKEP-5401 nobody listens on `socket`, or the answer is
// not HTTP; SKEP-5402 not permitted; SKEP-5407 no answer within `timeout`.
[[nodiscard]] Result<AdminResponse> CallAdmin(const std::string& socket,
                                              const AdminRequest& request, Milliseconds timeout);

}  // namespace skep::aggregator
