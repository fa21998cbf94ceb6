#include "tests/emulator/launcher.h"

#include <array>
#include <memory>
#include <numeric>

#include "kernels/body/kernel_list.h"
#include "shared/base/rng.h"
#include "tests/emulator/context.h"

namespace skep::emulator {
namespace {

using Runner = void (*)(Mode, Memory&, const KeptCall&, std::uint32_t, std::uint32_t);

template <class Kernel>
void RunOneBlock(Mode mode, Memory& memory, const KeptCall& call, std::uint32_t block_x,
                 std::uint32_t block_y) {
  typename Kernel::Args args;
  if (call.args.size() != sizeof args) {
    memory.Report(std::string(Kernel::kName) + ": arguments of another kernel");
    return;
  }
  std::memcpy(&args, call.args.data(), sizeof args);
  // As large as asked for, so that the address sanitizer sees what lies beyond.
  const auto bytes = std::make_unique<std::byte[]>(call.grid.shared_bytes);
  std::memset(bytes.get(), 0xFF, call.grid.shared_bytes);
  std::vector<std::uint64_t> exchange(call.grid.block_threads);
  EmulatedContext::Shared shared{memory,  Kernel::kName, call.grid,       block_x,
                                 block_y, bytes.get(),   exchange.data(), call.ignores_syncs};
  RunBlock(mode, call.grid.block_threads, Kernel::kSynchronises, memory,
           [&](Block* block, std::uint32_t thread) {
             EmulatedContext context(shared, block, thread);
             Kernel::Run(context, args);
           });
}

template <class Pack>
struct Table;
template <class... Kernel>
struct Table<kernels::KernelPack<Kernel...>> {
  static constexpr std::array<Runner, sizeof...(Kernel)> kRunners{&RunOneBlock<Kernel>...};
  static constexpr std::array<const char*, sizeof...(Kernel)> kNames{Kernel::kName...};
};
using List = Table<kernels::Kernels>;

}  // namespace

void LaunchEmulated(Mode mode, std::uint64_t seed, Memory& memory, const KeptCall& call) {
  std::vector<std::uint32_t> blocks(std::size_t{call.grid.x} * call.grid.y);
  std::iota(blocks.begin(), blocks.end(), 0U);
  RandomStream order(seed, {.purpose = Purpose::kSimulatedEntropy});
  order.Shuffle(std::span(blocks));
  for (const std::uint32_t block : blocks) {
    List::kRunners.at(call.kernel)(mode, memory, call, block % call.grid.x, block / call.grid.x);
  }
}

const char* KernelName(std::uint32_t kernel) {
  return List::kNames.at(kernel);
}

}  // namespace skep::emulator
