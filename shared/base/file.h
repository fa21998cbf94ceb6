// Whole files: read with a limit, written so that a reader sees the old content or the new, never a
// part; and the few folder operations that must be on stable storage when they return.
//
// Not for files that grow (logs, metrics) nor for data sets, which are read as streams; private
// keys have their own way (crypto/private_key.h). Any thread, one writer a file.
// Source: docs/formats.md (common rules); Skep durability, section 7.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/result.h"

namespace skep {

// The content of a regular file of at most `limit` bytes; its size is checked before memory is
// taken. Every failure is an error with `code`, naming the path and the system's reason.
[[nodiscard]] Result<Bytes> ReadFile(const std::string& path, std::uint64_t limit, int code);

// Who may read a file that is made: everybody whom the umask leaves (0644), or its owner (0600).
enum class FileMode { kShared, kPrivate };

// Writes `path`.partial, syncs it, renames it to `path` and syncs the folder. The mode is right
// from the first byte. SKEP-4001 with the system's reason; then `path` is as it was and no partial
// file is left.
[[nodiscard]] Status WriteFileAtomically(const std::string& path, BytesView content,
                                         FileMode mode = FileMode::kShared);

// Adds to the end of `path`, which is made if it is missing, and syncs. SKEP-4001.
[[nodiscard]] Status AppendToFile(const std::string& path, BytesView content, FileMode mode);

// Renames within one folder, in place of what is there, and syncs the folder. SKEP-4001.
[[nodiscard]] Status MoveFile(const std::string& from, const std::string& to);

// A folder of mode 0700, its parent synced; one that exists stays as it is. SKEP-4001.
[[nodiscard]] Status MakePrivateFolder(const std::string& path);

// Removes a file, or a folder with everything in it, and syncs the folder around it. What is not
// there is no error. SKEP-4001.
[[nodiscard]] Status RemoveWithContent(const std::string& path);

// The names in a folder, sorted; none where it is not there. SKEP-4001. Unlike the iterators of
// std::filesystem in libstdc++, which end the process, it throws std::bad_alloc where memory is
// wanting.
[[nodiscard]] Result<std::vector<std::string>> ListFolder(const std::string& path);

// Whether something has that name, be it a link that leads nowhere. What cannot be looked at is
// taken as not there: who uses it learns why.
[[nodiscard]] bool Exists(const std::string& path);

// Opens /dev/null for each of the three standard streams that was closed when the program started:
// else the next file opened would take its number, and what is printed would land in that file.
// First thing in main.
void HoldStandardStreams();

// What the system says about the error number `error`; of a loop of links also what helps.
[[nodiscard]] std::string SystemReason(int error);

}  // namespace skep
