// skep-aggregator: reads the command line and calls the command.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/server/commands/check.h"
#include "aggregator/server/commands/console.h"
#include "aggregator/server/commands/init.h"
#include "aggregator/server/commands/queries.h"
#include "aggregator/server/commands/run.h"
#include "aggregator/server/commands/serve.h"
#include "shared/base/file.h"
#include "shared/base/suggest.h"
#include "shared/config/value.h"

namespace skep::aggregator {
namespace {

constexpr const char* kLibraries = SKEP_LIBRARIES;

// What the command line fills, and the command that it chose.
struct Line {
  GlobalOptions global;
  std::string timeout = "10s";
  InitOptions init;
  std::string name;  // of a population, a topic or a run
  std::string population;
  std::uint32_t count = 1;
  std::string expires;
  DeviceFilter devices;
  StartOptions start;
  ShowOptions show;
  ExportOptions exported;
  std::uint32_t round = 0;
  bool has_all = false;
  bool is_now = false;
  std::function<int()> command;
};

// A command without commands below it: remembers what to call.
CLI::App* AddCommand(CLI::App& parent, Line& line, const char* name, const char* text,
                     std::function<int()> command) {
  CLI::App* added = parent.add_subcommand(name, text);
  added->callback([&line, command = std::move(command)] { line.command = command; });
  return added;
}

CLI::App* AddGroup(CLI::App& parent, const char* name, const char* text) {
  CLI::App* group = parent.add_subcommand(name, text);
  group->require_subcommand(1);
  return group;
}

void AddGlobals(CLI::App& app, Line& line) {
  GlobalOptions& global = line.global;
  app.add_option("--config", global.config, "Configuration (/etc/skep/server.toml)")
      ->each([&global](const std::string&) { global.is_config_given = true; });
  app.add_option("--socket", global.socket, "Admin socket (the configuration's)");
  app.add_flag("--json", global.is_json, "One JSON object on standard output");
  app.add_flag("--quiet,-q", global.is_quiet, "Only what the command is for");
  app.add_option("--color", global.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--timeout", line.timeout, "Longest wait for the daemon (10s)");
  app.add_flag("--allow-root", global.allows_root, "Let root run init, check and serve");
}

void AddService(CLI::App& app, Line& line) {
  const GlobalOptions& global = line.global;
  CLI::App* init = AddCommand(app, line, "init", "Make a new federation on this machine",
                              [&] { return RunInit(global, line.init); });
  init->add_option("--name", line.init.host, "Name or address that devices connect to")->required();
  init->add_option("--dir", line.init.folder, "Put everything below this folder");
  init->add_option("--devices-port", line.init.devices_port,
                   "Port of devices (8443); 0: a free one")
      ->check(CLI::Range(0, 65535));
  init->add_option("--enrol-port", line.init.enrol_port, "Port of enrolment (8444); 0: a free one")
      ->check(CLI::Range(0, 65535));
  AddCommand(app, line, "serve", "Run the aggregator until SIGTERM or SIGINT",
             [&] { return RunServe(global); });
  AddCommand(app, line, "status", "Show what the aggregator is doing",
             [&] { return RunStatusCommand(global); });
  AddCommand(app, line, "check", "Check everything that serve checks, without listening",
             [&] { return RunCheck(global); });
  CLI::App* config = AddGroup(app, "config", "Explain or show the configuration");
  AddCommand(*config, line, "explain", "Explain a key of server.toml",
             [&] { return RunConfigExplain(global, line.name); })
      ->add_option("KEY", line.name, "Key or section")
      ->required();
  AddCommand(*config, line, "effective", "Values in use, and where each came from",
             [&] { return RunConfigEffective(global); });
  AddCommand(app, line, "explain", "Explain an error number or a key",
             [&] { return RunExplain(global, line.name); })
      ->add_option("TOPIC", line.name, "SKEP-nnnn, or a key of a configuration")
      ->required();
  AddCommand(app, line, "version", "Versions of the program and its libraries",
             [&] { return RunVersion(global, kLibraries); });
}

void AddMembers(CLI::App& app, Line& line) {
  const GlobalOptions& global = line.global;
  CLI::App* population = AddGroup(app, "population", "Named groups of devices");
  AddCommand(*population, line, "create", "Create a population",
             [&] { return CreatePopulation(global, line.name); })
      ->add_option("NAME", line.name, "Its name")
      ->required();
  AddCommand(*population, line, "list", "List populations",
             [&] { return ListPopulations(global); });

  CLI::App* token = AddGroup(app, "token", "Join strings, each for one device");
  CLI::App* create = AddCommand(*token, line, "create", "Print join strings, one a line", [&] {
    return CreateTokens(global, line.population, line.count, line.expires);
  });
  create->add_option("--population", line.population, "Population to join")->required();
  create->add_option("--count", line.count, "How many (1)")->check(CLI::Range(1, 100'000));
  create->add_option("--expires", line.expires, "Lifetime, as in 7d (enrolment.token_ttl)");
  CLI::App* list = AddCommand(*token, line, "list", "List tokens: ids, never secrets",
                              [&] { return ListTokens(global, line.population); });
  list->add_option("--population", line.population, "Only of this population");

  CLI::App* devices = AddCommand(app, line, "devices", "List devices",
                                 [&] { return ListDevices(global, line.devices); });
  devices->add_option("--population", line.devices.population, "Only of this population");
  devices->add_option("--state", line.devices.state, "Only in this state")
      ->check(CLI::IsMember({"active", "quarantined", "revoked"}));
  devices->add_option("--limit", line.devices.limit, "At most so many (1000)");
}

void AddRunChange(CLI::App& run, Line& line, const char* verb, const char* text, Change change) {
  const GlobalOptions& global = line.global;
  CLI::App* command = AddCommand(run, line, verb, text, [&line, &global, change] {
    const bool is_now = change == Change::kStop && line.is_now;
    return ChangeRunCommand(global, line.name, is_now ? Change::kStopNow : change);
  });
  command->add_option("RUN", line.name, "Name or id")->required();
  if (change == Change::kStop) {
    command->add_flag("--now", line.is_now, "Abandon the open round");
  }
}

void AddRuns(CLI::App& app, Line& line) {
  const GlobalOptions& global = line.global;
  CLI::App* run = AddGroup(app, "run", "Start, watch and end runs");
  CLI::App* start = AddCommand(*run, line, "start", "Start a run from an experiment file",
                               [&] { return StartRunCommand(global, line.start); });
  start->add_option("FILE", line.start.file, "experiment.toml")->required();
  start->add_option("--population", line.start.population, "Who trains (the file's)");
  start->add_option("--set", line.start.sets, "SECTION.KEY=VALUE; repeatable")
      ->allow_extra_args(false);
  start->add_option("--request-key", line.start.request_key, "The same key starts it only once");
  start->add_flag("--follow", line.start.follows, "Watch it until it is over");
  start->add_flag("--dry-run", line.start.is_dry_run, "Check everything, start nothing");
  AddCommand(*run, line, "list", "List runs", [&] {
    return ListRuns(global, line.has_all);
  })->add_flag("--all", line.has_all, "Also those that are over");
  CLI::App* show = AddCommand(*run, line, "show", "Show one run",
                              [&] { return ShowRunCommand(global, line.show); });
  show->add_option("RUN", line.show.run, "Name or id")->required();
  show->add_option("--rounds", line.show.rounds, "Also the last so many attempts");
  show->add_flag("--follow", line.show.follows, "Watch it until it is over");
  AddRunChange(*run, line, "pause", "Pause after the open round", Change::kPause);
  AddRunChange(*run, line, "resume", "Go on with a paused run", Change::kResume);
  AddRunChange(*run, line, "stop", "Stop after the open round", Change::kStop);

  CLI::App* exported = AddCommand(app, line, "export", "Write a model as a safetensors file",
                                  [&] { return ExportModel(global, line.exported); });
  exported->add_option("RUN", line.exported.run, "Name or id")->required();
  exported->add_option("--output,-o", line.exported.output, "File to write")->required();
  exported->add_option("--round", line.round, "Model of this round (the current one)")
      ->each([&line](const std::string& text) {
        line.exported.round = static_cast<std::uint32_t>(std::stoul(text));
      });
}

void Describe(CLI::App& app) {
  app.fallthrough();
  app.get_formatter()->column_width(26);
  for (CLI::App* child : app.get_subcommands({})) Describe(*child);
}

// --- unknown words: CLI11 says only that something is unexpected ---

std::vector<std::string_view> CommandNames(const CLI::App& app) {
  std::vector<std::string_view> names;
  for (const CLI::App* child : app.get_subcommands({})) names.push_back(child->get_name());
  return names;
}

const CLI::App* FindCommand(const CLI::App& app, const std::string& name) {
  const auto children = app.get_subcommands({});
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const CLI::App* child) { return child->get_name() == name; });
  return found == children.end() ? nullptr : *found;
}

const CLI::Option* FindOption(const CLI::App* app, const std::string& name) {
  for (; app != nullptr; app = app->get_parent()) {
    if (const CLI::Option* found = app->get_option_no_throw(name)) return found;
  }
  return nullptr;
}

std::string NearestOption(const CLI::App* app, const std::string& given) {
  std::vector<std::string> names;
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return Suggest(given, {names.begin(), names.end()});
}

Error Unknown(const std::string& what, const std::string& given, const std::string& near,
              const CLI::App& app) {
  std::string path;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    path = at->get_name() + (path.empty() ? "" : " " + path);
  }
  return {5408, "unknown " + what + " \"" + given + "\"",
          near.empty() ? path + " --help" : "did you mean \"" + near + "\"?"};
}

// The first word that no command and no option has; nothing if CLI11 has another complaint.
std::optional<Error> FindUnknown(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() > 1 && word[0] == '-') {
      const std::string name = word.substr(0, word.find('='));
      const CLI::Option* option = FindOption(at, name);
      if (option == nullptr) return Unknown("option", name, NearestOption(at, name), *at);
      const bool takes_next = option->get_items_expected_max() > 0 && name == word;
      i += takes_next ? 1U : 0U;
    } else if (!at->get_subcommands({}).empty()) {
      const CLI::App* child = FindCommand(*at, word);
      if (child == nullptr) {
        return Unknown("command", word, Suggest(word, CommandNames(*at)), *at);
      }
      at = child;
    }
  }
  return std::nullopt;
}

