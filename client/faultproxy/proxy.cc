#include "client/faultproxy/proxy.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::faultproxy {
namespace {

// What an event of the poller belongs to: these, or connection x 4 + side.
constexpr std::uint64_t kWakerKey = 0;
constexpr std::uint64_t kListenerKey = 1;
constexpr std::uint64_t kControlKey = 2;
constexpr unsigned kSideBits = 2;
constexpr std::uint64_t kSideMask = 3;

constexpr std::uint32_t kChanges = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
constexpr int kMostEvents = 256;
constexpr int kMostAccepted = 64;  // in one turn
constexpr Nanoseconds kAcceptPause = std::chrono::milliseconds(100);
constexpr int kLongestPatienceMs = 60'000;

}  // namespace

Result<std::unique_ptr<FaultProxy>> FaultProxy::Make(ProxyOptions options) {
  std::unique_ptr<FaultProxy> proxy(new FaultProxy(std::move(options)));
  SKEP_TRY(proxy->Prepare());
  return proxy;
}

FaultProxy::FaultProxy(ProxyOptions options) : options_(std::move(options)) {
  made_ = options_.clock();
  around_.buffer = std::max<std::size_t>(options_.buffer, 1);
  around_.seed = options_.seed;
  around_.report = [this](Event event) { Report(std::move(event)); };
  around_.watch = [this](int descriptor, std::uint32_t connection, Side side) {
    const std::uint64_t key =
        (static_cast<std::uint64_t>(connection) << kSideBits) + static_cast<std::uint64_t>(side);
    (void)Watch(descriptor, key, kChanges);
  };
}

FaultProxy::~FaultProxy() {
  open_.clear();
  if (poller_ >= 0) ::close(poller_);
  if (waker_ >= 0) ::close(waker_);
}

Status FaultProxy::Prepare() {
  SKEP_ASSIGN(around_.upstream, Resolve(options_.upstream));
  if (around_.upstream.front().port() == 0) {
    return Error{5202, "the upstream " + options_.upstream + " has port 0", "name its port"};
  }
  SKEP_ASSIGN(const auto addresses, Resolve(options_.listen));
  listening_on_ = addresses.front();
  if (!options_.allows_remote && !listening_on_.is_loopback()) {
    return Error{1102, "others than this machine can reach " + listening_on_.text(),
                 "listen on 127.0.0.1 or [::1], or add --allow-remote"};
  }
  poller_ = ::epoll_create1(EPOLL_CLOEXEC);
  waker_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (poller_ < 0 || waker_ < 0 || !Watch(waker_, kWakerKey, EPOLLIN)) {
    return Error{5205, "no more files can be opened: " + SystemReason(errno), "ulimit -n 65536"};
  }
  SKEP_ASSIGN(keeper_, Socket::Bind(listening_on_));
  listening_on_ = keeper_.LocalAddress();
  SKEP_TRY(OpenListener());
  for (const Rule& rule : options_.rules) AddRule(rule);
  return Ok();
}

bool FaultProxy::Watch(int descriptor, std::uint64_t key, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  return ::epoll_ctl(poller_, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void FaultProxy::Report(Event event) const {
  event.time = options_.clock() - made_;
  options_.report(event);
}

void FaultProxy::ReportProblem(const Error& error) const {
  Report({.kind = Event::Kind::kProblem,
          .code = error.code,
          .text = error.message + (error.hint.empty() ? "" : "; " + error.hint)});
}

// --- the loop ---

void FaultProxy::Run() {
  Report(
      {.kind = Event::Kind::kReady, .listen = listening_on_.text(), .upstream = options_.upstream});
  if (options_.control >= 0 && !Watch(options_.control, kControlKey, EPOLLIN)) {
    // A file, not a channel: everything that it will ever say is there.
    while (options_.control >= 0) ReadControl();
  }
  while (!must_stop_) Turn();
  CloseAll();
  Report({.kind = Event::Kind::kStopped, .counters = Total()});
}

void FaultProxy::Stop() {
  must_stop_ = true;
  Wake();
}

void FaultProxy::Wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(waker_, &one, sizeof one);
}

int FaultProxy::Patience(SteadyTime now) const {
  if (!due_.empty()) return is_busy_ ? 0 : 1;
  SteadyTime next = std::min(accept_at_, next_dark_);
  if (!timers_.empty()) next = std::min(next, timers_.begin()->first);
  if (next == kNever) return -1;
  const auto rest = std::chrono::ceil<Milliseconds>(next - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(rest, 0, kLongestPatienceMs));
}

void FaultProxy::Turn() {
  std::array<epoll_event, kMostEvents> events{};
  const int count = ::epoll_wait(poller_, events.data(), kMostEvents, Patience(options_.clock()));
  MindBlackholes(options_.clock());  // before clients are let in
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events.at(static_cast<std::size_t>(i));
    Dispatch(event.data.u64, event.events);
  }
  const SteadyTime now = options_.clock();
  if (accept_at_ <= now) PauseAccepting(false);
  PumpDue(now);
  TakePosted();
  if (open_.size() < options_.most_connections && accept_at_ == kNever) PauseAccepting(false);
}

