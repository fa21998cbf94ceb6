#include "aggregator/server/admin.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>

#include <algorithm>
#include <charconv>
#include <limits>

#include "aggregator/server/admin_json.h"
#include "shared/base/try.h"
#include "shared/config/value.h"
#include "shared/model/safetensors.h"

namespace skep::aggregator {
namespace {

namespace json = boost::json;

using Answer = Result<json::value>;

Error Invalid(std::string message, std::string hint = {}) {
  return {5408, std::move(message), std::move(hint)};
}

unsigned StatusOf(int code) {
  switch (code) {
    case 5403:
      return 404;
    case 5404:
    case 5405:
      return 409;
    case 5401:
      return 503;
    default:
      break;
  }
  const bool is_asked_wrongly = code == 5408 || code / 100 == 53 || code < 2000;
  return is_asked_wrongly ? 400 : 500;
}

AdminResponse Ok200(const json::value& data) {
  const json::object body{{"schema", 1}, {"status", "ok"}, {"data", data}};
  return {.status = 200, .body = json::serialize(body) + "\n"};
}

AdminResponse Refused(unsigned status, const char* key, json::value what) {
  json::object body{{"schema", 1}, {"status", "error"}};
  body[key] = std::move(what);
  return {.status = status, .body = json::serialize(body) + "\n"};
}

AdminResponse Refused(const Error& error) {
  return Refused(StatusOf(error.code), "error", ToJson(error));
}

AdminResponse From(const Answer& answer) {
  return answer.has_value() ? Ok200(*answer) : Refused(answer.error());
}

// --- parameters: a request's body, or its query, with nothing in it that is not asked for ---

class Parameters {
 public:
  static Result<Parameters> Of(const std::string& body,
                               std::initializer_list<std::string_view> known) {
    Parameters parameters;
    if (body.empty()) return parameters;
    boost::system::error_code error;
    const json::value value = json::parse(body, error);
    if (error || !value.is_object()) return Invalid("the body is not a JSON object");
    parameters.members_ = value.get_object();
    for (const auto& member : parameters.members_) {
      const std::string_view name(member.key().data(), member.key().size());
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return Invalid("unknown parameter \"" + std::string(name) + "\"");
      }
    }
    return parameters;
  }

  [[nodiscard]] Result<std::string> Text(std::string_view key, bool is_required) const {
    const json::value* found = members_.if_contains(key);
    if (found == nullptr) {
      if (is_required) return Invalid("\"" + std::string(key) + "\" is missing");
      return std::string();
    }
    if (!found->is_string()) return Invalid("\"" + std::string(key) + "\" must be a string");
    return json::value_to<std::string>(*found);
  }
  [[nodiscard]] Result<bool> Flag(std::string_view key) const {
    const json::value* found = members_.if_contains(key);
    if (found == nullptr) return false;
    if (!found->is_bool()) return Invalid("\"" + std::string(key) + "\" must be true or false");
    return found->get_bool();
  }
  [[nodiscard]] Result<std::uint32_t> Count(std::string_view key, std::uint32_t fallback) const {
    const json::value* found = members_.if_contains(key);
    if (found == nullptr) return fallback;
    if (!found->is_int64() || found->get_int64() < 0 ||
        found->get_int64() > std::numeric_limits<std::uint32_t>::max()) {
      return Invalid("\"" + std::string(key) + "\" must be a whole number");
    }
    return static_cast<std::uint32_t>(found->get_int64());
  }
  [[nodiscard]] Result<std::vector<std::string>> Texts(std::string_view key) const {
    std::vector<std::string> texts;
    const json::value* found = members_.if_contains(key);
    if (found == nullptr) return texts;
    if (!found->is_array()) return Invalid("\"" + std::string(key) + "\" must be a list");
    for (const json::value& item : found->get_array()) {
      if (!item.is_string()) return Invalid("\"" + std::string(key) + "\" must hold strings");
      texts.push_back(json::value_to<std::string>(item));
    }
    return texts;
  }

 private:
  json::object members_;
};

std::string QueryText(const AdminRequest& request, const std::string& key) {
  const auto found = request.query.find(key);
  return found == request.query.end() ? "" : found->second;
}

Result<std::optional<std::uint32_t>> QueryCount(const AdminRequest& request,
                                                const std::string& key) {
  const std::string text = QueryText(request, key);
  if (text.empty()) return std::optional<std::uint32_t>();
  std::uint32_t number = 0;
  const char* end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data(), end, number);
  if (fault != std::errc() || at != end) return Invalid("\"" + key + "\" must be a whole number");
  return std::optional<std::uint32_t>(number);
}

// --- populations, tokens, devices ---

Answer CreatePopulation(Control& control, const AdminRequest& request) {
  SKEP_ASSIGN(const Parameters parameters, Parameters::Of(request.body, {"name"}));
  SKEP_ASSIGN(const std::string name, parameters.Text("name", true));
  SKEP_TRY(control.CreatePopulation(name));
  return json::value{{"name", name}};
}

