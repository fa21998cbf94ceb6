// RunFibres: the threads of a block as fibres of one operating-system thread.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/emulator/block.h"

namespace skep::emulator {

void RunFibres(std::uint32_t threads, Memory& memory,
               const std::function<void(Block*, std::uint32_t)>& body);

}  // namespace skep::emulator
