#include "client/conform/trial.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::conform {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using faultproxy::Event;

constexpr Milliseconds kPatience{60'000};
constexpr Milliseconds kBetweenLooks{50};

// Where programs like to write: /tmp and the like, the home and the folder they are started in.
// None that lies in another: one layer above both is enough.
std::vector<std::string> CaughtFolders() {
  std::vector<std::string> wanted{"/tmp", "/var/tmp", "/dev/shm"};
  const char* home = std::getenv("HOME");
  if (home != nullptr) wanted.emplace_back(home);
  std::error_code ignored;
  wanted.push_back(fs::current_path(ignored).string());
  std::vector<std::string> caught;
  for (const std::string& folder : wanted) {
    const bool is_usable = folder.size() > 1 && folder.find_first_of(",:\\") == std::string::npos &&
                           fs::is_directory(folder, ignored);
    bool is_new = is_usable;
    for (const std::string& other : caught) is_new &= !(folder + "/").starts_with(other + "/");
    if (is_new) caught.push_back(folder);
  }
  return caught;
}

std::string LastLine(const std::string& text) {
  const std::size_t end = text.find_last_not_of("\n");
  if (end == std::string::npos) return "";
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin));
}

std::string ShortText(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  constexpr std::size_t kMost = 160;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

}  // namespace

// --- a device ---

std::vector<std::string> Device::Filled(std::vector<std::string> words) const {
  words = Fill(std::move(words), {{"join_file", base_ + "/join.txt"},
                                  {"join", join_},
                                  {"storage", storage()},
                                  {"data", world_->data}});
  words.insert(words.begin(), world_->program);
  return words;
}

Status Device::Start() {
  SKEP_ASSIGN(program_, Child::Spawn({.words = Filled(world_->request.words),
                                      .log = base_ + "/output",
                                      .den = den_.get()}));
  return Ok();
}

