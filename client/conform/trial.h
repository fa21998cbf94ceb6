// Trial: what one check works with: a population of its own, devices that run the program under
// check, runs, and waits that end.
//
// A wait that is over without its event is an Error: its message is what a FAIL measured, its hint
// what is allowed. Everything ends with the object. One thread. Source: docs/conformance.md.
#pragma once

#include <boost/json/value.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/conform/child.h"
#include "client/conform/den.h"
#include "client/conform/host.h"
#include "client/conform/report.h"
#include "client/conform/request.h"

namespace skep::conform {

// What the checks have in common.
struct World {
  const Request& request;
  std::string program;     // its path
  std::string aggregator;  // likewise
  std::string folder;      // everything of this run of the harness
  std::string experiment;  // an experiment.toml
  std::string data;        // the table that it describes
  Host& host;
};

// One device: its folders and the program that runs there.
class Device {
 public:
  [[nodiscard]] std::string storage() const { return disk_ + "/storage"; }
  [[nodiscard]] std::string disk() const { return disk_; }
  // Of the storage folder, for this process.
  [[nodiscard]] std::string Inside(const std::string& name) const {
    return den_->Inside(storage() + "/" + name);
  }
  [[nodiscard]] Den& den() { return *den_; }
  [[nodiscard]] Child& program() { return *program_; }

  // The program with its usual words, or with those to forget.
  [[nodiscard]] Status Start();
  [[nodiscard]] Result<Exit> RunToForget();
  // SIGTERM, and how it ended; killed after `limit`, then nothing.
  [[nodiscard]] std::optional<Exit> Stop(Milliseconds limit = Milliseconds(10'000));
  void Kill() { program_->Kill(); }
  [[nodiscard]] Status SetJoinString(const std::string& text);

  // What it printed, and whether that has this text.
  [[nodiscard]] std::string Output() const;
  [[nodiscard]] bool Said(const std::string& text) const {
    return Output().find(text) != std::string::npos;
  }
  // Names below the storage folder, relative.
  [[nodiscard]] std::vector<std::string> Files() const;

 private:
  friend class Trial;
  const World* world_ = nullptr;
  std::string base_;
  std::string disk_;
  std::string join_;  // the join string
  std::unique_ptr<Den> den_;
  std::optional<Child> program_;
  [[nodiscard]] std::vector<std::string> Filled(std::vector<std::string> words) const;
};

struct DeviceOptions {
  std::string power = {};        // as in DenOptions
  std::uint64_t disk_bytes = 0;  // as in DenOptions
  Host* host = nullptr;          // another one than the world's
};

class Trial {
 public:
  Trial(World& world, int number);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  [[nodiscard]] World& world() { return world_; }
  [[nodiscard]] Host& host() { return world_.host; }
  [[nodiscard]] const std::string& population() const { return population_; }

  // With a join string of its own; not started.
  [[nodiscard]] Result<Device*> AddDevice(const DeviceOptions& options = {});
  // Started and held by the aggregator.
  [[nodiscard]] Result<Device*> AddHeldDevice(const DeviceOptions& options = {});
  [[nodiscard]] Status WaitHeld(std::int64_t count);

  // The experiment with these values; the run's name.
  [[nodiscard]] Result<std::string> StartRun(const std::vector<std::string>& sets);
  // The run, once `is_so`.
  using Condition = std::function<bool(const boost::json::value& run)>;
  [[nodiscard]] Result<boost::json::value> WaitRun(const std::string& run, const std::string& what,
                                                   const Condition& is_so,
                                                   Milliseconds limit = Milliseconds(60'000));
  // Finished with every round published from the reports of `devices` each: what "counted once"
  // means.
  [[nodiscard]] Result<boost::json::value> WaitFinished(const std::string& run,
                                                        std::int64_t devices = 1,
                                                        Milliseconds limit = Milliseconds(60'000));
  // Until `is_so`, looked at often.
  [[nodiscard]] Status WaitUntil(const std::string& what,
                                 const std::function<Result<bool>()>& is_so, Milliseconds limit);

  // Events of the proxy for devices since this trial began.
  [[nodiscard]] std::vector<faultproxy::Event> Events();
  [[nodiscard]] std::size_t CountEvents(faultproxy::Event::Kind kind);
  // Of every connection there has been since the trial began, as of now.
  [[nodiscard]] Result<faultproxy::Counters> Traffic();
  // Of one open connection.
  [[nodiscard]] Result<faultproxy::Counters> TrafficOf(std::uint32_t connection);
  [[nodiscard]] Status Order(const std::string& order);
  // The newest connection.
  [[nodiscard]] std::uint32_t LastConnection();

 private:
  World& world_;
  std::string folder_;
  std::string population_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::string> runs_;
  std::size_t first_event_ = 0;
  faultproxy::Counters before_{};
};

// The last attempt of a run that has one of the kind "train" or "evaluate".
[[nodiscard]] const boost::json::value* LastAttempt(const boost::json::value& run,
                                                    const std::string& kind);

}  // namespace skep::conform
