#include "client/agent/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <new>
#include <optional>
#include <set>

#include "shared/net/framed_stream.h"
#include "shared/net/task_group.h"
#include "shared/wire/budget.h"
#include "shared/wire/chunk.h"
#include "shared/wire/codec.h"

namespace skep::agent {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kSendQueue = std::size_t{256} * 1024;
constexpr std::size_t kReadBytes = std::size_t{16} * 1024;
constexpr std::size_t kReceiveBudget =
    std::size_t{4} * 1024 * 1024;  // one frame at a time, while it grows
constexpr Milliseconds kBodyPatience{120'000};
constexpr auto kToTuple = asio::as_tuple(asio::use_awaitable);

}  // namespace

struct Loop::State {
  explicit State(std::uint32_t speed)
      : haste(speed),
        began(ReadClock()),
        guard(asio::make_work_guard(context)),
        group(context.get_executor()) {}

  std::uint32_t haste;
  Now began;
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  std::list<asio::steady_timer> timers;
  net::TaskGroup group;
  bool is_stopping = false;

  // Runs outside of the group, which it waits for.
  static net::Awaitable<void> End(State* state, Milliseconds patience) {
    co_await state->group.Stop(patience);
    for (asio::steady_timer& timer : state->timers) timer.cancel();
    state->guard.reset();
  }
};

Loop::Loop(std::uint32_t haste) : state_(std::make_unique<State>(haste)) {}
Loop::~Loop() = default;

Now Loop::Clock() const {
  Now now = ReadClock();
  if (state_->haste == 1) return now;
  const Nanoseconds passed = (now.steady - state_->began.steady) * state_->haste;
  now.steady = state_->began.steady + passed;
  now.wall = state_->began.wall +
             static_cast<WallMs>(std::chrono::duration_cast<Milliseconds>(passed).count());
  return now;
}

void Loop::Post(std::function<void()> action) {
  asio::post(state_->context, std::move(action));
}

void Loop::After(Nanoseconds after, std::function<void()> action) {
  State* const state = state_.get();
  if (state->is_stopping) return;
  state->timers.emplace_back(state->context);
  const auto at = std::prev(state->timers.end());
  // Rounded up: a timer never fires before its time by the loop's clock.
  at->expires_after(after / state->haste + Nanoseconds(1));
  at->async_wait([state, at, run = std::move(action)](const boost::system::error_code& failure) {
    state->timers.erase(at);
    if (!failure && !state->is_stopping) run();
  });
}

void Loop::Run() {
  state_->context.run();
}

// Where memory is wanting for it, it is tried again: by the exception that leaves Run.
void Loop::Stop(Milliseconds patience) {
  if (state_->is_stopping) return;
  State* const state = state_.get();
  asio::co_spawn(state->context, State::End(state, patience),
                 [state](const std::exception_ptr& failure) {
                   if (failure == nullptr) return;
                   state->is_stopping = false;
                   std::rethrow_exception(failure);
                 });
  state->is_stopping = true;
}

// Shared by the owner's Link and by the coroutines, which may outlive it.
struct Link::State {
  State(Loop::State& owner, LinkSetup from, LinkEvents& to)
      : loop(owner),
        setup(std::move(from)),
        events(&to),
        silence(setup.limits.first_answer),
        decoder(setup.role, budget),
        has_body(owner.context),
        tasks(owner.context.get_executor()) {}

  Loop::State& loop;
  LinkSetup setup;
  LinkEvents* events;  // null once the owner has gone
  Milliseconds silence;
  wire::CountingBudget budget{kReceiveBudget};
  wire::FrameDecoder decoder;
  net::FramedStream::Owner stream;
  bool is_closing = false;
  Traffic told;  // of what the stream has counted
  std::deque<client::SendBody> bodies;
  std::set<std::uint32_t> cancelled;
  asio::steady_timer has_body;  // a condition: woken by cancel()
  net::TaskGroup tasks;         // writer and sender of bodies

