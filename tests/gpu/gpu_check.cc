// gpu_check: one stage of the check of a device (stages.h), its findings as JSON.
//
//   gpu_check STAGE OUT.json [--fake] [--plant sync|tf32|stride] [--device N]
//
// --fake: over the emulator, with small models, as a rehearsal. --plant: with a fault, which a
// stage should find; on a device only "stride" (the others are libraries of their own). The device
// comes from the libskep-cuda.so beside this program. Exit: 0 sound, 1 not sound, 2 it cannot be
// told, 77 there is no device. scripts/gpu_check runs all of it.
#include <charconv>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/loader.h"
#include "shared/base/clock.h"
#include "shared/config/utf8.h"
#include "tests/emulator/host_device.h"
#include "tests/gpu/stages.h"
#include "tests/gpu/watched_device.h"

namespace skep::gpu {
namespace {

constexpr int kSound = 0;
constexpr int kNotSound = 1;
constexpr int kUnknown = 2;
constexpr int kNoDevice = 77;

struct Wishes {
  std::string stage;
  std::string out;
  bool is_fake = false;
  std::string plant;
  int device = 0;
};

std::optional<Wishes> Read(const std::vector<std::string>& arguments) {
  Wishes wishes;
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool has_value = i + 1 < arguments.size();
    if (argument == "--fake") {
      wishes.is_fake = true;
    } else if (argument == "--plant" && has_value) {
      wishes.plant = arguments[++i];
    } else if (argument == "--device" && has_value) {
      const std::string& text = arguments[++i];
      const char* end = text.data() + text.size();
      if (std::from_chars(text.data(), end, wishes.device).ptr != end) return std::nullopt;
    } else {
      plain.push_back(argument);
    }
  }
  const bool is_plant = wishes.plant.empty() || wishes.plant == "stride" ||
                        (wishes.is_fake && (wishes.plant == "sync" || wishes.plant == "tf32"));
  if (plain.size() != 2 || !is_plant) return std::nullopt;
  wishes.stage = plain[0];
  wishes.out = plain[1];
  return wishes;
}

int Run(const Wishes& wishes) {
  std::unique_ptr<kernels::DeviceApi> opened;
  emulator::HostDevice* fake = nullptr;
  if (wishes.is_fake) {
    auto made = std::make_unique<emulator::HostDevice>(emulator::HostDevice::Options{
        .ignores_syncs = wishes.plant == "sync", .multiplies_in_tf32 = wishes.plant == "tf32"});
    fake = made.get();
    opened = std::move(made);
  } else {
    Result<std::unique_ptr<kernels::DeviceApi>> found = kernels::OpenDevice(wishes.device);
    if (!found) {
      fmt::print(stderr, "gpu_check: {}\n", found.error().message);
      return found.error().code == 7201 ? kNoDevice : kUnknown;
    }
    opened = std::move(*found);
  }
  WatchedDevice device(*opened, wishes.plant == "stride");
  const Result<kernels::DeviceInfo> info = device.Info();
  const SteadyTime begun = ReadClock().steady;
  Result<StageResult> ran =
      info ? RunStage(wishes.stage, device, wishes.is_fake) : Result<StageResult>(info.error());
  if (!ran) {
    fmt::print(stderr, "gpu_check {}: {}\n", wishes.stage, ran.error().message);
    return kUnknown;
  }
  std::vector<std::string> faults;
  if (fake != nullptr) faults = fake->TakeFaults();
  for (const std::string& fault : faults) fmt::print(stderr, "gpu_check: {}\n", fault);
  const bool is_sound = ran->is_sound && faults.empty();
  using config::JsonText;
  std::ofstream out(wishes.out, std::ios::binary | std::ios::trunc);
  out << fmt::format(
      "{{\"stage\": {}, \"sound\": {}, \"fake\": {}, \"seconds\": {:.3f},\n  \"device\": "
      "{{\"name\": "
      "{}, \"compute_capability\": {}, \"cuda_of_driver\": {}, \"toolkit\": {}, \"blas\": {}}},\n  "
      "\"found\": {}}}\n",
      JsonText(wishes.stage), is_sound, wishes.is_fake, Seconds(ReadClock().steady - begun),
      JsonText(info->name), JsonText(info->compute_capability), JsonText(info->driver),
      JsonText(info->toolkit), JsonText(info->blas), ran->json);
  out.close();
  if (!out) {
    fmt::print(stderr, "gpu_check: cannot write {}\n", wishes.out);
    return kUnknown;
  }
  return is_sound ? kSound : kNotSound;
}

}  // namespace
}  // namespace skep::gpu

int main(int count, char** arguments) {
  const auto wishes = skep::gpu::Read({arguments + 1, arguments + count});
  if (!wishes) {
    std::fputs("usage: gpu_check STAGE OUT.json [--fake] [--plant sync|tf32|stride] [--device N]\n",
               stderr);
    return skep::gpu::kUnknown;
  }
  return skep::gpu::Run(*wishes);
}
