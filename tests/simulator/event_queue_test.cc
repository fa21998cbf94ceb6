#include "simulator/event_queue.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace skep::simulator {
namespace {

SteadyTime At(int milliseconds) {
  return SteadyTime{} + Milliseconds(milliseconds);
}

TEST_CASE("events happen by time, then kind, then client, then insertion", "[unit]") {
  EventQueue<std::string> queue;
  queue.Push(At(2), EventKind::kUploadArrived, 0, "later");
  queue.Push(At(1), EventKind::kClientTimer, 0, "limit of client 0");
  queue.Push(At(1), EventKind::kTimer, 0, "deadline");
  queue.Push(At(1), EventKind::kTrainingDone, 9, "trained");
  queue.Push(At(1), EventKind::kUploadArrived, 5, "client 5");
  queue.Push(At(1), EventKind::kUploadArrived, 3, "client 3");
  queue.Push(At(1), EventKind::kUploadArrived, 3, "client 3 again");
  std::vector<std::string> order;
  while (!queue.empty()) order.push_back(queue.Pop().second);
  CHECK(order == std::vector<std::string>{"client 3", "client 3 again", "client 5", "trained",
                                          "deadline", "limit of client 0", "later"});
}

TEST_CASE("a removed event does not happen, and removing it twice is harmless", "[unit]") {
  EventQueue<int> queue;
  const EventKey first = queue.Push(At(1), EventKind::kTimer, 0, 1);
  queue.Push(At(2), EventKind::kTimer, 0, 2);
  queue.Remove(first);
  queue.Remove(first);
  CHECK(queue.Pop().second == 2);
  CHECK(queue.empty());
}

}  // namespace
}  // namespace skep::simulator
