#include "simulator/run_history.h"

#include <algorithm>

namespace skep::simulator {

std::string RunHistory::Setting(const std::string& key) const {
  const auto found = std::lower_bound(settings.begin(), settings.end(), key,
                                      [](const HistorySetting& setting, const std::string& wanted) {
                                        return setting.key < wanted;
                                      });
  return found != settings.end() && found->key == key ? found->value : "";
}

}  // namespace skep::simulator
