#include "client/faultproxy/line_reader.h"

#include <utility>

namespace skep::faultproxy {

void LineReader::Feed(std::string_view bytes, const std::function<void(std::string_view)>& on_line,
                      const std::function<void()>& on_too_long) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (pending_.size() + part.size() > kLongestLine) {
      is_too_long_ = true;
      pending_.clear();
    }
    if (!is_too_long_) pending_ += part;
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    const std::string line = std::exchange(pending_, {});
    if (std::exchange(is_too_long_, false)) {
      on_too_long();
    } else {
      on_line(line);
    }
  }
}

std::string LineReader::TakeRest() {
  if (std::exchange(is_too_long_, false)) pending_.clear();
  return std::exchange(pending_, {});
}

}  // namespace skep::faultproxy
