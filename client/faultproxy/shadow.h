// Shadow: the second connection of `duplicate`. It gets the bytes that the first one got, and its
// answers are thrown away.
//
// The first connection waits for it when it is slow (its queue is bounded), not when it is gone.
// Owned by a Connection. One thread. Source: Skep durability, section 18.
#pragma once

#include <cstdint>

#include "client/faultproxy/socket.h"
#include "shared/base/bytes.h"

namespace skep::faultproxy {

class Shadow {
 public:
  Shadow(const Address& upstream, std::size_t limit);

  [[nodiscard]] int descriptor() const { return socket_.descriptor(); }
  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  // How many bytes Push takes.
  [[nodiscard]] std::size_t Room() const;
  void Push(BytesView bytes);
  // No more bytes will be pushed.
  void Finish() { is_finished_ = true; }
  // The socket can be written to: it is connected, or it failed.
  void NoticeWritable() { is_writable_ = true; }
  // Writes and reads what is possible now; whether that was anything.
  bool Pump();
  // Whether bytes wait that were pushed.
  [[nodiscard]] bool has_queued() const { return !queue_.empty(); }

 private:
  [[nodiscard]] bool Flush();

  Socket socket_;
  std::size_t limit_;
  Bytes queue_;
  bool is_writable_ = false;
  bool is_finished_ = false;
  bool has_ended_ = false;  // our side, after Finish
};

}  // namespace skep::faultproxy
