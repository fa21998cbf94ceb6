// System bus: what other programs of this machine know of its network and its users, asked over the
// D-Bus system socket.
//
// Not a D-Bus library: one connection, a few questions of the form Properties.Get, closed again. No
// program is started for a question, and whoever does not answer at once is as good as not there:
// every failure is an unknown. Waits for the given patience at most. Keeps nothing; any thread.
// Source: D-Bus specification, "Message Protocol" and "Authentication Protocol"; Skep client
// library, section 7.
#pragma once

#include <optional>
#include <string>

#include "shared/base/clock.h"

namespace skep::agent {

class SystemBus {
 public:
  explicit SystemBus(std::string socket = "/run/dbus/system_bus_socket",
                     Milliseconds patience = Milliseconds(250))
      : socket_(std::move(socket)), patience_(patience) {}

  struct Facts {
    std::optional<bool> is_unmetered;  // NetworkManager
    std::optional<bool> is_idle;       // logind, while anybody has a session
  };
  [[nodiscard]] Facts Ask() const;

 private:
  std::string socket_;
  Milliseconds patience_;
};

}  // namespace skep::agent