void FaultProxy::Dispatch(std::uint64_t key, std::uint32_t events) {
  if (key == kWakerKey) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t ignored = ::read(waker_, &count, sizeof count);
    return;
  }
  if (key == kListenerKey) return AcceptAll(options_.clock());
  if (key == kControlKey) return ReadControl();
  const auto found = open_.find(static_cast<std::uint32_t>(key >> kSideBits));
  if (found == open_.end()) return;
  const bool is_broken = (events & (EPOLLERR | EPOLLHUP)) != 0;
  found->second.connection->Notice(static_cast<Side>(key & kSideMask),
                                   is_broken || (events & (EPOLLIN | EPOLLRDHUP)) != 0,
                                   is_broken || (events & EPOLLOUT) != 0);
  due_.insert(found->first);
}

void FaultProxy::PumpDue(SteadyTime now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    due_.insert(timers_.begin()->second);
    timers_.erase(timers_.begin());
  }
  is_busy_ = false;
  for (const std::uint32_t number : std::exchange(due_, {})) {
    const auto found = open_.find(number);
    if (found == open_.end()) continue;
    PumpOne(found->second, now);
    if (!found->second.connection->is_over()) continue;
    Add(closed_, found->second.connection->counters());
    open_.erase(found);
  }
}

void FaultProxy::PumpOne(Open& open, SteadyTime now) {
  Connection& connection = *open.connection;
  timers_.erase({open.wake, connection.number()});
  open.wake = connection.Pump(now);
  if (connection.is_over() || open.wake == kNever) return;
  if (open.wake <= now) {
    due_.insert(connection.number());
    is_busy_ = is_busy_ || connection.is_busy();
  } else {
    timers_.insert({open.wake, connection.number()});
  }
}

// --- listening ---

Status FaultProxy::OpenListener() {
  if (listener_.is_open()) return Ok();
  SKEP_ASSIGN(Socket bound, Socket::Bind(listening_on_));
  if (const int error = bound.Listen(); error != 0) {
    return Error{5201, "cannot listen on " + listening_on_.text() + ": " + SystemReason(error),
                 "choose another address or port; port 0 is a free one"};
  }
  listener_ = std::move(bound);
  PauseAccepting(false);
  return Ok();
}

void FaultProxy::CloseListener() {
  listener_.Close();
  is_accepting_ = false;
  accept_at_ = kNever;
}

void FaultProxy::PauseAccepting(bool is_paused) {
  if (!is_paused) accept_at_ = kNever;
  if (!listener_.is_open() || is_accepting_ != is_paused) return;
  is_accepting_ = !is_paused;
  if (is_accepting_) {
    (void)Watch(listener_.descriptor(), kListenerKey, EPOLLIN);
  } else {
    (void)::epoll_ctl(poller_, EPOLL_CTL_DEL, listener_.descriptor(), nullptr);
  }
}

void FaultProxy::AcceptAll(SteadyTime now) {
  for (int i = 0; i < kMostAccepted; ++i) {
    if (open_.size() >= options_.most_connections) return PauseAccepting(true);
    int error = 0;
    Socket client = listener_.Accept(error);
    if (client.is_open()) {
      lacks_files_ = false;
      Admit(std::move(client), now);
    } else if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      PauseAccepting(true);
      accept_at_ = now + kAcceptPause;
      if (std::exchange(lacks_files_, true)) return;  // said already
      return ReportProblem({5205, "cannot accept: " + SystemReason(error), "ulimit -n 65536"});
    } else if (error != ECONNABORTED && error != EINTR) {
      return;
    }
  }
}

void FaultProxy::Admit(Socket client, SteadyTime now) {
  const std::uint32_t number = ++last_connection_;
  auto connection = std::make_unique<Connection>(number, std::move(client), around_, now);
  for (const NumberedRule& rule : rules_) {
    connection->AddRule(rule.number, rule.rule, now, false);
  }
  if (dark_until_ > now) connection->KeepDark(dark_until_);
  connection->Begin(now);
  open_.emplace(number, Open{.connection = std::move(connection)});
  due_.insert(number);
}

// --- orders ---

void FaultProxy::ReadControl() {
  std::array<char, kLongestLine> piece{};
  const ssize_t count = ::read(options_.control, piece.data(), piece.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count > 0) {
    lines_.Feed(
        {piece.data(), static_cast<std::size_t>(count)},
        [this](std::string_view line) { TakeLine(line); },
        [this] {
          ReportProblem({1102, "an order of more than 4096 bytes", ""});
        });
    return;
  }
  TakeLine(lines_.TakeRest());
  (void)::epoll_ctl(poller_, EPOLL_CTL_DEL, options_.control, nullptr);
  options_.control = -1;
  must_stop_ = true;
}

