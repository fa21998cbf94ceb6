#include "client/conform/host.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::conform {
namespace {

namespace json = boost::json;

constexpr Milliseconds kPatience{30'000};
constexpr Milliseconds kBetweenLooks{20};

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "ready  devices 127.0.0.1:37733  enrol 127.0.0.1:41139  admin ..."
std::string WordAfter(const std::string& line, const std::string& key) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word == key && words >> word) return word;
  }
  return "";
}

}  // namespace

std::string TextAt(const json::value& from, const char* key) {
  const json::object* object = from.if_object();
  const json::value* found = object == nullptr ? nullptr : object->if_contains(key);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

std::int64_t NumberAt(const json::value& from, const char* key) {
  const json::object* object = from.if_object();
  const json::value* found = object == nullptr ? nullptr : object->if_contains(key);
  if (found == nullptr || !found->is_number()) return 0;
  return found->is_double() ? static_cast<std::int64_t>(found->get_double())
                            : found->to_number<std::int64_t>();
}

std::vector<std::string> Host::Words(const std::vector<std::string>& words) const {
  std::vector<std::string> all{options_.program};
  if (options_.allows_root) all.emplace_back("--allow-root");
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Result<std::unique_ptr<Host>> Host::Start(const HostOptions& options) {
  std::unique_ptr<Host> host(new Host(options));
  SKEP_TRY(host->Prepare());
  return host;
}

Status Host::Prepare() {
  const std::string& folder = options_.folder;
  const std::string log = folder + "/aggregator.log";
  SKEP_ASSIGN(
      Child init,
      Child::Spawn({.words = Words({"--quiet", "init", "--name", "127.0.0.1", "--dir",
                                    folder + "/agg", "--devices-port", "0", "--enrol-port", "0"}),
                    .log = log}));
  const std::optional<Exit> made = init.WaitFor(kPatience);
  if (!made || made->code != 0 || made->signal != 0) {
    return Error{5401, "skep-aggregator init: " + ReadText(log), ""};
  }
  // Once to learn the ports, which are kept; then with the proxies in front of them.
  SKEP_ASSIGN(const auto addresses, Serve());
  server_->Signal(SIGTERM);
  if (!server_->WaitFor(kPatience)) server_->Kill();
  SKEP_ASSIGN(devices_, faultproxy::BackgroundProxy::Start({.upstream = addresses.first}));
  SKEP_ASSIGN(enrolment_, faultproxy::BackgroundProxy::Start({.upstream = addresses.second}));
  const std::string path = folder + "/agg/server.toml";
  std::istringstream lines(ReadText(path));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("advertise_devices")) {
      line = "advertise_devices = \"" +
             (options_.advertise.empty() ? "127.0.0.1:" + std::to_string(devices_->port())
                                         : options_.advertise) +
             "\"";
    } else if (line.starts_with("advertise_enrol")) {
      line = "advertise_enrol = \"127.0.0.1:" + std::to_string(enrolment_->port()) + "\"";
    } else if (line == "[enrolment]") {
      line += "\nattempts_per_address = 10000";
    }
    text += line + "\n";
  }
  // Devices come back soon, and transfers have many chunks.
  text +=
      "\n[tls]\nhandshakes_per_address = 1000\n[pace]\nmin_return = "
      "\"1s\"\n[transfer]\nchunk_bytes = \"16KiB\"\n";
  std::ofstream(path, std::ios::binary) << text;
  SKEP_TRY(Serve());
  return Ok();
}

Result<std::pair<std::string, std::string>> Host::Serve() {
  const std::string log = options_.folder + "/aggregator.log";
  const std::string ready = options_.folder + "/ready";
  std::error_code ignored;
  std::filesystem::remove(ready, ignored);
  SKEP_ASSIGN(
      server_,
      Child::Spawn({.words = Words({"--config", options_.folder + "/agg/server.toml", "serve"}),
                    .log = log,
                    .output = ready}));
  const SteadyTime until = ReadClock().steady + kPatience;
  while (ReadClock().steady < until) {
    const bool has_ended = server_->WaitFor(kBetweenLooks).has_value();
    const std::string line = ReadText(ready);
    if (line.ends_with("\n")) {
      federation_ = WordAfter(line, "federation");
      return std::pair(WordAfter(line, "devices"), WordAfter(line, "enrol"));
    }
    if (has_ended) break;
  }
  std::string said = ReadText(log);
  if (said.size() > 800) said.erase(0, said.size() - 800);
  return Error{5401, "the aggregator does not start: " + said,
               "root has to say --allow-root; `check` passes it on"};
}

Result<json::value> Host::Ask(const std::vector<std::string>& words) {
  std::vector<std::string> all{"--config", options_.folder + "/agg/server.toml", "--json"};
  all.insert(all.end(), words.begin(), words.end());
  const std::string out = options_.folder + "/answer-" + std::to_string(++asked_);
  SKEP_ASSIGN(
      Child child,
      Child::Spawn({.words = Words(all), .log = options_.folder + "/commands.log", .output = out}));
  const bool is_over = child.WaitFor(kPatience).has_value();
  const std::string text = ReadText(out);
  std::error_code ignored;
  std::filesystem::remove(out, ignored);
  boost::system::error_code fault;
  const json::value answer = json::parse(text, fault);
  if (!is_over || fault)
    return Error{5401, "no answer of skep-aggregator " + words.front() + ": " + text, ""};
  if (TextAt(answer, "status") != "ok") {
    const json::object& object = answer.as_object();
    const json::value* error = object.if_contains("error");
    if (const json::value* errors = object.if_contains("errors")) error = &errors->at(0);
    const std::string why = error == nullptr ? text : TextAt(*error, "message");
    return Error{5401, "skep-aggregator " + words.front() + ": " + why, ""};
  }
  return answer.at("data");
}

Result<std::string> Host::MakeJoinString(const std::string& population) {
  if (std::find(populations_.begin(), populations_.end(), population) == populations_.end()) {
    SKEP_TRY(Ask({"population", "create", population}));
    populations_.push_back(population);
  }
  SKEP_ASSIGN(const json::value made, Ask({"token", "create", "--population", population}));
  return std::string(made.at("join_strings").at(0).as_string());
}

Result<Host::Population> Host::Look(const std::string& population) {
  SKEP_ASSIGN(const json::value all, Ask({"population", "list"}));
  for (const json::value& one : all.as_array()) {
    if (TextAt(one, "name") != population) continue;
    return Population{.devices = NumberAt(one, "devices"),
                      .connected = NumberAt(one, "connected"),
                      .held = NumberAt(one, "held")};
  }
  return Population{};
}

}  // namespace skep::conform
