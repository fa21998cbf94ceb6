#include "client/faultproxy/shadow.h"

#include <limits>

namespace skep::faultproxy {

Shadow::Shadow(const Address& upstream, std::size_t limit) : limit_(limit) {
  int error = 0;
  socket_ = Socket::Connect(upstream, error);
  if (error != 0) socket_.Close();
}

std::size_t Shadow::Room() const {
  if (!is_open()) return std::numeric_limits<std::size_t>::max();
  return limit_ - queue_.size();
}

void Shadow::Push(BytesView bytes) {
  if (is_open()) Append(queue_, bytes);
}

bool Shadow::Flush() {
  bool has_moved = false;
  while (is_open() && is_writable_ && !queue_.empty()) {
    const Transfer written = socket_.Write(queue_);
    if (written.kind == Transfer::Kind::kSome) {
      queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(written.count));
      has_moved = true;
    } else if (written.kind == Transfer::Kind::kLater) {
      is_writable_ = false;
    } else {
      socket_.Close();
    }
  }
  return has_moved;
}

bool Shadow::Pump() {
  if (!is_open() || !is_writable_) return false;
  bool has_moved = Flush();
  if (is_open() && is_finished_ && queue_.empty() && !has_ended_) {
    socket_.EndWriting();
    has_ended_ = true;
  }
  if (is_open()) {
    const Transfer read = socket_.Drain();
    has_moved = has_moved || read.count > 0;
    if (read.kind == Transfer::Kind::kEnd || read.kind == Transfer::Kind::kBroken) socket_.Close();
  }
  if (!is_open()) queue_ = {};
  return has_moved;
}

}  // namespace skep::faultproxy
