// Federation: a real aggregator and its devices as processes on loopback, over TLS, and the
// simulator beside them.
//
// Everything lies in one temporary folder; processes end with the object, by their own ids. Waits
// have deadlines and look at the admin socket, never at a clock alone. For tests only; one thread.
#pragma once

#include <boost/json/value.hpp>

#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/server/admin_message.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace skep::test {

struct FederationSetup {
  std::size_t devices = 8;
  std::vector<std::size_t> joining =
      {};                         // the order in which they join and start; empty: 0, 1, ...
  std::string server_lines = {};  // added to server.toml
  std::string data_lines = {};    // added to [data] of the experiment, which devices read, too
};

class Federation {
 public:
  // Initialised, served, joined, and every device held in its poll.
  explicit Federation(const FederationSetup& setup);

  [[nodiscard]] std::string experiment() const { return (folder_.path() / "run.toml").string(); }
  [[nodiscard]] std::filesystem::path store() const { return folder_.path() / "agg" / "store"; }
  [[nodiscard]] Process& device(std::size_t number) { return *devices_.at(number); }
  [[nodiscard]] std::string DeviceFolder(std::size_t number) const;

  void Serve();
  void KillServer();  // SIGKILL, and reaped
  void StartDevice(std::size_t number);
  void KillDevice(std::size_t number);
  void WaitHeld(std::size_t count);

  // Answers of the daemon; its refusal fails the test.
  [[nodiscard]] boost::json::value Ask(const std::string& method, const std::string& path,
                                       const std::string& body = {});
  // Starts the experiment with these values; its id.
  [[nodiscard]] std::string StartRun(const std::vector<std::string>& sets);
  // Looks at the run until `is_so`; fails the test after two minutes.
  using Condition = std::function<bool(const boost::json::object& run)>;
  [[nodiscard]] boost::json::object WaitUntil(const std::string& run, const std::string& what,
                                              const Condition& is_so);
  [[nodiscard]] boost::json::object WaitOver(const std::string& run);
  // Starts a run, waits for it, and gives the hash of its model.
  [[nodiscard]] std::string Deployed(const std::vector<std::string>& sets);
  // The hash that the simulator gives for the same file and values.
  [[nodiscard]] std::string Simulated(const std::vector<std::string>& sets);

  // What the processes said, for the report of a failure.
  [[nodiscard]] std::string Logs() const;

 private:
  [[nodiscard]] std::vector<std::string> Aggregator(std::vector<std::string> words) const;
  [[nodiscard]] boost::json::value Answer(const aggregator::AdminRequest& request);
  void Join(std::size_t number, const std::string& join_string);

  TemporaryFolder folder_;
  std::unique_ptr<Process> server_;
  std::map<std::size_t, std::unique_ptr<Process>> devices_;
  int served_ = 0;
  int started_ = 0;
  int simulated_ = 0;
};

[[nodiscard]] std::string TextOf(const boost::json::object& run, const char* key);
[[nodiscard]] std::int64_t NumberOf(const boost::json::object& run, const char* key);
// Of the attempt that is open: reports that were accepted.
[[nodiscard]] std::int64_t Reported(const boost::json::object& run);

}  // namespace skep::test
