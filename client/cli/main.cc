// skep-client: reads the command line and calls the command.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/check.h"
#include "client/cli/console.h"
#include "client/cli/dev_server.h"
#include "client/cli/doctor.h"
#include "client/cli/explain.h"
#include "client/cli/forget.h"
#include "client/cli/join.h"
#include "client/cli/new_app.h"
#include "client/cli/run.h"
#include "client/cli/status.h"
#include "shared/base/file.h"
#include "shared/base/suggest.h"

namespace skep::cli {
namespace {

constexpr std::size_t kShownEntries = 20;

struct Line {
  GlobalOptions global;
  JoinOptions join;
  RunOptions run;
  NewAppOptions app;
  DevServerOptions dev;
  CheckOptions check;
  std::string topic;
  std::size_t entries = kShownEntries;
  bool is_sure = false;
  std::function<int()> command;
};

int RunVersion(const GlobalOptions& global) {
  return Succeed(global, {{"version", global.version}}, global.Software() + "\n");
}

CLI::App* AddCommand(CLI::App& app, Line& line, const char* name, const char* text,
                     std::function<int()> command) {
  CLI::App* added = app.add_subcommand(name, text);
  added->callback([&line, run = std::move(command)] { line.command = run; });
  added->fallthrough();
  return added;
}

void AddGlobals(CLI::App& app, Line& line) {
  GlobalOptions& global = line.global;
  app.add_option("--config", global.config, "Configuration (/etc/skep/client.toml)")
      ->each([&global](const std::string&) { global.is_config_given = true; });
  app.add_option("--storage", global.storage, "Folder of keys, work and history (storage.dir)");
  app.add_option("--set", global.sets, "SECTION.KEY=VALUE; repeatable")->allow_extra_args(false);
  app.add_flag("--json", global.is_json, "One JSON object on standard output");
  app.add_flag("--quiet,-q", global.is_quiet, "Errors only");
}

void AddData(CLI::App& command, Line& line) {
  command.add_option("--data-experiment", line.global.data_experiment,
                     "Train on a part of this experiment.toml's data");
  command.add_option("--part", line.global.part, "Which part, from 0 (the client number)");
}

// For people who embed the library.
void AddDevelopment(CLI::App& app, Line& line) {
  const GlobalOptions& global = line.global;
  CLI::App* created = AddCommand(app, line, "new-app", "Make a project with the client library",
                                 [&] { return RunNewApp(global, line.app); });
  created->add_option("NAME", line.app.name, "Of the project, its folder and its program")
      ->required();
  created->add_flag("--cpp", line.app.is_cpp, "In C++20");
  created->add_flag("--c", line.app.is_c, "In C11");
  created->add_flag("--python", line.app.is_python, "In Python 3");
  CLI::App* dev = AddCommand(app, line, "dev-server", "An aggregator to try an application with",
                             [&] { return RunDevServer(global, line.dev); });
  dev->add_option("--join-file", line.dev.join_file, "Where to write the join string");
  dev->add_option("--rounds", line.dev.rounds, "It ends after so many (3)");
  dev->add_flag("--allow-root", line.dev.allows_root, "Let root run it");
}

void AddCheck(CLI::App& app, Line& line) {
  CheckOptions& check = line.check;
  CLI::App* command = AddCommand(app, line, "check", "Check a program that embeds the library",
                                 [&line] { return RunCheck(line.global, line.check); });
  command->add_option("--only", check.only, "Only these checks, as in 1,2,20");
  command->add_option("--forget-args", check.forget_args, "Arguments that make it forget");
  command->add_option("--experiment", check.experiment,
                      "experiment.toml of the program's own data");
  command->add_option("--max-memory", check.memory, "Its cap (256MiB)");
  command->add_option("--max-bytes-per-day", check.bytes_per_day, "Its cap");
  command->add_option("--max-cpu", check.cpu, "Its cap (0.7)")->check(CLI::Range(0.05, 1.0));
  command->add_option("--max-threads", check.threads, "Its cap (1)")->check(CLI::Range(1U, 64U));
  command->add_flag("--allow-nondeterministic", check.is_nondeterministic,
                    "No two updates need be equal");
  command->add_flag("--on-battery", check.trains_on_battery, "It may train on battery");
  command->add_flag("--allow-root", check.allows_root, "Let root run the aggregator");
  // What follows the first word that is none of these belongs to the program, so nothing of it may
  // be taken for an option of this one.
  command->add_flag("--json", line.global.is_json, "One JSON object on standard output");
  command->fallthrough(false)->prefix_command();
  command->parse_complete_callback([&check, command] { check.words = command->remaining(); });
}

void AddCommands(CLI::App& app, Line& line) {
  const GlobalOptions& global = line.global;
  CLI::App* join = AddCommand(app, line, "join", "Enrol this device by a join string",
                              [&] { return RunJoin(global, line.join); });
  join->add_option("STRING", line.join.text, "- for standard input");
  join->add_option("--join-file", line.join.file, "File that holds the join string");
  join->add_option("--name", line.join.name, "What the operator sees beside the device");
  CLI::App* run = AddCommand(app, line, "run", "Check in, train and upload until SIGTERM",
                             [&] { return RunRun(global, line.run); });
  run->add_flag("--once", line.run.once, "One check-in");
  run->add_option("--budget", line.run.budget, "Longest time, as in 5m");
  run->add_option("--join-file", line.run.join_file, "Enrol by it first, unless that is done");
  AddData(*run, line);
  AddCommand(app, line, "status", "What this device is, did last, and waits for",
             [&] { return RunStatus(global); });
  AddCommand(app, line, "history", "What it contributed, newest first", [&] {
    return RunHistory(global, line.entries);
  })->add_option("--limit", line.entries, "At most so many lines (20)");
  CLI::App* doctor = AddCommand(app, line, "doctor", "Try each step of a check-in",
                                [&] { return RunDoctor(global); });
  AddData(*doctor, line);
  AddCommand(app, line, "forget", "Wipe keys, unsent work and history", [&] {
    return RunForget(global, line.is_sure);
  })->add_flag("--yes", line.is_sure, "Do not ask");
  AddCheck(app, line);
  AddCommand(app, line, "explain", "Explain an error number, a section or a key",
             [&] { return RunExplain(global, line.topic); })
      ->add_option("TOPIC", line.topic, "SKEP-nnnn, or a name of client.toml")
      ->required();
  AddDevelopment(app, line);
  AddCommand(app, line, "version", "The version of this program",
             [&] { return RunVersion(global); });
}

// --- unknown words: CLI11 says only that something was not expected ---

const CLI::App* FindCommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

Error Unknown(const char* what, const std::string& given, const std::vector<std::string>& known) {
  const std::string meant = Suggest(given, {known.begin(), known.end()});
  return {1012, std::string("unknown ") + what + " \"" + given + "\"",
          meant.empty() ? "skep-client --help" : "did you mean \"" + meant + "\"?"};
}

bool IsFlag(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = app.get_option_no_throw(name);
  return option != nullptr && option->get_items_expected_max() == 0;
}

// The first word that is neither a command nor an option; else what CLI11 complains about.
Error FindFault(const CLI::App& app, const std::vector<std::string>& words,
                const std::string& complaint) {
  const CLI::App* command = nullptr;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() > 1 && word.front() == '-') {
      const std::string name = word.substr(0, word.find('='));
      std::vector<std::string> known = OptionNames(app);
      if (command != nullptr) {
        const std::vector<std::string> own = OptionNames(*command);
        known.insert(known.end(), own.begin(), own.end());
      }
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return Unknown("option", name, known);
      }
      const bool is_flag = IsFlag(app, name) || (command != nullptr && IsFlag(*command, name));
      if (!is_flag && name == word) ++i;
    } else if (command == nullptr) {
      command = FindCommand(app, word);
      if (command != nullptr) continue;
      std::vector<std::string> names;
      for (const CLI::App* one : app.get_subcommands({})) names.push_back(one->get_name());
      return Unknown("command", word, names);
    }
  }
  return {1101, complaint, "skep-client --help"};
}

int Main(const std::vector<std::string>& words) {
  // A reader that leaves must not end a task: writes fail with an error instead.
  (void)std::signal(SIGPIPE, SIG_IGN);
  Line line;
  line.global.version = SKEP_VERSION;
  CLI::App app("A device of a Skep federation", "skep-client");
  app.require_subcommand(1);
  app.get_formatter()->column_width(26);
  AddGlobals(app, line);
  app.set_version_flag("--version", line.global.Software());  // after --json, which it obeys
  AddCommands(app, line);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForVersion&) {
    return RunVersion(line.global);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return Fail(line.global, FindFault(app, words, error.what()));
  }
  return line.command();
}

}  // namespace
}  // namespace skep::cli

int main(int count, char** words) {
  skep::HoldStandardStreams();
  return skep::cli::Main({words + 1, words + count});
}
