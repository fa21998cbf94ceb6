// Apart from the rest of the log, so that a library with a sink of its own needs no logger.
#include <memory>

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "shared/base/log.h"

namespace skep {

std::function<void(LogLevel, std::string_view)> StandardErrorSink() {
  auto logger =
      std::make_shared<spdlog::logger>("skep", std::make_shared<spdlog::sinks::stderr_sink_st>());
  logger->set_pattern("%v");
  logger->flush_on(spdlog::level::trace);
  return [logger](LogLevel, std::string_view line) {
    logger->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
  };
}

}  // namespace skep
