#include "aggregator/server/commands/queries.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <algorithm>

#include "aggregator/server/admin_json.h"
#include "aggregator/server/commands/daemon.h"
#include "aggregator/server/commands/text.h"
#include "shared/base/error_catalogue.h"
#include "shared/base/suggest.h"
#include "shared/config/schema.h"

namespace skep::aggregator {
namespace {

namespace json = boost::json;
using Rows = std::vector<std::vector<std::string>>;

std::string Count(const View& view, std::string_view key) {
  return std::to_string(view.Number(key));
}

// What a new operator does next; empty once something runs.
std::string NextStep(const View& status) {
  if (status.Number("populations") == 0) return "skep-aggregator population create NAME";
  if (status.Number("devices") == 0) return "skep-aggregator token create --population NAME";
  if (status.Number("runs") == 0) return "skep-aggregator run start FILE --population NAME";
  return "";
}

std::string RunsText(const View& status) {
  if (status.Number("runs") == 0) return "0";
  return Count(status, "runs") + " (" + Count(status, "runs_running") + " running)";
}

std::string StatusText(const GlobalOptions& options, const View& status) {
  const auto now = static_cast<std::int64_t>(ReadClock().wall);
  std::string text = "skep-aggregator " + status.Text("version") + "  " + status.Text("state") +
                     ", up " + SpanText(status.Number("uptime_ms")) + " (pid " +
                     Count(status, "pid") + ")   store " + status.Text("store") + "  ok, " +
                     BytesText(static_cast<std::uint64_t>(status.Number("free_bytes"))) + " free\n";
  text += " ";
  for (const View& listener : status.At("listeners").Items()) {
    text += " " + listener.Text("name") + " " + listener.Text("address") + " ";
  }
  text += " admin " + status.Text("admin_socket") + "   certificate ends in " +
          SpanText(status.Number("certificate_ends_ms") - now) + "\n";
  const auto problems = status.At("problems").Items();
  text += "  devices " + Count(status, "devices") + " (" + Count(status, "sessions") +
          " connected) \u00b7 populations " + Count(status, "populations") + " \u00b7 runs " +
          RunsText(status) + "   problems: " +
          (problems.empty() ? std::string("none") : std::to_string(problems.size())) + "\n";
  for (const View& problem : problems) {
    text += "  SKEP-" + Count(problem, "code") + " " + problem.Text("message") + "\n";
    if (problem.Has("hint")) {
      text += "     " + Runnable(options, problem.Text("hint")) + "\n";
    }
  }
  const std::string next = NextStep(status);
  return next.empty() ? text : text + "next: " + Runnable(options, next) + "\n";
}

std::string AgoText(const View& view, std::string_view key) {
  if (!view.Has(key)) return "never";
  const auto now = static_cast<std::int64_t>(ReadClock().wall);
  return SpanText(now - view.Number(key)) + " ago";
}

Rows DeviceRows(const View& answer) {
  Rows rows{{"ID", "HINT", "POPULATION", "CLIENT", "STATE", "LAST SEEN", "STRIKES"}};
  for (const View& device : answer.At("devices").Items()) {
    std::string populations;
    std::string clients;
    for (const View& membership : device.At("memberships").Items()) {
      populations += (populations.empty() ? "" : ",") + membership.Text("population");
      clients += (clients.empty() ? "" : ",") + Count(membership, "client");
    }
    rows.push_back({ShortId(device.Text("id")), device.Text("hint"), populations, clients,
                    device.Text("state"),
                    device.Flag("connected") ? "connected" : AgoText(device, "last_seen_ms"),
                    Count(device, "strikes")});
  }
  return rows;
}

const config::Schema& OwnSchema() {
  return config::ServerSchema();
}

std::vector<std::string_view> Topics(const config::Schema& schema) {
  std::vector<std::string_view> topics;
  for (const config::Section& section : schema.sections()) {
    if (!section.name.empty()) topics.push_back(section.name);
  }
  for (const config::Key& key : schema.keys()) {
    topics.emplace_back(key.path);
    topics.push_back(key.row->key);
  }
  return topics;
}

int UnknownTopic(const GlobalOptions& options, const std::string& topic,
                 const std::vector<std::string_view>& known) {
  const std::string near = Suggest(topic, known);
  return Fail(options, Error{5408, "nothing is known about \"" + topic + "\"",
                             near.empty() ? "a number such as SKEP-5103, or a key of server.toml"
                                          : "did you mean \"" + near + "\"?"});
}

int Explained(const GlobalOptions& options, const std::string& topic, const std::string& text) {
  return Deliver(options, json::object{{"topic", topic}, {"text", text}}, text);
}

}  // namespace

int RunStatusCommand(const GlobalOptions& options) {
  return AskAndPrint(options, Get("/api/v1/status"), [&](const json::value& answer) {
    return Deliver(options, answer, Shown(StatusText(options, answer)));
  });
}

int CreatePopulation(const GlobalOptions& options, const std::string& name) {
  const AdminRequest request = Post("/api/v1/populations", json::object{{"name", name}});
  return AskAndPrint(options, request, [&](const json::value& answer) {
    return Succeed(options, answer,
                   "created population " + name + "\nnext: " +
                       Runnable(options, "skep-aggregator token create --population " + name) +
                       "\n");
  });
}

int ListPopulations(const GlobalOptions& options) {
  return AskAndPrint(options, Get("/api/v1/populations"), [&](const json::value& answer) {
    Rows rows{{"POPULATION", "STATE", "DEVICES", "CONNECTED", "HELD", "NEXT CLIENT"}};
    for (const View& row : View(answer).Items()) {
      rows.push_back({row.Text("name"), row.Flag("open") ? "open" : "closed", Count(row, "devices"),
                      Count(row, "connected"), Count(row, "held"), Count(row, "next_client")});
    }
    return Deliver(options, answer, TableText(rows));
  });
}

int CreateTokens(const GlobalOptions& options, const std::string& population, std::uint32_t count,
                 const std::string& expires) {
  json::object body{{"population", population}, {"count", count}};
  if (!expires.empty()) body["expires"] = expires;
  return AskAndPrint(options, Post("/api/v1/tokens", body), [&](const json::value& answer) {
    std::string text;
    for (const View& one : View(answer).At("join_strings").Items()) text += one.Text() + "\n";
    return Deliver(options, answer, text);
  });
}

int ListTokens(const GlobalOptions& options, const std::string& population) {
  const AdminRequest request = Get("/api/v1/tokens", {{"population", population}});
  return AskAndPrint(options, request, [&](const json::value& answer) {
    const auto now = static_cast<std::int64_t>(ReadClock().wall);
    Rows rows{{"TOKEN", "POPULATION", "CLIENT", "STATE", "DEVICE"}};
    for (const View& row : View(answer).Items()) {
      const std::int64_t left = row.Number("expires_ms") - now;
      const std::string unused = left > 0 ? "unused, expires in " + SpanText(left) : "expired";
      rows.push_back({row.Text("id"), row.Text("population"), Count(row, "client"),
                      row.Has("used_ms") ? "used" : unused, ShortId(row.Text("device"))});
    }
    return Deliver(options, answer, TableText(rows));
  });
}

int ListDevices(const GlobalOptions& options, const DeviceFilter& filter) {
  std::map<std::string, std::string> query{{"limit", std::to_string(filter.limit)}};
  if (!filter.population.empty()) query["population"] = filter.population;
  if (!filter.state.empty()) query["state"] = filter.state;
  return AskAndPrint(options, Get("/api/v1/devices", query), [&](const json::value& answer) {
    const View view(answer);
    std::string text = TableText(DeviceRows(answer));
    const std::int64_t hidden =
        view.Number("total") - static_cast<std::int64_t>(view.At("devices").Items().size());
    if (hidden > 0) text += "and " + std::to_string(hidden) + " more (--limit)\n";
    return Deliver(options, answer, text);
  });
}

int ListRuns(const GlobalOptions& options, bool all) {
  std::map<std::string, std::string> query;
  if (all) query["all"] = "true";
  return AskAndPrint(options, Get("/api/v1/runs", query), [&](const json::value& answer) {
    Rows rows{{"RUN", "ID", "POPULATION", "STATE", "ROUND", "MODEL"}};
    for (const View& row : View(answer).Items()) {
      rows.push_back({row.Text("name"), ShortId(row.Text("id")), row.Text("population"),
                      row.Text("state"), Count(row, "round") + "/" + Count(row, "rounds"),
                      ShortId(row.Text("model_sha256"))});
    }
    return Deliver(options, answer, TableText(rows));
  });
}

int RunExplain(const GlobalOptions& options, const std::string& topic) {
  if (const auto number = ParseErrorNumber(topic)) {
    const std::string text = Explain(*number);
    if (!text.empty()) return Explained(options, topic, text);
    return Fail(options, Error{5408, "there is no SKEP-" + std::to_string(*number), ""});
  }
  std::vector<std::string_view> known;
  for (const config::Schema* schema : {&OwnSchema(), &config::ExperimentSchema()}) {
    const std::string text = config::ExplainTopic(*schema, topic);
    if (!text.empty()) return Explained(options, topic, text);
    const auto topics = Topics(*schema);
    known.insert(known.end(), topics.begin(), topics.end());
  }
  return UnknownTopic(options, topic, known);
}

int RunConfigExplain(const GlobalOptions& options, const std::string& key) {
  const std::string text = config::ExplainTopic(OwnSchema(), key);
  if (!text.empty()) return Explained(options, key, text);
  return UnknownTopic(options, key, Topics(OwnSchema()));
}

int RunVersion(const GlobalOptions& options, const std::string& libraries) {
  const json::object data{
      {"version", options.version}, {"protocol", "1.0"}, {"schema", 1}, {"libraries", libraries}};
  return Deliver(options, data,
                 "skep-aggregator " + options.version + "\nprotocol 1.0, configuration schema 1\n" +
                     libraries + "\n");
}

}  // namespace skep::aggregator
