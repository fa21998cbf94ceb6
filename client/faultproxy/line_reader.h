// LineReader: lines out of bytes that come in pieces, each of bounded length.
//
// For orders on a control channel. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace skep::faultproxy {

inline constexpr std::size_t kLongestLine = 4096;

class LineReader {
 public:
  // Calls `on_line` for each line that is complete, without its line feed; `on_too_long` instead
  // for one of more than kLongestLine bytes.
  void Feed(std::string_view bytes, const std::function<void(std::string_view)>& on_line,
            const std::function<void()>& on_too_long);
  // The last line, which has no line feed; may be empty.
  [[nodiscard]] std::string TakeRest();

 private:
  std::string pending_;
  bool is_too_long_ = false;
};

}  // namespace skep::faultproxy
