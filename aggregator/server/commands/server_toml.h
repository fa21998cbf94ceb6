// The server.toml that `init` writes: what this installation needs, and the keys that people change
// first, as comments.
//
// Every other key is documented by `config explain` and the reference. A pure function.
#pragma once

#include <string>

namespace skep::aggregator {

struct ServerToml {
  std::string store;         // store.directory, as it shall stand in the file
  std::string admin_socket;  // likewise
  std::string host;          // what devices are told to connect to
  unsigned devices_port = 8443;
  unsigned enrol_port = 8444;
  bool is_loopback = false;  // listen on 127.0.0.1 instead of everywhere
};

[[nodiscard]] std::string FormatServerToml(const ServerToml& values);

}  // namespace skep::aggregator