Answer ListPopulations(Control& control) {
  SKEP_ASSIGN(const auto rows, control.Populations());
  return json::value(ToJsonArray(rows));
}

Answer CreateTokens(Control& control, const AdminRequest& request) {
  SKEP_ASSIGN(const Parameters parameters,
              Parameters::Of(request.body, {"population", "count", "expires"}));
  SKEP_ASSIGN(const std::string population, parameters.Text("population", true));
  SKEP_ASSIGN(const std::uint32_t count, parameters.Count("count", 1));
  SKEP_ASSIGN(const std::string expires, parameters.Text("expires", false));
  Nanoseconds lifetime{};
  if (!expires.empty()) {
    const auto parsed = config::ParseDuration(expires);
    if (!parsed || *parsed <= Nanoseconds::zero()) {
      return Invalid("\"expires\" is \"" + expires + "\"; a duration such as \"7d\"");
    }
    lifetime = *parsed;
  }
  SKEP_ASSIGN(const auto strings, control.CreateTokens(population, count, lifetime));
  json::array array;
  for (const std::string& text : strings) array.emplace_back(text);
  return json::value{{"population", population}, {"join_strings", std::move(array)}};
}

Answer ListTokens(Control& control, const AdminRequest& request) {
  std::vector<std::string> wanted;
  if (const std::string one = QueryText(request, "population"); !one.empty()) {
    wanted.push_back(one);
  } else {
    SKEP_ASSIGN(const auto populations, control.Populations());
    for (const PopulationView& population : populations) wanted.push_back(population.row.name);
  }
  json::array array;
  for (const std::string& population : wanted) {
    SKEP_ASSIGN(const auto rows, control.Tokens(population));
    for (const TokenRow& token : rows) array.push_back(ToJson(token));
  }
  return json::value(std::move(array));
}

bool IsWanted(const DeviceView& device, const std::string& population, const std::string& state) {
  if (!state.empty() && WordFor(device.row.state) != state) return false;
  const auto& of = device.row.memberships;
  return population.empty() || std::any_of(of.begin(), of.end(), [&](const auto& membership) {
           return membership.first == population;
         });
}

Answer ListDevices(Control& control, const AdminRequest& request) {
  const std::string population = QueryText(request, "population");
  const std::string state = QueryText(request, "state");
  if (!state.empty() && state != "active" && state != "quarantined" && state != "revoked") {
    return Invalid("\"state\" is \"" + state + "\"; one of active, quarantined, revoked");
  }
  SKEP_ASSIGN(const auto limit, QueryCount(request, "limit"));
  SKEP_ASSIGN(const auto rows, control.Devices());
  json::array array;
  std::size_t wanted = 0;
  for (const DeviceView& device : rows) {
    if (!IsWanted(device, population, state)) continue;
    ++wanted;
    if (!limit || wanted <= *limit) array.push_back(ToJson(device));
  }
  return json::value{{"devices", std::move(array)}, {"total", wanted}};
}

// --- runs ---

AdminResponse StartOne(Control& control, const AdminRequest& request) {
  const auto read = [&]() -> Result<StartRequest> {
    SKEP_ASSIGN(
        const Parameters parameters,
        Parameters::Of(request.body, {"text", "path", "folder", "sets", "population", "dry_run"}));
    StartRequest start;
    SKEP_ASSIGN(start.text, parameters.Text("text", true));
    SKEP_ASSIGN(start.path, parameters.Text("path", true));
    SKEP_ASSIGN(start.folder, parameters.Text("folder", true));
    SKEP_ASSIGN(start.sets, parameters.Texts("sets"));
    SKEP_ASSIGN(start.population, parameters.Text("population", false));
    SKEP_ASSIGN(start.is_dry_run, parameters.Flag("dry_run"));
    start.request_key = request.idempotency_key;
    return start;
  };
  const Result<StartRequest> start = read();
  if (!start) return Refused(start.error());
  const config::Validated<StartedRun> started = control.StartRun(*start);
  if (started) return Ok200(ToJson(*started));
  const unsigned status = StatusOf(started.problems().front().code);
  if (started.problems().size() == 1) {
    return Refused(status, "error", ToJson(started.problems().front()));
  }
  return Refused(status, "errors", ToJsonArray(started.problems()));
}

Answer ListRuns(Control& control, const AdminRequest& request) {
  SKEP_ASSIGN(const auto rows, control.Runs(QueryText(request, "all") == "true"));
  return json::value(ToJsonArray(rows));
}

Answer ShowRun(Control& control, const std::string& run) {
  SKEP_ASSIGN(const RunDetail detail, control.FindRun(run));
  return json::value(ToJson(detail));
}

