// Allocations: how often the program has taken memory from the heap.
//
// Linking allocations.cc replaces operator new for the whole program, so a test that counts is a
// program of its own. For tests only; any thread.
#pragma once

#include <cstddef>

namespace skep::test {

[[nodiscard]] std::size_t Allocations();
// Bytes that the program holds now.
[[nodiscard]] std::size_t HeldBytes();

}  // namespace skep::test
