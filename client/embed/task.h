// skep_task: one piece of work as the application's callbacks see it, and why it has to stop.
//
// Made by AppHost on the application's thread, for one call of count or one piece of work; never
// outlives it. Source: skep/skep.h (a task); Skep client library, section 6.
#pragma once

#include <skep/skep.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "client/agent/host.h"
#include "client/update_pipeline.h"
#include "shared/base/result.h"
#include "shared/wire/plan.h"

namespace skep::embed {

class AppSource;

// "" for a plan without one; else its DataSpec as a JSON object with the names of its fields.
[[nodiscard]] std::string DataSpecJson(const std::optional<wire::DataSpec>& spec);

// How a task's gate, or a callback, ends it for the application.
[[nodiscard]] skep_status StatusOf(const Error& why);

// Calls the application. What it throws, against the rules, ends here and comes to `thrown`.
template <class F>
[[nodiscard]] auto CallApp(skep_status thrown, F&& f) noexcept -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return SKEP_E_MEMORY;
  } catch (...) {
    return thrown;
  }
}

}  // namespace skep::embed

// NOLINTNEXTLINE(readability-identifier-naming): the name is that of skep/skep.h.
struct skep_task {
  explicit skep_task(skep::agent::OfferedTask from);

  skep::agent::OfferedTask offered;
  std::string id;  // "<run>-<round>-<kind>-<attempt>", as its folder in work/
  std::map<std::string, std::string, std::less<>> texts;

  // While it is worked on; null while examples are counted.
  skep::embed::AppSource* source = nullptr;
  skep::client::BatchGate* gate = nullptr;
  std::function<void(double fraction, double loss)> on_progress{};
  skep::client::NamedMetrics metrics{};

  // What skep_task_fail was told, for this device alone.
  mutable std::string failure{};
  // Why it has to end: the gate's word or the library's complaint about a batch. Said once, it
  // stays.
  mutable std::optional<skep::Error> stopped{};

  // Passes the gate.
  [[nodiscard]] skep::Status Check() const;
  [[nodiscard]] std::uint64_t Seed(std::uint32_t epoch) const;
};
