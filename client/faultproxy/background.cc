#include "client/faultproxy/background.h"

#include <algorithm>
#include <utility>

#include "shared/base/try.h"

namespace skep::faultproxy {

Result<std::unique_ptr<BackgroundProxy>> BackgroundProxy::Start(ProxyOptions options) {
  std::unique_ptr<BackgroundProxy> made(new BackgroundProxy());
  options.report = [own = made.get(), inner = std::move(options.report)](const Event& event) {
    inner(event);
    own->Keep(event);
  };
  SKEP_ASSIGN(made->proxy_, FaultProxy::Make(std::move(options)));
  made->thread_ = std::thread([proxy = made->proxy_.get()] { proxy->Run(); });
  return made;
}

BackgroundProxy::~BackgroundProxy() {
  Stop();
}

void BackgroundProxy::Stop() {
  if (!thread_.joinable()) return;
  proxy_->Stop();
  thread_.join();
}

void BackgroundProxy::Keep(const Event& event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  changed_.notify_all();
}

std::vector<Event> BackgroundProxy::Events() {
  const std::lock_guard lock(mutex_);
  return events_;
}

std::optional<Event> BackgroundProxy::WaitFor(const std::function<bool(const Event&)>& fits,
                                              Milliseconds limit) {
  std::unique_lock lock(mutex_);
  std::size_t seen = 0;
  const auto has_come = [&] {
    while (seen < events_.size() && !fits(events_[seen])) ++seen;
    return seen < events_.size();
  };
  if (!changed_.wait_for(lock, limit, has_come)) return std::nullopt;
  return events_[seen];
}

Result<Event> BackgroundProxy::Do(const std::string& order, Milliseconds limit) {
  SKEP_ASSIGN(Order parsed, ParseOrder(order));
  std::unique_lock lock(mutex_);
  std::size_t seen = events_.size();
  proxy_->Post(std::move(parsed));
  const auto is_answer = [](const Event& event) {
    using Kind = Event::Kind;
    const bool is_total = event.kind == Kind::kCount && event.connection == 0;
    const bool is_refusal = event.kind == Kind::kProblem && event.connection == 0;
    return event.kind == Kind::kRule || event.kind == Kind::kDone || is_total || is_refusal;
  };
  const auto has_come = [&] {
    while (seen < events_.size() && !is_answer(events_[seen])) ++seen;
    return seen < events_.size();
  };
  if (!changed_.wait_for(lock, limit, has_come)) {
    return Error{5407, "the proxy did not answer: " + order, "does it still run?"};
  }
  return events_[seen];
}

}  // namespace skep::faultproxy
