// BackgroundProxy: a FaultProxy in a thread of its own, and what it has reported. For tests of
// whatever talks to an aggregator.
//
// Every wait has a deadline. Any thread. Source: docs/reference/faultproxy.md.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/faultproxy/proxy.h"

namespace skep::faultproxy {

class BackgroundProxy {
 public:
  // Runs when it returns. `options.report` is called before an event is kept. Errors of
  // FaultProxy::Make.
  [[nodiscard]] static Result<std::unique_ptr<BackgroundProxy>> Start(ProxyOptions options);
  // Stops, if it still runs.
  ~BackgroundProxy();
  BackgroundProxy(const BackgroundProxy&) = delete;
  BackgroundProxy& operator=(const BackgroundProxy&) = delete;

  [[nodiscard]] std::uint16_t port() const { return proxy_->port(); }
  // Gives an order as ParseOrder reads it and returns once it was carried out or refused, with the
  // event that says so.
  Result<Event> Do(const std::string& order, Milliseconds limit = Milliseconds(10'000));
  // The first event that fits, be it one that came already; nothing after `limit`.
  [[nodiscard]] std::optional<Event> WaitFor(const std::function<bool(const Event&)>& fits,
                                             Milliseconds limit = Milliseconds(10'000));
  // Time has moved, in a proxy with a clock of its own.
  void Wake() { proxy_->Wake(); }
  // Ends it and waits for its thread.
  void Stop();
  [[nodiscard]] std::vector<Event> Events();

 private:
  BackgroundProxy() = default;
  void Keep(const Event& event);

  std::unique_ptr<FaultProxy> proxy_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace skep::faultproxy
