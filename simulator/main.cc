// skep-simulator: federated training of thousands of clients on one host.
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "shared/base/file.h"
#include "shared/base/suggest.h"
#include "shared/config/value.h"
#include "simulator/command_line.h"
#include "simulator/commands/check.h"
#include "simulator/commands/new.h"
#include "simulator/commands/partition.h"
#include "simulator/commands/run.h"
#include "simulator/commands/runs.h"
#include "simulator/commands/tell.h"
#include "simulator/json.h"

namespace skep::simulator {
namespace {

constexpr std::size_t kHelpColumn = 27;

using Action = std::function<int(const Console&)>;

// A command under construction: what it is called, and what it does once everything is parsed.
struct Commands {
  CLI::App& app;
  Action chosen;

  CLI::App* Add(const std::string& name, const std::string& text, Action action) {
    CLI::App* const command = app.add_subcommand(name, text);
    command->fallthrough();
    command->get_formatter()->column_width(kHelpColumn);
    command->callback([this, action = std::move(action)] { chosen = action; });
    return command;
  }
};

void AddSets(CLI::App& command, std::vector<std::string>& sets) {
  command.add_option("--set", sets, "KEY=VALUE instead of the file's, repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void AddRun(Commands& commands, RunOptions& options) {
  CLI::App* const run =
      commands.Add("run", "train, and write a run directory",
                   [&options](const Console& console) { return RunCommand(options, console); });
  run->add_option("file", options.file, "experiment.toml")->type_name("FILE");
  AddSets(*run, options.sets);
  const auto set = [&options](const std::string& key) {
    return [&options, key](const std::string& value) { options.sets.push_back(key + "=" + value); };
  };
  run->add_option_function<std::string>(
         "--output",
         [&options](const std::string& value) {
           options.sets.push_back("run.output=" + config::ToToml(config::Value(value)));
         },
         "run directory to make")
      ->type_name("DIR");
  run->add_option("--resume", options.resume, "go on with an interrupted run")->type_name("DIR");
  run->add_option_function<std::string>("--jobs", set("run.jobs"), "worker threads, or auto")
      ->type_name("N");
  run->add_option_function<std::string>("--device", set("run.device"), "auto, cpu, cuda, cuda:N")
      ->type_name("NAME");
  run->add_option_function<std::string>("--isa", set("run.isa"), "portable, avx2, avx512, auto")
      ->type_name("NAME");
  run->add_flag_callback(
      "--no-report", [&options] { options.has_report = false; }, "write no report.html");
  run->add_flag("--keep-going", options.keeps_going, "also when all clients fail alike");
}

void AddNew(Commands& commands, NewOptions& options) {
  CLI::App* const command =
      commands.Add("new", "make a folder with an experiment that runs",
                   [&options](const Console& console) { return NewCommand(options, console); });
  command->add_option("name", options.name, "folder to make")->type_name("NAME")->required();
  command
      ->add_option("--template", options.template_, "fashion (default), csv, sensors, shakespeare")
      ->type_name("T")
      ->check(CLI::IsMember({"fashion", "csv", "sensors", "shakespeare"}));
  command->add_option("--data", options.data, "your own table (CSV), a folder, or plays")
      ->type_name("FILE");
  command->add_option("--client", options.client, "its column that names the owner")
      ->type_name("COL");
  command->add_option("--label", options.label, "its column to learn")->type_name("COL");
  command->add_flag("--header", options.has_header, "its first line names the columns");
  command->add_option("--missing", options.missing, "rows without a number: drop, mean")
      ->type_name("HOW")
      ->check(CLI::IsMember({"drop", "mean"}));
  command->add_option("--decimal", options.decimal, "decimal sign of its numbers: . or ,")
      ->type_name("SIGN")
      ->check(CLI::IsMember({".", ","}));
}

void AddCheck(Commands& commands, CheckOptions& options) {
  CLI::App* const command =
      commands.Add("check", "validate an experiment and print its plan",
                   [&options](const Console& console) { return CheckCommand(options, console); });
  command->add_option("file", options.file, "experiment.toml")->type_name("FILE")->required();
  AddSets(*command, options.sets);
  command->add_flag("--effective", options.shows_effective, "every key, its value and source");
  command->add_flag("--determinism", options.is_determinism, "train twice and compare");
  command->add_option("--rounds", options.rounds, "rounds of --determinism (5)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
}

void AddPartition(Commands& commands, PartitionCommandOptions& options) {
  CLI::App* const command = commands.Add(
      "partition", "show which client holds what",
      [&options](const Console& console) { return PartitionCommand(options, console); });
  command->add_option("file", options.file, "experiment.toml")->type_name("FILE")->required();
  AddSets(*command, options.sets);
  command->add_option("--clients", options.clients, "rows of the table (30)")->type_name("N");
  command->add_option("--csv", options.csv, "write example,client")->type_name("FILE");
  command->add_option("--svg", options.svg, "write a picture")->type_name("FILE");
}

struct TellOptions {
  std::string topic;
  bool is_json_schema = false;
  std::string list;
  std::string schema_file;
  std::vector<std::string> schema_sets;
  std::string runs_folder = "runs";
};

void AddReport(Commands& commands, ReportOptions& options) {
  CLI::App* const command =
      commands.Add("report", "draw the report of a run, or compare several",
                   [&options](const Console& console) { return ReportCommand(options, console); });
  command->add_option("runs", options.folders, "run directories")->type_name("DIR")->required();
  command->add_option("-o,--output", options.output, "file to write")->type_name("FILE");
  command->add_option("--baseline", options.baseline, "run that differences refer to")
      ->type_name("DIR");
}

void AddTelling(Commands& commands, TellOptions& options) {
  CLI::App* command =
      commands.Add("schema", "print the data specification of an experiment's data",
                   [&options](const Console& console) {
                     return SchemaCommand(options.schema_file, options.schema_sets, console);
                   });
  command->add_option("file", options.schema_file, "experiment.toml")
      ->type_name("FILE")
      ->required();
  AddSets(*command, options.schema_sets);
  command = commands.Add("list", "what this build has", [&options](const Console& console) {
    return ListCommand(options.list, console);
  });
  command
      ->add_option("what", options.list,
                   "algorithms, rules, partitions, models,\ndatasets, metrics")
      ->type_name("WHAT");
  command = commands.Add(
      "runs", "list the runs below a folder",
      [&options](const Console& console) { return RunsCommand(options.runs_folder, console); });
  command->add_option("folder", options.runs_folder, "default: runs")->type_name("DIR");
  command = commands.Add("explain", "a SKEP number, a section, a key, or a word",
                         [&options](const Console& console) {
                           return ExplainCommand(options.topic, options.is_json_schema, console);
                         });
  command->add_option("topic", options.topic, "SKEP-1012, training, rounds, ...")
      ->type_name("TOPIC");
  command->add_flag("--json-schema", options.is_json_schema, "print the schema of experiment.toml");
  commands.Add("version", "version and instruction sets",
               [](const Console& console) { return VersionCommand(console); });
}

void AddCommon(CLI::App& app, ConsoleOptions& options) {
  app.add_flag("--json", options.is_json, "JSON on standard output");
  app.add_flag("--quiet", options.is_quiet, "errors only");
  app.add_flag("--verbose", options.is_verbose, "more detail");
  app.add_option_function<std::string>(
         "--color",
         [&options](const std::string& when) {
           options.color = when == "always"  ? ColorChoice::kAlways
                           : when == "never" ? ColorChoice::kNever
                                             : ColorChoice::kAuto;
         },
         "auto, always, never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.set_version_flag("--version", std::string("skep-simulator ") + SKEP_VERSION);
}

// The command that was being parsed, or the program itself.
const CLI::App& ParsedCommand(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : *commands.front();
}

// What could stand where `word` stands.
std::vector<std::string> KnownWords(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  if (!word.starts_with('-')) {
    for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
    return known;
  }
  for (const CLI::App* place : {&ParsedCommand(app), &app}) {
    for (const CLI::Option* option : place->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  return known;
}

int RefuseUsage(const CLI::App& app, const CLI::ParseError& error, const Console& console) {
  const std::vector<std::string> extras = app.remaining(true);
  const CLI::App& command = ParsedCommand(app);
  const bool has_command = &command != &app;
  std::string message = error.what();
  std::string hint;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extras.empty()) {
    const std::string& word = extras.front();
    const bool is_option = word.starts_with('-');
    message = is_option     ? fmt::format("unknown option {}", word)
              : has_command ? fmt::format("unexpected \"{}\"", word)
                            : fmt::format("unknown command \"{}\"", word);
    const std::vector<std::string> names = KnownWords(app, word);
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string nearest =
        is_option || !has_command ? Suggest(word.substr(0, word.find('=')), known) : "";
    if (!nearest.empty()) hint = fmt::format("did you mean \"{}\"?", nearest);
  } else if (!has_command) {
    message = "a command is missing";
  }
  return RefuseCommandLine(console, message, hint, has_command ? command.get_name() : "");
}

int Main(int argc, char** argv) {
  CLI::App app{"Federated learning on one host: virtual clients, the real engine.",
               "skep-simulator"};
  app.require_subcommand(0, 1);
  app.fallthrough();
  app.get_formatter()->column_width(kHelpColumn);
  app.footer("skep-simulator COMMAND --help says more about a command.");
  ConsoleOptions console_options;
  AddCommon(app, console_options);
  Commands commands{.app = app, .chosen = {}};
  NewOptions new_options;
  CheckOptions check_options;
  PartitionCommandOptions partition_options;
  RunOptions run_options;
  ReportOptions report_options;
  TellOptions tell_options;
  AddNew(commands, new_options);
  AddCheck(commands, check_options);
  AddPartition(commands, partition_options);
  AddRun(commands, run_options);
  AddReport(commands, report_options);
  AddTelling(commands, tell_options);
  run_options.command = CommandText(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    const Console console(console_options);
    if (!console_options.is_json) return app.exit(version);
    return console.Finish(VersionCommand(console));
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return RefuseUsage(app, error, Console(console_options));
  }
  const Console console(console_options);
  if (!commands.chosen) return RefuseCommandLine(console, "a command is missing", "", "");
  return console.Finish(commands.chosen(console));
}

}  // namespace
}  // namespace skep::simulator

int main(int argc, char** argv) {
  skep::HoldStandardStreams();
  return skep::simulator::Main(argc, argv);
}