int Run(const std::vector<std::string>& words) {
  Line line;
  line.global.version = SKEP_VERSION;
  CLI::App app("The server of a Skep federation", "skep-aggregator");
  app.require_subcommand(1);
  AddGlobals(app, line);
  // After --json, which it obeys.
  app.set_version_flag("--version", "skep-aggregator " + line.global.version);
  AddService(app, line);
  AddMembers(app, line);
  AddRuns(app, line);
  Describe(app);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForVersion& version) {
    return line.global.is_json ? RunVersion(line.global, kLibraries) : app.exit(version);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const auto unknown = FindUnknown(app, words);
    return Fail(line.global, unknown.value_or(Error{5408, error.what(), "skep-aggregator --help"}));
  }
  const auto timeout = config::ParseDuration(line.timeout);
  if (!timeout || *timeout <= Nanoseconds::zero()) {
    return Fail(line.global,
                Error{5408, "--timeout is \"" + line.timeout + "\"", "a duration such as \"10s\""});
  }
  line.global.timeout = std::chrono::duration_cast<Milliseconds>(*timeout);
  return line.command();
}

}  // namespace
}  // namespace skep::aggregator

int main(int count, char** words) {
  skep::HoldStandardStreams();
  return skep::aggregator::Run({words + 1, words + count});
}
