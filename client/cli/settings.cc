#include "client/cli/settings.h"

#include <boost/json/parse.hpp>

#include <utility>

#include "crypto/secret.h"
#include "shared/base/error_catalogue.h"
#include "shared/base/log.h"
#include "shared/base/try.h"

namespace skep::cli {
namespace {

std::uint32_t Seconds(Nanoseconds span) {
  return static_cast<std::uint32_t>(std::chrono::ceil<std::chrono::seconds>(span).count());
}

std::int32_t LevelOf(const std::string& name) {
  switch (ParseLogLevel(name).value_or(LogLevel::kInfo)) {
    case LogLevel::kError:
      return SKEP_LOG_ERROR;
    case LogLevel::kWarning:
      return SKEP_LOG_WARNING;
    case LogLevel::kInfo:
      return SKEP_LOG_INFO;
    case LogLevel::kDebug:
      break;
  }
  return SKEP_LOG_DEBUG;
}

}  // namespace

ClientOptions::ClientOptions(const GlobalOptions& global, const config::ClientConfig& config)
    : config_(config), device_(config.limits.device) {
  skep_options_init(&options_, sizeof options_);
  options_.log_level = global.is_quiet ? SKEP_LOG_ERROR : LevelOf(config.log_level);
  options_.require_charging = static_cast<std::uint8_t>(config.eligibility.charging);
  options_.require_idle = static_cast<std::uint8_t>(config.eligibility.idle);
  options_.require_unmetered = static_cast<std::uint8_t>(config.eligibility.unmetered);
  options_.min_battery = static_cast<float>(config.eligibility.min_battery);
  options_.max_cpu = static_cast<float>(config.limits.cpu);
  options_.max_threads = config.limits.threads;
  options_.max_memory = config.limits.memory;
  options_.max_storage = config.limits.storage;
  options_.max_bytes_per_day = config.limits.bytes_per_day;
  options_.max_seconds_per_run = Seconds(config.limits.per_run);
  options_.min_seconds_between_runs = Seconds(config.limits.between_runs);
}

ClientOptions::~ClientOptions() {
  crypto::Wipe({reinterpret_cast<std::uint8_t*>(join_string_.data()), join_string_.size()});
}

const skep_options* ClientOptions::get() {
  options_.join_string = join_string_.c_str();
  options_.endpoint = config_.endpoint.c_str();
  options_.population = config_.population.c_str();
  options_.storage_dir = config_.storage_dir.c_str();
  options_.device = device_.c_str();
  return &options_;
}

Error ErrorOf(const skep_outcome& outcome) {
  const ErrorEntry* known = FindError(outcome.code);
  // A message that is followed by advice has it already.
  const std::string message = outcome.message;
  const std::size_t cut = message.find("; ");
  if (cut != std::string::npos)
    return {outcome.code, message.substr(0, cut), message.substr(cut + 2)};
  return {outcome.code, message, known == nullptr ? "" : std::string(known->remedy)};
}

Result<boost::json::object> ReportOf(GetJson get, ClientOptions& options) {
  std::string text;
  std::size_t size = 0;
  skep_outcome why{};
  why.struct_size = sizeof why;
  skep_status status = get(options.get(), text.data(), &size, &why);
  while (status == SKEP_E_BUFFER) {  // it may have grown since it was measured
    text.resize(size);
    status = get(options.get(), text.data(), &size, &why);
  }
  if (status != SKEP_OK) return ErrorOf(why);
  text.resize(size);
  return boost::json::parse(text).as_object();  // the library's own words
}

Status CheckEnrolled(ClientOptions& options) {
  SKEP_ASSIGN(const boost::json::object report, ReportOf(&skep_status_json, options));
  if (report.contains("enrolment")) return Ok();
  if (const boost::json::value* damage = report.if_contains("enrolment_error")) {
    const boost::json::object& why = damage->as_object();
    return Error{why.at("code").to_number<int>(), std::string(why.at("message").as_string()),
                 std::string(why.at("advice").as_string())};
  }
  return Error{4004,
               std::string(report.at("storage_dir").as_string()) + ": this device is not enrolled",
               "skep-client join --join-file FILE"};
}

skep_data_source NoData() {
  return {
      .struct_size = sizeof(skep_data_source),
      .reserved = 0,
      .user = nullptr,
      .count = [](void*, const skep_task*) { return std::int64_t{0}; },
      .rewind = [](void*, const skep_task*, std::uint64_t) -> skep_status { return SKEP_E_DATA; },
      .next = [](void*, const skep_task*, std::size_t, skep_batch*) -> skep_status {
        return SKEP_E_DATA;
      }};
}

Result<ClientPtr> OpenClient(ClientOptions& options, const skep_data_source& data) {
  skep_client* client = nullptr;
  skep_outcome why{};
  why.struct_size = sizeof why;
  if (skep_client_new(options.get(), &data, nullptr, &client, &why) != SKEP_OK) return ErrorOf(why);
  return ClientPtr(client);
}

}  // namespace skep::cli
