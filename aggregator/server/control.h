// Control: what an operator may ask of a running aggregator, as plain values.
//
// Not a protocol: how questions arrive (a socket, a test) and how answers are printed is the
// caller's business, and so is who may ask. Implemented by Server; called by the administration's
// own thread. Every member may be called from any thread but the server's network thread, blocks
// until the answer is there, and after the server's end answers SKEP-5401. Changes are durable on
// return. Source: docs/operations.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregator/engine/round_engine.h"
#include "aggregator/store/registry.h"
#include "shared/config/problem.h"

namespace skep::aggregator {

struct ListenerView {
  std::string name;     // devices, enrol
  std::string address;  // ADDRESS:PORT as bound
};

struct StatusView {
  bool is_draining = false;
  Nanoseconds uptime{};
  FederationId federation;
  std::uint32_t epoch = 1;
  std::vector<ListenerView> listeners;
  std::string advertised_devices;  // HOST:PORT as devices are told
  std::string advertised_enrol;    // "" without enrolment
  std::string store;               // folder
  std::uint64_t free_bytes = 0;    // on its file system
  WallMs certificate_ends = 0;
  std::uint32_t sessions = 0;
  std::uint32_t devices = 0;
  std::uint32_t populations = 0;
  std::uint32_t runs = 0;       // over or not
  std::uint32_t running = 0;    // of those: running or paused
  std::vector<Error> problems;  // each with its remedy; empty: all is well
};

struct PopulationView {
  PopulationRow row;
  std::uint32_t devices = 0;    // enrolled
  std::uint32_t connected = 0;  // with a session
  std::uint32_t held = 0;       // waiting in a Poll
};

struct DeviceView {
  DeviceRow row;
  bool is_connected = false;
};

// How many devices of a cohort ended in one way, by SKEP number.
struct CodeCount {
  AssignmentState state = AssignmentState::kDeclined;  // kDeclined, kRefused or kFailed
  int code = 0;
  std::uint32_t count = 0;
};

struct RunStatus {
  RunView view;  // SteadyTimes in it are of no use to a caller: see below
  std::uint64_t seed = 0;
  Nanoseconds waiting{};  // since when it waits for what view.waiting_for says
  std::optional<Nanoseconds> closes_in;
  std::vector<CodeCount> codes;  // of the attempt that is open, or was last
};

struct RoundView {
  RoundRow row;                         // manifest left out
  std::optional<AttemptCounts> counts;  // of attempts that ended since the server's start
  std::vector<CodeCount> codes;
};

struct RunDetail {
  RunStatus status;
  std::string experiment_toml;    // effective
  std::vector<RoundView> rounds;  // in the order of opening
};

struct StartRequest {
  std::string text;    // of the experiment file
  std::string path;    // how messages call it
  std::string folder;  // relative paths in it begin here
  std::vector<std::string> sets;
  std::string population;   // wins over the file's; "" = the file's (SKEP-5315 if neither)
  std::string request_key;  // "" = made from text, path and population
  bool is_dry_run = false;
};

struct StartedRun {
  RunId id;
  std::string name;
  std::string population;
  bool existed = false;  // this request key has started it before
  std::uint64_t seed = 0;
  Hash32 plan_sha256;
  std::uint64_t plan_bytes = 0;
  Hash32 initial_model;
  std::uint64_t model_bytes = 0;
  std::uint64_t update_bytes = 0;
  std::uint32_t invited = 0;
  std::vector<config::Note> notes;
};

class Control {
 public:
  virtual ~Control() = default;

  [[nodiscard]] virtual Result<StatusView> GetStatus() = 0;

  // SKEP-5405: it exists; 5408: not a Name.
  [[nodiscard]] virtual Status CreatePopulation(const std::string& name) = 0;
  [[nodiscard]] virtual Result<std::vector<PopulationView>> Populations() = 0;
  // `count` join strings in the order of their client numbers; `lifetime` 0 = enrolment.token_ttl.
  // SKEP-5403: no such population; 5408: count not in 1..100,000; 5405: this server does not enrol.
  [[nodiscard]] virtual Result<std::vector<std::string>> CreateTokens(const std::string& population,
                                                                      std::uint32_t count,
                                                                      Nanoseconds lifetime) = 0;
  [[nodiscard]] virtual Result<std::vector<TokenRow>> Tokens(const std::string& population) = 0;
  [[nodiscard]] virtual Result<std::vector<DeviceView>> Devices() = 0;
  // Revoking closes its session and is final. SKEP-5403, 5405.
  [[nodiscard]] virtual Status ChangeDevice(const DeviceId& device, DeviceState state,
                                            const std::string& why) = 0;

  // Reads the data, makes the first model, and starts the run: stored and running on return; if it
  // cannot be stored, the store's error and no run. Every problem of the file at once; also
  // SKEP-5308 the name is in use, 5403 no such population, 5302 fewer active devices and unused
  // tokens than min_reports, 5316 no data specification, 5304, 5305, 5307, 5310.
  [[nodiscard]] virtual config::Validated<StartedRun> StartRun(const StartRequest& request) = 0;
  // Without `all` those that are running or paused; oldest first.
  [[nodiscard]] virtual Result<std::vector<RunStatus>> Runs(bool all) = 0;
  // By name (the latest of that name) or id, or a unique prefix of an id of at least 6 digits.
  // SKEP-5403, 5404.
  [[nodiscard]] virtual Result<RunDetail> FindRun(const std::string& run) = 0;
  // SKEP-5405 for a run that is over, except that stopping one again does nothing and succeeds. A
  // pause or stop that waits for the open round returns at once, and is kept until then in memory.
  [[nodiscard]] virtual Status ChangeRun(const std::string& run, ControlRun::Action action) = 0;
  // A published model: of `round`, or the current one. SKEP-5403.
  struct PublishedModel {
    std::uint32_t round = 0;
    Hash32 sha256;
    model::ParamsPtr params;
  };
  [[nodiscard]] virtual Result<PublishedModel> Model(const std::string& run,
                                                     std::optional<std::uint32_t> round) = 0;
};

}  // namespace skep::aggregator
