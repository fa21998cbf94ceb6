#include "client/embed/options.h"

#include <cstddef>
#include <utility>

#include "client/embed/structures.h"
#include "kernels/cuda/loader.h"
#include "shared/base/try.h"
#include "shared/net/proxy.h"

namespace skep::embed {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20U;
constexpr std::uint64_t kSixHours = 6 * 3600;
constexpr std::uint64_t kThirtyDays = std::uint64_t{30} * 24 * 3600;
constexpr std::size_t kLongestText = 4096;

Error OutOfRange(const std::string& name, const std::string& range) {
  return Error{7001, name + " is out of range", name + " takes " + range};
}

Status Text(const char* from, const char* name, std::string& to) {
  if (from == nullptr) return Ok();
  const std::size_t length = ::strnlen(from, kLongestText + 1);
  if (length > kLongestText) return OutOfRange(name, "at most 4096 bytes");
  to.assign(from, length);
  return Ok();
}

Status ReadTexts(const skep_options& from, Options& to) {
  SKEP_TRY(Text(from.join_string, "join_string", to.join_string));
  SKEP_TRY(Text(from.endpoint, "endpoint", to.endpoint));
  SKEP_TRY(Text(from.population, "population", to.population));
  SKEP_TRY(Text(from.app_version, "app_version", to.app_version));
  SKEP_TRY(Text(from.storage_dir, "storage_dir", to.storage_dir));
  SKEP_TRY(Text(from.device, "device", to.device));
  if (to.storage_dir.empty()) return OutOfRange("storage_dir", "the path of a folder");
  if (!to.endpoint.empty() && !net::ParseEndpoint(to.endpoint).has_value()) {
    return OutOfRange("endpoint", "\"HOST:PORT\"");
  }
  return Ok();
}

// "cpu:avx2": with these instructions alone, so that results repeat on other processors.
Status ReadDevice(Options& to) {
  constexpr std::string_view kWithIsa = "cpu:";
  const Error bad = OutOfRange("device", "\"auto\", \"cpu\", \"cpu:avx2\" or \"cuda:N\"");
  if (to.device.empty()) to.device = "auto";
  to.isa = kernels::DetectIsa();
  if (to.device.starts_with(kWithIsa)) {
    const Result<kernels::Isa> isa = kernels::ParseIsa(to.device.substr(kWithIsa.size()));
    if (!isa.has_value()) return bad;
    to.isa = *isa;
    to.device = "cpu";
  }
  return kernels::ParseDevice(to.device).has_value() ? Ok() : Status(bad);
}

Status ReadProxy(const skep_options& from, Options& to) {
  std::string proxy;
  SKEP_TRY(Text(from.proxy, "proxy", proxy));
  if (proxy.empty()) return Ok();
  const Result<net::Endpoint> endpoint = net::ParseProxy(proxy);
  if (!endpoint.has_value()) return OutOfRange("proxy", "\"http://HOST:PORT\"");
  to.proxy = *endpoint;
  return Ok();
}

Status ReadPolicyOf(const skep_options& from, Options& to) {
  if (from.policy_json == nullptr) return Ok();
  SKEP_ASSIGN(to.policy, ReadPolicy(from.policy_json));
  return Ok();
}

Status ReadEligibility(const skep_options& from, Options& to) {
  if (!(from.min_battery >= 0 && from.min_battery <= 1)) return OutOfRange("min_battery", "0 to 1");
  to.eligibility = {.charging = from.require_charging != 0,
                    .idle = from.require_idle != 0,
                    .unmetered = from.require_unmetered != 0,
                    .min_battery = double{from.min_battery}};
  return Ok();
}

Status ReadCaps(const skep_options& from, Options& to) {
  if (!(from.max_cpu >= 0.05F && from.max_cpu <= 1)) return OutOfRange("max_cpu", "0.05 to 1");
  if (from.max_threads < 1 || from.max_threads > 64) return OutOfRange("max_threads", "1 to 64");
  if (from.max_memory < 16 * kMebibyte) return OutOfRange("max_memory", "at least 16 MiB");
  if (from.max_storage < 16 * kMebibyte) return OutOfRange("max_storage", "at least 16 MiB");
  if (from.max_bytes_per_day < kMebibyte) return OutOfRange("max_bytes_per_day", "at least 1 MiB");
  if (from.max_seconds_per_run < 10 || from.max_seconds_per_run > kSixHours) {
    return OutOfRange("max_seconds_per_run", "10 to 21600");
  }
  if (from.min_seconds_between_runs > kThirtyDays) {
    return OutOfRange("min_seconds_between_runs", "0 to 2592000");
  }
  to.max_threads = from.max_threads;
  to.caps = {.cpu = double{from.max_cpu},
             .memory = from.max_memory,
             .storage = from.max_storage,
             .bytes_per_day = from.max_bytes_per_day,
             .per_run = std::chrono::seconds(from.max_seconds_per_run),
             .between_runs = std::chrono::seconds(from.min_seconds_between_runs)};
  return Ok();
}

Status ReadLogLevel(const skep_options& from, Options& to) {
  switch (from.log_level) {
    case SKEP_LOG_ERROR:
      to.log_level = LogLevel::kError;
      return Ok();
    case SKEP_LOG_WARNING:
      to.log_level = LogLevel::kWarning;
      return Ok();
    case SKEP_LOG_INFO:
      to.log_level = LogLevel::kInfo;
      return Ok();
    case SKEP_LOG_DEBUG:
      to.log_level = LogLevel::kDebug;
      return Ok();
    default:
      return OutOfRange("log_level", "SKEP_LOG_ERROR to SKEP_LOG_DEBUG");
  }
}

}  // namespace

std::string Options::Software() const {
  const std::string own = "skep-client " SKEP_VERSION;
  return app_version.empty() ? own : own + " (" + app_version + ")";
}

Result<Options> ReadOptions(const skep_options* from) {
  if (from == nullptr || !HasSize(*from)) {
    return Error{7002, "struct_size of skep_options is not one of its sizes",
                 "call skep_options_init first"};
  }
  const skep_options read = Read(*from, DefaultOptions());
  Options options;
  SKEP_TRY(ReadTexts(read, options));
  SKEP_TRY(ReadDevice(options));
  SKEP_TRY(ReadProxy(read, options));
  SKEP_TRY(ReadPolicyOf(read, options));
  SKEP_TRY(ReadEligibility(read, options));
  SKEP_TRY(ReadCaps(read, options));
  SKEP_TRY(ReadLogLevel(read, options));
  return options;
}

skep_options DefaultOptions() {
  skep_options options{};
  options.struct_size = sizeof options;
  options.log_level = SKEP_LOG_INFO;
  options.require_charging = options.require_idle = options.require_unmetered = 1;
  options.min_battery = 0.3F;
  options.max_cpu = 0.7F;
  options.max_threads = 1;
  options.max_memory = 256 * kMebibyte;
  options.max_storage = 512 * kMebibyte;
  options.max_bytes_per_day = 64 * kMebibyte;
  options.max_seconds_per_run = 600;
  options.min_seconds_between_runs = 900;
  options.device = "auto";
  return options;
}

}  // namespace skep::embed
