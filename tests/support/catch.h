// The one place that names Catch2, so that a change of version is a change of this file.
//
// Catch2 2.13 cannot skip a test. SKEP_SKIP prints the reason and leaves the test case; a program
// in which every test case that ran was skipped ends with 77, which ctest shows as SKIPPED.
#pragma once

#include <catch2/catch.hpp>

#include <string>

namespace skep::test {

// Prints "SKIPPED: reason" and counts the running test case as skipped.
void NoteSkipped(const std::string& reason);

}  // namespace skep::test

#define SKEP_SKIP(reason)              \
  do {                                 \
    ::skep::test::NoteSkipped(reason); \
    return;                            \
  } while (false)
