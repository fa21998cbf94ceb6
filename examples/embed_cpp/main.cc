// A C++ application whose device takes part, with the data of readings.h.
//
//     pump --join-file join.txt --storage state             until SIGTERM
//     pump --join-file join.txt --storage state --once      one check-in, for a scheduler
//     pump --join-file join.txt --storage state --forget    withdraws
#include <signal.h>

#include <cstdio>
#include <fstream>
#include <skep/client.hpp>
#include <string>
#include <vector>

#include "readings.h"

// "3fa92c", or "" as long as this device is not enrolled.
std::string DeviceOf(const skep::Client& client) {
  const std::string status = client.status_json(), key = "\"device\":\"";
  const std::size_t at = status.find(key);
  return at == std::string::npos ? "" : status.substr(at + key.size(), 6);
}

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string mode = words.size() == 5 ? words[4] : "";
  if (words.size() < 4 || words.size() > 5 || words[0] != "--join-file" ||
      words[2] != "--storage" || (mode != "" && mode != "--once" && mode != "--forget")) {
    std::fprintf(stderr, "usage: %s --join-file FILE --storage FOLDER [--once | --forget]\n",
                 argv[0]);
    return 2;
  }
  // In every thread: sigwait, below, asks for them.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  if (mode.empty()) pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  std::string join;  // may be empty once the device is enrolled
  std::getline(std::ifstream(words[1]) >> std::ws, join);
  skep::Client client({.join_string = join,
                       .storage_dir = words[3],
                       .eligibility = {.idle = false, .unmetered = false},
                       .limits = {.device = "cpu", .between_runs = std::chrono::seconds{0}}},
                      std::make_shared<Readings>());
  if (mode == "--forget") {
    client.forget();
    return 0;
  }
  client.on_outcome([&client, is_told = false](const skep::Outcome& outcome) mutable {
    if (const std::string device = DeviceOf(client); !is_told && !device.empty()) {
      std::printf("joined as device %s · ", device.c_str());
      is_told = true;
    }
    if (outcome.failed()) std::printf("SKEP-%d: ", outcome.code);
    std::printf("%s · next in %lld s\n", outcome.message.c_str(),
                static_cast<long long>(outcome.retry_after.count()));
    std::fflush(stdout);
  });
  if (mode == "--once") return client.run_once().failed() ? 1 : 0;
  client.start();
  int signal = 0;
  sigwait(&ends, &signal);
  client.stop();
  return 0;
} catch (const skep::Error& e) {
  std::fprintf(stderr, "SKEP-%d: %s\n", e.code, e.what());
  return 1;
}
