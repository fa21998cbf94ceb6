// `init`: a new federation on this machine: two certificate authorities, the server's certificate,
// the key that signs tasks, an empty store, server.toml.
//
// Never touches what is there: if any of its files exists, nothing changes. What it has made goes
// again if it cannot finish. Source: docs/operations.md.
#pragma once

#include <string>

#include "aggregator/server/commands/console.h"

namespace skep::aggregator {

struct InitOptions {
  std::string host;    // what devices connect to: a name or an address
  std::string folder;  // --dir: everything below it; empty: the system's places
  unsigned devices_port = 8443;
  unsigned enrol_port = 8444;
};

// Exit 2 if there is an installation already, for a bad host, and as root without --allow-root.
int RunInit(const GlobalOptions& options, const InitOptions& init);

}  // namespace skep::aggregator
