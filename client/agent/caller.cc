#include "client/agent/caller.h"

#include <utility>

namespace skep::agent {
namespace {

constexpr std::size_t kMostNews = 1000;

}  // namespace

void Caller::Post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_one();
}

void Caller::Tell(std::function<void()> news) {
  const std::lock_guard lock(mutex_);
  if (news_.size() == kMostNews) news_.pop_front();
  news_.push_back(std::move(news));
  changed_.notify_one();
}

void Caller::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_one();
}

void Caller::CloseBy(SteadyTime time) {
  const std::lock_guard lock(mutex_);
  closes_at_ = time;
  changed_.notify_one();
}

// Nothing is locked while the application is called.
void Caller::Run() {
  while (true) {
    TellNews();
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      const auto has_reason = [this] { return is_closed_ || !work_.empty() || !news_.empty(); };
      while (!has_reason()) {
        // The clock's end is no time that a wait understands.
        if (closes_at_ == SteadyTime::max()) {
          changed_.wait(lock);
        } else if (changed_.wait_until(lock, closes_at_) == std::cv_status::timeout) {
          is_closed_ = true;
        }
      }
      if (work_.empty()) {
        if (is_closed_ && news_.empty()) return;
        continue;
      }
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

std::function<void()> Caller::TakeNews() {
  const std::lock_guard lock(mutex_);
  if (news_.empty()) return nullptr;
  std::function<void()> news = std::move(news_.front());
  news_.pop_front();
  return news;
}

void Caller::TellNews() {
  while (const std::function<void()> news = TakeNews()) news();
}

}  // namespace skep::agent