  [[nodiscard]] bool IsOpen() const { return stream != nullptr && !is_closing; }
  void BeginClose();
  [[nodiscard]] Status Take(wire::Frame frame);
  void Told(std::uint32_t transfer_id) {
    if (events != nullptr) events->OnBodySent(transfer_id);
  }
};

namespace {

using SharedLink = std::shared_ptr<Link::State>;

net::Awaitable<Status> StreamBody(SharedLink link, client::SendBody body) {
  wire::ChunkSender sender({.id = body.transfer_id,
                            .total = body.body.bytes->size(),
                            .offset = body.offset,
                            .chunk_bytes = body.chunk_bytes});
  while (!sender.is_done()) {
    const bool is_wanted = link->IsOpen() && link->cancelled.count(body.transfer_id) == 0;
    if (!is_wanted) co_return Ok();
    const BytesView data =
        BytesView(*body.body.bytes)
            .subspan(static_cast<std::size_t>(sender.offset()), sender.NextLength());
    net::OutgoingFrame frame(sender.NextFrame(data));
    Status sent =
        co_await link->stream->SendBulk(std::move(frame), net::Deadline::In(kBodyPatience, 3338));
    if (!sent.has_value()) co_return sent;
  }
  link->Told(body.transfer_id);
  co_return Ok();
}

net::Awaitable<Status> SendBodies(SharedLink link) {
  while (link->IsOpen()) {
    if (link->bodies.empty()) {
      link->has_body.expires_at(SteadyTime::max());
      [[maybe_unused]] const auto woken = co_await link->has_body.async_wait(kToTuple);
      const auto state = co_await asio::this_coro::cancellation_state;
      if (state.cancelled() != asio::cancellation_type::none) {
        co_return Ok();
      }
      continue;
    }
    client::SendBody body = std::move(link->bodies.front());
    link->bodies.pop_front();
    Status sent = co_await StreamBody(link, std::move(body));
    if (!sent.has_value()) {
      // The reader learns why from the connection itself, or ends by this.
      link->stream->StopReading();
      co_return sent;
    }
  }
  co_return Ok();
}

net::Awaitable<Status> ReadFrames(SharedLink link) {
  std::vector<std::uint8_t> buffer(kReadBytes);
  while (link->IsOpen()) {
    const net::Deadline deadline = net::Deadline::In(link->silence, 3324);
    const Result<std::size_t> count = co_await link->stream->ReadSome(buffer, deadline);
    if (!count.has_value()) {
      co_return count.error();
    }
    if (*count == 0) {
      co_return Error{3001, "the aggregator closed the connection", ""};
    }
    BytesView input = BytesView(buffer).first(*count);
    while (!input.empty() && link->IsOpen()) {
      Result<std::optional<wire::Frame>> frame = link->decoder.Next(input);
      if (!frame.has_value()) {
        co_return frame.error();
      }
      if (!frame->has_value()) break;
      Status taken = link->Take(std::move(**frame));
      if (!taken.has_value()) {
        co_return taken;
      }
    }
    if (!input.empty() && link->IsOpen()) {
      co_return Error{3336, "a frame larger than the memory for it", ""};
    }
  }
  co_return Error{3001, "connection closed on this side", ""};
}

net::Awaitable<Status> Talk(SharedLink link) {
  // Nothing is told before the constructor of the link has returned.
  co_await asio::post(asio::use_awaitable);
  if (link->is_closing) {
    co_return Error{3001, "connection closed on this side", ""};
  }
  const net::ConnectLimits limits{.resolve = link->setup.limits.resolve,
                                  .tcp = link->setup.limits.tcp,
                                  .handshake = link->setup.limits.handshake,
                                  .proxy = link->setup.proxy};
  Result<net::FramedStream::Owner> made = co_await net::FramedStream::Connect(
      link->setup.endpoint, link->setup.tls, limits, kSendQueue);
  if (!made.has_value()) {
    co_return made.error();
  }
  link->stream = std::move(made).value();
  link->tasks.Spawn(link->stream->RunWriter(), nullptr, nullptr);
  link->tasks.Spawn(SendBodies(link), nullptr, nullptr);
  if (link->events != nullptr && !link->is_closing) link->events->OnOpen();
  Status status = co_await ReadFrames(link);
  co_return status;
}

net::Awaitable<void> End(SharedLink link) {
  link->is_closing = true;
  link->has_body.cancel();
  if (link->stream != nullptr) co_await link->stream->Close(link->setup.limits.linger);
  co_await link->tasks.Stop(link->setup.limits.linger);
}

// However the talk ends, also for want of memory: nobody is left behind.
net::Awaitable<Status> RunLink(SharedLink link) {
  Status status = Error{9002, "no memory left", ""};
  try {
    status = co_await Talk(link);
  } catch (const std::bad_alloc&) {
    link->is_closing = true;
  }
  bool has_ended = false;
  while (!has_ended) {
    try {
      co_await End(link);
      has_ended = true;
    } catch (const std::bad_alloc&) {
      link->is_closing = true;
    }
  }
  co_return status;
}

}  // namespace

void Link::State::BeginClose() {
  if (is_closing) return;
  is_closing = true;
  has_body.cancel();
  if (stream != nullptr) stream->StopReading();
}

Status Link::State::Take(wire::Frame frame) {
  if (events == nullptr) return Ok();
  if (frame.kind == wire::FrameKind::kChunk) return events->OnChunk(frame.payload);
  Result<wire::Message> message = wire::DecodeMessage(frame.id, frame.payload);
  if (!message.has_value()) return std::move(message).error();
  events->OnMessage(std::move(message).value());
  return Ok();
}

Link::Link(Loop& loop, LinkSetup setup, LinkEvents& events)
    : state_(std::make_shared<State>(loop.state(), std::move(setup), events)) {
  const SharedLink link = state_;
  loop.state().group.Spawn(
      RunLink(link), [link] { link->BeginClose(); },
      [link](const Status& status) {
        if (link->events == nullptr) return;
        link->events->OnClosed(status.has_value() ? Error{3001, "connection closed", ""}
                                                  : status.error());
      });
}

Link::~Link() {
  state_->events = nullptr;
  state_->BeginClose();
}

void Link::Send(const wire::Message& message) {
  if (!state_->IsOpen()) return;
  const Status sent = state_->stream->Send(wire::EncodeFrame(message));
  // A peer that does not read is as good as gone.
  if (!sent.has_value()) state_->stream->StopReading();
}

void Link::SendBody(const client::SendBody& body) {
  if (!state_->IsOpen()) return;
  state_->bodies.push_back(body);
  state_->has_body.cancel();
}

void Link::CancelBody(std::uint32_t transfer_id) {
  state_->cancelled.insert(transfer_id);
}

void Link::SetChunkBytes(std::uint32_t chunk_bytes) {
  state_->decoder.SetChunkBytes(chunk_bytes);
}

void Link::SetSilence(Milliseconds longest) {
  state_->silence = longest;
}

void Link::Close() {
  state_->BeginClose();
}

Link::Traffic Link::TakeTraffic() {
  Traffic fresh;
  if (state_->stream == nullptr) return fresh;
  const std::uint64_t up = state_->stream->bytes_sent();
  const std::uint64_t down = state_->stream->bytes_received();
  fresh = {.up = up - state_->told.up, .down = down - state_->told.down};
  state_->told = {.up = up, .down = down};
  return fresh;
}

}  // namespace skep::agent
