// Whether a file lies on a network file system, where SQLite's write-ahead log does not work.
//
// Asks the system; any thread. Source: docs/formats.md (run.db).
#pragma once

#include <string>

namespace skep::simulator {

// NFS, SMB, FUSE.
[[nodiscard]] bool IsOnNetworkFolder(const std::string& path);

}  // namespace skep::simulator
