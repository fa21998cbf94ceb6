#include "aggregator/engine/alarms.h"

#include <algorithm>

namespace skep::aggregator {

std::vector<Alarm> Alarms::TakeDue(SteadyTime now) {
  std::vector<Alarm> due;
  for (auto at = times_.begin(); at != times_.end();) {
    if (at->second <= now) {
      due.push_back(at->first);
      at = times_.erase(at);
    } else {
      ++at;
    }
  }
  return due;
}

bool Alarms::Fired(TimerId timer) {
  if (!armed_ || armed_->timer != timer) return false;
  armed_.reset();
  return true;
}

void Alarms::Arm(Outputs& out) {
  if (times_.empty()) {
    if (armed_) out.push_back(CancelTimer{armed_->timer});
    armed_.reset();
    return;
  }
  const SteadyTime earliest =
      std::min_element(times_.begin(), times_.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->second;
  if (armed_ && armed_->at <= earliest) return;
  if (armed_) out.push_back(CancelTimer{armed_->timer});
  armed_ = Armed{next_++, earliest};
  out.push_back(ArmTimer{armed_->timer, earliest});
}

}  // namespace skep::aggregator
