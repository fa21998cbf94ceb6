#include "tests/gpu/stages.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "shared/base/clock.h"
#include "shared/base/try.h"
#include "shared/config/utf8.h"
#include "tests/gpu/operations.h"
#include "tests/gpu/watched_device.h"
#include "tests/gpu/world.h"

namespace skep::gpu {
namespace {

using config::JsonText;
using kernels::DeviceApi;
using kernels::Gemm;

constexpr double kParityTolerance = 1e-4;
constexpr std::uint32_t kApart = 5;  // a client that trains alone as well as in seven lanes

const char* Word(bool is) {
  return is ? "true" : "false";
}

// JSON has no infinity.
std::string Number(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null";
}

class Findings {
 public:
  void Add(bool is_sound, std::string object) {
    result_.is_sound = result_.is_sound && is_sound;
    result_.json += result_.json.empty() ? "[\n    " : ",\n    ";
    result_.json += object;
  }
  [[nodiscard]] StageResult Take() && {
    result_.json = result_.json.empty() ? "[]" : result_.json + "]";
    return std::move(result_);
  }

 private:
  StageResult result_;
};

Result<StageResult> Operations(DeviceApi& device, bool small) {
  const std::uint32_t blocks = small ? 1 : 8;
  const std::uint32_t threads = small ? 32 : kernels::kMostBlockThreads;
  Findings findings;
  for (const Operation& operation : AllOperations()) {
    const OperationResult tried =
        Try(operation, device, blocks, threads, SizesFor(blocks, threads));
    if (!tried.status) return tried.status.error();
    findings.Add(tried.IsSound(),
                 fmt::format(R"({{"kernel": {}, "sound": {}, "values": {}, "of_tolerance": {}, )"
                             R"("worst": {}}})",
                             JsonText(tried.kernel), Word(tried.IsSound()), tried.compared,
                             Number(tried.worst), JsonText(tried.where)));
  }
  return std::move(findings).Take();
}

// The products that one step of the model asks for.
Result<std::vector<Gemm>> ProductsOf(const World& world, DeviceApi& device, const Task& task) {
  WatchedDevice watched(device);
  Models models = world.StartsOf(task);
  SKEP_ASSIGN(const World::Measured measured, world.OnDevice(watched, task, models));
  static_cast<void>(measured);
  return watched.products();
}

// A = 1 + 2^-12 in its first 4,095 columns, B = 1: each sum is exact in single precision, and TF32
// loses the 2^-12. The largest distance from it.
Result<double> ProbeError(DeviceApi& device, const Gemm& asked) {
  constexpr std::uint32_t kMostTerms = 4095;
  Bench bench(device, 1, 32);
  const std::uint32_t terms = std::min(asked.k, kMostTerms);
  Floats a(std::size_t{asked.m} * asked.k);
  for (std::uint32_t i = 0; i < asked.m; ++i) {
    for (std::uint32_t k = 0; k < terms; ++k) {
      a[asked.transpose_a ? std::size_t{i} * asked.k + k : std::size_t{k} * asked.m + i] =
          1 + 0x1p-12F;
    }
  }
  const auto c = bench.Put(Floats(std::size_t{asked.m} * asked.n));
  bench.Multiply({.transpose_a = asked.transpose_a,
                  .transpose_b = asked.transpose_b,
                  .m = asked.m,
                  .n = asked.n,
                  .k = asked.k,
                  .a = bench.Put(a),
                  .lda = asked.transpose_a ? asked.k : asked.m,
                  .b = bench.Put(Floats(std::size_t{asked.k} * asked.n, 1)),
                  .ldb = asked.transpose_b ? asked.n : asked.k,
                  .c = c,
                  .ldc = asked.m});
  const Floats got = bench.Take(c, std::size_t{asked.m} * asked.n);
  if (!bench.status()) return bench.status().error();
  const double want = terms * (1 + 0x1p-12);
  double worst = 0;
  for (const float value : got) {
    const double distance = std::abs(static_cast<double>(value) - want);
    worst = distance <= worst ? worst : distance;  // NaN counts
  }
  return worst;
}

Result<StageResult> Tf32(DeviceApi& device, bool small) {
  std::set<std::tuple<bool, bool, std::uint32_t, std::uint32_t, std::uint32_t>> seen;
  Findings findings;
  for (const World& world : NamedWorlds(small)) {
    const Task task{.lanes = 2, .rows = small ? 2U : 10U, .steps = 1, .step = {.learning_rate = 0}};
    SKEP_ASSIGN(const std::vector<Gemm> products, ProductsOf(world, device, task));
    for (const Gemm& g : products) {
      if (!seen.emplace(g.transpose_a, g.transpose_b, g.m, g.n, g.k).second) continue;
      SKEP_ASSIGN(const double error, ProbeError(device, g));
      findings.Add(error == 0, fmt::format(R"({{"model": {}, "form": "{}{}", "m": {}, "n": {}, )"
                                           R"("k": {}, "sound": {}, "error": {}}})",
                                           JsonText(world.name()), g.transpose_a ? 'T' : 'N',
                                           g.transpose_b ? 'T' : 'N', g.m, g.n, g.k,
                                           Word(error == 0), Number(error)));
    }
  }
  return std::move(findings).Take();
}

Result<Models> TrainLanes(const World& world, DeviceApi& device, const Task& task) {
  Models models = world.StartsOf(task);
  SKEP_ASSIGN(const World::Measured measured, world.OnDevice(device, task, models));
  static_cast<void>(measured);
  return models;
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double distance = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = distance <= worst ? worst : distance;  // NaN counts
  }
  return worst;
}

Result<StageResult> Lanes(DeviceApi& device, bool small) {
  Findings findings;
  for (const World& world : NamedWorlds(small)) {
    Task task{.lanes = 1,
              .rows = 2,
              .steps = small ? 1U : 2U,
              .step = {.learning_rate = 0.05F, .momentum = 0.9F, .gradient_clip = 1}};
    SKEP_ASSIGN(const Models one, TrainLanes(world, device, task));
    task.first = kApart;
    SKEP_ASSIGN(const Models other, TrainLanes(world, device, task));
    task.first = 0;
    task.lanes = 7;
    SKEP_ASSIGN(const Models few, TrainLanes(world, device, task));
    task.lanes = 64;
    SKEP_ASSIGN(const Models many, TrainLanes(world, device, task));
    double worst = std::max(Distance(one[0], few[0]), Distance(other[0], few[kApart]));
    bool is_equal = one[0] == few[0] && other[0] == few[kApart];
    for (std::size_t lane = 0; lane < few.size(); ++lane) {
      is_equal = is_equal && few[lane] == many[lane];
      worst = std::max(worst, Distance(few[lane], many[lane]));
    }
    const bool has_moved = one[0] != world.Start(0);
    findings.Add(is_equal && has_moved,
                 fmt::format(R"({{"model": {}, "lanes": [1, 7, 64], "sound": {}, "equal": {}, )"
                             R"("has_moved": {}, "distance": {}}})",
                             JsonText(world.name()), Word(is_equal && has_moved), Word(is_equal),
                             Word(has_moved), Number(worst)));
  }
  return std::move(findings).Take();
}

// Every lane gets the mean of all.
void Average(Models& models) {
  for (std::size_t i = 0; i < models[0].size(); ++i) {
    double sum = 0;
    for (const std::vector<float>& model : models) sum += static_cast<double>(model[i]);
    const auto mean = static_cast<float>(sum / static_cast<double>(models.size()));
    for (std::vector<float>& model : models) model[i] = mean;
  }
}

Result<StageResult> Parity(DeviceApi& device, bool small) {
  Findings findings;
  for (const char* name : {"2nn", "lenet"}) {
    const World world = WorldOf(name, small);
    const Task task{
        .lanes = 4, .rows = small ? 2U : 10U, .steps = 3, .step = {.learning_rate = 0.1F}};
    Models on_device(task.lanes, world.Start(0));
    Models on_host = on_device;
    for (int round = 1; round <= 3; ++round) {
      SKEP_ASSIGN(const World::Measured measured, world.OnDevice(device, task, on_device));
      static_cast<void>(measured);
      world.OnHost(task, on_host);
      double worst = 0;
      for (std::size_t lane = 0; lane < task.lanes; ++lane) {
        const double distance = Distance(on_device[lane], on_host[lane]);
        worst = distance <= worst ? worst : distance;
      }
      const bool is_sound = worst <= kParityTolerance;
      findings.Add(is_sound, fmt::format(R"({{"model": {}, "round": {}, "sound": {}, )"
                                         R"("distance": {}, "tolerance": {}}})",
                                         JsonText(world.name()), round, Word(is_sound),
                                         Number(worst), Number(kParityTolerance)));
      Average(on_device);
      Average(on_host);
    }
  }
  return std::move(findings).Take();
}

// Bytes per second of a copy within the device's memory, read and written.
Result<double> CopyRate(DeviceApi& device, bool small) {
  const std::uint64_t bytes = std::uint64_t{1} << (small ? 12U : 30U);
  constexpr int kTimes = 10;
  kernels::Arena arena(device, 2 * bytes);
  SKEP_ASSIGN(const auto from, arena.Make<std::byte>(bytes, "what is copied"));
  SKEP_ASSIGN(const auto to, arena.Make<std::byte>(bytes, "where it is copied"));
  SKEP_ASSIGN(const kernels::StreamId stream, device.MakeStream());
  const auto copy = [&]() -> Result<double> {
    SKEP_TRY(device.Clear(stream, from.address, bytes));
    SKEP_TRY(device.CopyWithin(stream, to.address, from.address, bytes));
    SKEP_TRY(device.Synchronise(stream));
    const SteadyTime begun = ReadClock().steady;
    for (int i = 0; i < kTimes; ++i) {
      SKEP_TRY(device.CopyWithin(stream, to.address, from.address, bytes));
    }
    SKEP_TRY(device.Synchronise(stream));
    return 2.0 * static_cast<double>(bytes) * kTimes / Seconds(ReadClock().steady - begun);
  };
  Result<double> rate = copy();
  device.FreeStream(stream);
  return rate;
}

struct Timed {
  const char* model;
  Task task;
};

Result<StageResult> Timing(DeviceApi& device, bool small) {
  Findings findings;
  SKEP_ASSIGN(const double rate, CopyRate(device, small));
  findings.Add(std::isfinite(rate),
               fmt::format(R"({{"what": "copy", "sound": {}, "gb_per_s": {}}})",
                           Word(std::isfinite(rate)), Number(rate * 1e-9)));
  const kernels::OptimiserStep step{.learning_rate = 0.01F};
  for (const Timed& timed :
       {Timed{"2nn",
              {.lanes = small ? 3U : 100U, .rows = 10, .steps = small ? 2U : 60U, .step = step}},
        Timed{"pfl-cnn",
              {.lanes = small ? 2U : 50U,
              .rows = small ? 2U : 50U,
              .steps = small ? 2U : 10U,
              .step = step}}}) {
    const World world = WorldOf(timed.model, small);
    SKEP_ASSIGN(const std::vector<Gemm> products, ProductsOf(world, device, timed.task));
    double flops = 0;
    double bytes = 0;
    for (const Gemm& g : products) {
      const double m = g.m;
      const double n = g.n;
      const double k = g.k;
      flops += 2 * m * n * k * g.batch;
      bytes += 4 * (m * k + k * n + m * n * (g.beta == 0 ? 1 : 2)) * g.batch;
    }
    Models models = world.StartsOf(timed.task);
    SKEP_ASSIGN(const World::Measured measured, world.OnDevice(device, timed.task, models, true));
    const double each = measured.seconds / timed.task.steps;
    const bool is_sound = std::isfinite(each) && each > 0;
    findings.Add(
        is_sound,
        fmt::format(R"({{"what": {}, "sound": {}, "lanes": {}, "rows": {}, "steps": {}, )"
                    R"("us_per_step": {}, "client_steps_per_s": {}, "gflop_per_s": {}, )"
                    R"("mflop_per_step": {}, "mb_per_step": {}, "floor_us_of_bytes": {}}})",
                    JsonText(world.name()), Word(is_sound), timed.task.lanes, timed.task.rows,
                    timed.task.steps, Number(each * 1e6), Number(timed.task.lanes / each),
                    Number(flops / each * 1e-9), Number(flops * 1e-6), Number(bytes * 1e-6),
                    Number(bytes / rate * 1e6)));
  }
  return std::move(findings).Take();
}

}  // namespace

const std::vector<std::string>& StageNames() {
  static const std::vector<std::string> names{"operations", "tf32", "lanes", "parity", "timing"};
  return names;
}

Result<StageResult> RunStage(const std::string& name, DeviceApi& device, bool small) {
  if (name == "operations") return Operations(device, small);
  if (name == "tf32") return Tf32(device, small);
  if (name == "lanes") return Lanes(device, small);
  if (name == "parity") return Parity(device, small);
  if (name == "timing") return Timing(device, small);
  return Error{1102, "there is no stage \"" + name + "\"", ""};
}

}  // namespace skep::gpu