Result<Exit> Device::RunToForget() {
  SKEP_ASSIGN(program_, Child::Spawn({.words = Filled(world_->request.forget_words),
                                      .log = base_ + "/output",
                                      .den = den_.get()}));
  const std::optional<Exit> exit = program_->WaitFor(Milliseconds(20'000));
  if (!exit) return Error{7407, "forgetting does not end in 20 s", "an exit with code 0"};
  return *exit;
}

std::optional<Exit> Device::Stop(Milliseconds limit) {
  program_->Signal(SIGTERM);
  const std::optional<Exit> exit = program_->WaitFor(limit);
  if (!exit) program_->Kill();
  return exit;
}

Status Device::SetJoinString(const std::string& text) {
  join_ = text;
  const std::string path = base_ + "/join.txt";
  const std::string line = text + "\n";
  if (!Exists(path)) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(line.data());
    return WriteFileAtomically(path, {bytes, line.size()}, FileMode::kPrivate);
  }
  // In place: a den sees the file that was there when it was made, by whatever name.
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << line;
  if (!file.flush()) return Error{4001, path + " cannot be written", ""};
  return Ok();
}

std::string Device::Output() const {
  std::ifstream file(base_ + "/output", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> Device::Files() const {
  std::vector<std::string> names;
  std::error_code fault;
  const std::string root = den_->Inside(storage());
  for (fs::recursive_directory_iterator at(root, fault), end; !fault && at != end;
       at.increment(fault)) {
    if (!at->is_directory(fault)) names.push_back(at->path().string().substr(root.size() + 1));
  }
  return names;
}

// --- a trial ---

Trial::Trial(World& world, int number)
    : world_(world),
      folder_(world.folder + "/check-" + std::to_string(number)),
      population_("check-" + std::to_string(number)) {
  std::error_code ignored;
  fs::create_directory(folder_, ignored);
  (void)world_.host.devices().Do("clear");
  first_event_ = world_.host.devices().Events().size();
  if (const auto traffic = Traffic()) before_ = *traffic;
}

Trial::~Trial() {
  devices_.clear();
  (void)world_.host.devices().Do("clear");
  for (const std::string& run : runs_) (void)world_.host.Ask({"run", "stop", "--now", run});
}

Result<Device*> Trial::AddDevice(const DeviceOptions& options) {
  auto device = std::make_unique<Device>();
  device->world_ = &world_;
  device->base_ = folder_ + "/device-" + std::to_string(devices_.size());
  device->disk_ = device->base_ + "/disk";
  const std::string scratch = device->base_ + "/scratch";
  for (const std::string& folder : {device->base_, device->disk_, scratch})
    SKEP_TRY(MakePrivateFolder(folder));
  Host& host = options.host == nullptr ? world_.host : *options.host;
  SKEP_ASSIGN(const std::string join, host.MakeJoinString(population_));
  SKEP_TRY(device->SetJoinString(join));
  SKEP_ASSIGN(device->den_, Den::Make({.disk = device->disk_,
                                       .scratch = scratch,
                                       .power = options.power,
                                       .disk_bytes = options.disk_bytes,
                                       .caught = CaughtFolders()}));
  devices_.push_back(std::move(device));
  return devices_.back().get();
}

Result<Device*> Trial::AddHeldDevice(const DeviceOptions& options) {
  SKEP_ASSIGN(Device* const device, AddDevice(options));
  SKEP_TRY(device->Start());
  SKEP_TRY(WaitHeld(static_cast<std::int64_t>(devices_.size())));
  return device;
}

Status Trial::WaitHeld(std::int64_t count) {
  return WaitUntil(
      "enrolled and waiting for work",
      [&]() -> Result<bool> {
        SKEP_ASSIGN(const Host::Population seen, host().Look(population_));
        return seen.held >= count;
      },
      kPatience);
}

Status Trial::WaitUntil(const std::string& what, const std::function<Result<bool>()>& is_so,
                        Milliseconds limit) {
  const SteadyTime until = ReadClock().steady + limit;
  while (true) {
    SKEP_ASSIGN(const bool is_met, is_so());
    if (is_met) return Ok();
    if (ReadClock().steady > until) break;
    Pause(kBetweenLooks);
  }
  std::string said;
  for (const auto& device : devices_) {
    if (!device->program_) continue;
    if (const auto exit = device->program_->WaitFor(Milliseconds(0)))
      said += "; the program: " + TextOf(*exit);
    const std::string line = LastLine(device->Output());
    if (!line.empty()) said += "; its last line: " + ShortText(line);
    if (!said.empty()) break;
  }
  return Error{5407, "not " + what + " after " + std::to_string(limit.count() / 1000) + " s" + said,
               ""};
}

Result<std::string> Trial::StartRun(const std::vector<std::string>& sets) {
  const std::string name = population_ + "-" + std::to_string(runs_.size() + 1);
  std::vector<std::string> words{"run", "start", world_.experiment, "--population", population_};
  std::map<std::string, std::string> values{{"name", name},
                                            {"training.rounds", "1"},
                                            {"training.clients_per_round", "1"},
                                            {"training.weighting", "examples"},
                                            {"training.client_eval_every", "0"}};
  for (const std::string& set : sets)
    values[set.substr(0, set.find('='))] = set.substr(set.find('=') + 1);
  for (const auto& [key, value] : values) {
    words.emplace_back("--set");
    words.push_back(key + "=" + value);
  }
  SKEP_TRY(host().Ask(words));
  runs_.push_back(name);
  return name;
}

Result<json::value> Trial::WaitRun(const std::string& run, const std::string& what,
                                   const Condition& is_so, Milliseconds limit) {
  json::value seen;
  SKEP_TRY(WaitUntil(
      what,
      [&]() -> Result<bool> {
        SKEP_ASSIGN(seen, host().Ask({"run", "show", run, "--rounds", "50"}));
        return is_so(seen);
      },
      limit));
  return seen;
}

Result<json::value> Trial::WaitFinished(const std::string& run, std::int64_t devices,
                                        Milliseconds limit) {
  SKEP_ASSIGN(json::value seen,
              WaitRun(
                  run, "a finished run",
                  [](const json::value& one) { return TextAt(one, "state") != "running"; }, limit));
  if (TextAt(seen, "state") != "finished") {
    return Error{5407, "the run is " + TextAt(seen, "state") + ": " + TextAt(seen, "reason"),
                 "finished"};
  }
  for (const json::value& attempt : seen.at("attempts").as_array()) {
    if (TextAt(attempt, "state") != "published" || TextAt(attempt, "kind") != "train") continue;
    const std::int64_t counted = NumberAt(attempt.at("counts"), "ok");
    if (counted != devices) {
      return Error{5407,
                   "round " + std::to_string(NumberAt(attempt, "round")) + " counted " +
                       std::to_string(counted) + " updates",
                   std::to_string(devices)};
    }
  }
  return seen;
}

std::vector<Event> Trial::Events() {
  std::vector<Event> events = host().devices().Events();
  events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(first_event_));
  return events;
}

std::size_t Trial::CountEvents(Event::Kind kind) {
  std::size_t count = 0;
  for (const Event& event : Events()) count += event.kind == kind ? 1 : 0;
  return count;
}

std::uint32_t Trial::LastConnection() {
  std::uint32_t last = 0;
  for (const Event& event : Events()) {
    if (event.kind == Event::Kind::kAccepted) last = event.connection;
  }
  return last;
}

Status Trial::Order(const std::string& order) {
  SKEP_ASSIGN(const Event answer, host().devices().Do(order));
  if (answer.kind == Event::Kind::kProblem) return Error{answer.code, answer.text, ""};
  return Ok();
}

Result<faultproxy::Counters> Trial::Traffic() {
  SKEP_ASSIGN(const Event total, host().devices().Do("count"));
  faultproxy::Counters since = total.counters.value_or(faultproxy::Counters{});
  since.up_in -= before_.up_in;
  since.up_out -= before_.up_out;
  since.down_in -= before_.down_in;
  since.down_out -= before_.down_out;
  return since;
}

Result<faultproxy::Counters> Trial::TrafficOf(std::uint32_t connection) {
  SKEP_TRY(host().devices().Do("count"));
  faultproxy::Counters counters{};
  for (const Event& event : Events()) {
    if (event.connection != connection) continue;
    if (event.kind == Event::Kind::kCount || event.kind == Event::Kind::kClosed) {
      counters = event.counters.value_or(counters);
    }
  }
  return counters;
}

const json::value* LastAttempt(const json::value& run, const std::string& kind) {
  const json::value* found = nullptr;
  std::int64_t newest = -1;
  for (const json::value& attempt : run.at("attempts").as_array()) {
    if (TextAt(attempt, "kind") != kind || TextAt(attempt, "state") != "published") continue;
    if (NumberAt(attempt, "opened_ms") <= newest) continue;
    newest = NumberAt(attempt, "opened_ms");
    found = &attempt;
  }
  return found;
}

}  // namespace skep::conform
