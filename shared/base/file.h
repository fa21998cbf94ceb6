// Whole files: read with a limit, written so that a reader sees the old content or the new, never a
// part.
//
// Not for files that grow (logs, metrics) nor for data sets, which are read as streams. Any thread.
// Source: docs/formats.md (common rules).
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/bytes.h"
#include "shared/base/result.h"

namespace skep {

// The content of a regular file of at most `limit` bytes; its size is checked before memory is
// taken. Every failure is an error with `code`, naming the path and the system's reason.
[[nodiscard]] Result<Bytes> ReadFile(const std::string& path, std::uint64_t limit, int code);

// Writes `path`.partial, syncs it, renames it to `path` and syncs the folder. SKEP-4001 with the
// system's reason; then `path` is as it was and no partial file is left.
[[nodiscard]] Status WriteFileAtomically(const std::string& path, BytesView content);

// Opens /dev/null for each of the three standard streams that was closed when the program started:
// else the next file opened would take its number, and what is printed would land in that file.
// First thing in main.
void HoldStandardStreams();

// What the system says about the error number `error`.
[[nodiscard]] std::string SystemReason(int error);

}  // namespace skep