void FaultProxy::TakeLine(std::string_view line) {
  line = line.substr(0, line.find('#'));
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  const auto order = ParseOrder(line);
  if (order) return Carry(*order);
  ReportProblem(order.error());
}

void FaultProxy::Post(Order order) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(order));
  }
  Wake();
}

void FaultProxy::TakePosted() {
  std::vector<Order> orders;
  {
    const std::lock_guard lock(mutex_);
    orders.swap(posted_);
  }
  for (const Order& order : orders) Carry(order);
  is_busy_ = is_busy_ || !orders.empty();  // what they concern is looked at without waiting
}

void FaultProxy::Carry(const Order& order) {
  Event done{.kind = Event::Kind::kDone};
  switch (order.kind) {
    case Order::Kind::kRule:
      AddRule(order.rule);
      return Report({.kind = Event::Kind::kRule, .rule = last_rule_, .verb = order.rule.verb});
    case Order::Kind::kClear:
      return Clear(order);
    case Order::Kind::kRelease:
      for (auto& [number, open] : open_) {
        open.connection->Release(order.rule);
        due_.insert(number);
      }
      done.text = "release";
      break;
    case Order::Kind::kClose:
      CloseListener();
      done.text = "close";
      break;
    case Order::Kind::kOpen:
      if (const Status opened = OpenListener(); !opened) return ReportProblem(opened.error());
      done.text = "open";
      break;
    case Order::Kind::kCount:
      return Count();
    case Order::Kind::kStop:
      must_stop_ = true;
      done.text = "stop";
      break;
  }
  Report(std::move(done));
}

void FaultProxy::AddRule(const Rule& rule) {
  const SteadyTime now = options_.clock();
  NumberedRule added{.number = ++last_rule_, .rule = rule};
  if (rule.verb == Verb::kBlackhole) {
    added.dark_from = now + rule.after;
    added.dark_until = added.dark_from + rule.lasting;
    next_dark_ = std::min(next_dark_, added.dark_from);
  }
  rules_.push_back(added);
  for (auto& [number, open] : open_) {
    open.connection->AddRule(added.number, rule, now, true);
    due_.insert(number);
  }
  MindBlackholes(now);
}

void FaultProxy::Clear(const Order& order) {
  const std::size_t before = rules_.size();
  for (const NumberedRule& rule : rules_) {
    if (order.number.value_or(rule.number) != rule.number) continue;
    for (auto& [number, open] : open_) {
      open.connection->RemoveRule(rule.number);
      due_.insert(number);
    }
  }
  std::erase_if(rules_, [&order](const NumberedRule& rule) {
    return order.number.value_or(rule.number) == rule.number;
  });
  next_dark_ = SteadyTime{};  // look again
  if (order.number && rules_.size() == before) {
    return ReportProblem({1102, "there is no rule " + std::to_string(*order.number), ""});
  }
  Report({.kind = Event::Kind::kDone, .rule = order.number.value_or(0), .text = "clear"});
}

// Begins and ends the blackholes whose time has come.
void FaultProxy::MindBlackholes(SteadyTime now) {
  if (next_dark_ > now) return;
  next_dark_ = kNever;
  SteadyTime until{};
  for (NumberedRule& rule : rules_) {
    if (rule.dark_until <= now) continue;
    if (rule.dark_from > now) {
      next_dark_ = std::min(next_dark_, rule.dark_from);
      continue;
    }
    until = std::max(until, rule.dark_until);
    if (std::exchange(rule.has_begun, true)) continue;
    Report({.kind = Event::Kind::kFault, .rule = rule.number, .verb = Verb::kBlackhole});
  }
  if (until == dark_until_) return;
  dark_until_ = until;
  for (auto& [number, open] : open_) {
    open.connection->KeepDark(until);
    due_.insert(number);
  }
}

Counters FaultProxy::Total() const {
  Counters total = closed_;
  for (const auto& [number, open] : open_) Add(total, open.connection->counters());
  return total;
}

void FaultProxy::Count() {
  for (const auto& [number, open] : open_) {
    Report({.kind = Event::Kind::kCount,
            .connection = number,
            .counters = open.connection->counters()});
  }
  Report({.kind = Event::Kind::kCount, .counters = Total()});
}

void FaultProxy::CloseAll() {
  listener_.Close();
  keeper_.Close();
  for (auto& [number, open] : open_) {
    open.connection->Abort("stopped");
    Add(closed_, open.connection->counters());
  }
  open_.clear();
  timers_.clear();
  due_.clear();
}

}  // namespace skep::faultproxy
