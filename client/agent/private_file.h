// Private files: what only this device's user may read, on stable storage, whole or not at all.
//
// The files of a storage folder and nothing else; certificates' keys have their own way
// (crypto/private_key.h). Any thread, one writer a file. Source: Skep durability, section 7.
#pragma once

#include <string>

#include "shared/base/bytes.h"
#include "shared/base/result.h"

namespace skep::agent {

// Writes `path`.partial with mode 0600, syncs it, renames it to `path` and syncs the folder.
// SKEP-4001 with the system's reason; then `path` is as it was.
[[nodiscard]] Status WritePrivateFile(const std::string& path, BytesView content);

// Adds to the end of `path`, which is made if it is missing, and syncs. SKEP-4001.
[[nodiscard]] Status AppendPrivateFile(const std::string& path, BytesView content);

// Renames within one folder, in place of what is there, and syncs the folder. SKEP-4001.
[[nodiscard]] Status MovePrivateFile(const std::string& from, const std::string& to);

// A folder of mode 0700, its parent synced; one that exists stays as it is. SKEP-4001.
[[nodiscard]] Status MakePrivateFolder(const std::string& path);

// Removes a file, or a folder with everything in it, and syncs the folder around it. What is not
// there is no error. SKEP-4001.
[[nodiscard]] Status RemovePrivate(const std::string& path);

[[nodiscard]] bool Exists(const std::string& path);

}  // namespace skep::agent