bool IsOver(RunState state) {
  return state == RunState::kStopped || state == RunState::kFinished || state == RunState::kHalted;
}

// What the run was before, so that the command can say "already stopped".
Answer ChangeRun(Control& control, const std::string& run, ControlRun::Action action) {
  SKEP_ASSIGN(const RunDetail before, control.FindRun(run));
  const std::string id = before.status.view.id.Hex();
  SKEP_TRY(control.ChangeRun(id, action));
  SKEP_ASSIGN(const RunDetail after, control.FindRun(id));
  json::object object = ToJson(after.status);
  object["state_before"] = std::string(WordFor(before.status.view.state));
  object["was_over"] = IsOver(before.status.view.state);
  return json::value(std::move(object));
}

AdminResponse StopRun(Control& control, const std::string& run, const AdminRequest& request) {
  const Result<Parameters> parameters = Parameters::Of(request.body, {"now"});
  if (!parameters) return Refused(parameters.error());
  const Result<bool> now = parameters->Flag("now");
  if (!now) return Refused(now.error());
  return From(
      ChangeRun(control, run, *now ? ControlRun::Action::kStopNow : ControlRun::Action::kStop));
}

AdminResponse SendModel(Control& control, const std::string& run, const AdminRequest& request) {
  const auto round = QueryCount(request, "round");
  if (!round) return Refused(round.error());
  const Result<RunDetail> detail = control.FindRun(run);
  if (!detail) return Refused(detail.error());
  const auto found = control.Model(detail->status.view.id.Hex(), *round);
  if (!found) return Refused(found.error());
  const model::Metadata metadata{{"format", "pt"},
                                 {"skep.model_sha256", found->sha256.Hex()},
                                 {"skep.round", std::to_string(found->round)},
                                 {"skep.run", detail->status.view.name}};
  const Bytes file = model::EncodeModel(*found->params, metadata);
  return {.status = 200,
          .type = "application/octet-stream",
          .etag = "\"" + found->sha256.Hex() + "\"",
          .body = std::string(AsText(file))};
}

AdminResponse Ready(Control& control) {
  const Result<StatusView> status = control.GetStatus();
  const bool is_ready = status.has_value() && !status->is_draining;
  return {.status = is_ready ? 200U : 503U,
          .type = "text/plain",
          .body = is_ready ? "ready\n" : (status ? "draining\n" : status.error().message + "\n")};
}

AdminResponse NotFound(const AdminRequest& request) {
  return Refused(Error{5403, "no such route: " + request.method + " " + request.path, ""});
}

// /api/v1/runs/{run} and below.
AdminResponse OnRun(Control& control, std::string_view rest, const AdminRequest& request) {
  const std::size_t slash = rest.find('/');
  const std::string run(rest.substr(0, slash));
  const std::string_view verb = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  if (run.empty()) return NotFound(request);
  if (request.method == "GET") {
    if (verb.empty()) return From(ShowRun(control, run));
    if (verb == "model") return SendModel(control, run, request);
  } else if (request.method == "POST") {
    if (verb == "pause") return From(ChangeRun(control, run, ControlRun::Action::kPause));
    if (verb == "resume") return From(ChangeRun(control, run, ControlRun::Action::kResume));
    if (verb == "stop") return StopRun(control, run, request);
  }
  return NotFound(request);
}

Answer ShowStatus(Control& control, const DaemonFacts& facts) {
  SKEP_ASSIGN(const StatusView status, control.GetStatus());
  json::object object = ToJson(status);
  object["version"] = facts.version;
  object["pid"] = facts.pid;
  object["admin_socket"] = facts.admin_socket;
  return json::value(std::move(object));
}

}  // namespace

AdminResponse AdminApi::Answer(const AdminRequest& request) {
  constexpr std::string_view kRuns = "/api/v1/runs/";
  const std::string route = request.method + " " + request.path;
  if (route == "GET /healthz") return {.status = 200, .type = "text/plain", .body = "ok\n"};
  if (route == "GET /readyz") return Ready(control_);
  if (route == "GET /api/v1/status") return From(ShowStatus(control_, facts_));
  if (route == "GET /api/v1/populations") return From(ListPopulations(control_));
  if (route == "POST /api/v1/populations") return From(CreatePopulation(control_, request));
  if (route == "GET /api/v1/tokens") return From(ListTokens(control_, request));
  if (route == "POST /api/v1/tokens") return From(CreateTokens(control_, request));
  if (route == "GET /api/v1/devices") return From(ListDevices(control_, request));
  if (route == "GET /api/v1/runs") return From(ListRuns(control_, request));
  if (route == "POST /api/v1/runs") return StartOne(control_, request);
  if (request.path.rfind(kRuns, 0) == 0) {
    return OnRun(control_, std::string_view(request.path).substr(kRuns.size()), request);
  }
  return NotFound(request);
}

}  // namespace skep::aggregator
