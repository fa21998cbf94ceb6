// The program skep-client as a person meets it: texts, exit codes, one object with --json.
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include <boost/json/parse.hpp>

#include "client/agent/identity.h"
#include "client/cli/join.h"
#include "crypto/pki/join_string.h"
#include "shared/base/clock.h"
#include "tests/client/agent_world.h"
#include "tests/support/catch.h"

namespace skep::cli {
namespace {

using test::AgentServer;
using test::AgentWorld;
using test::TemporaryFolder;

struct Answer {
  int code = -1;
  std::string out;
  std::string err;
};

std::string TextOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Runs skep-client with these words, as a shell would split them.
Answer Call(const std::string& words, const std::string& input = "") {
  const TemporaryFolder place;
  const std::string in = place.Write("in", input).string();
  const std::string out = (place.path() / "out").string();
  const std::string err = (place.path() / "err").string();
  const std::string line = std::string(SKEP_BINARY_DIR) + "/bin/skep-client " + words + " <" + in +
                           " >" + out + " 2>" + err;
  const int status = std::system(line.c_str());
  Answer answer;
  if (WIFEXITED(status)) answer.code = WEXITSTATUS(status);
  answer.out = TextOf(out);
  answer.err = TextOf(err);
  return answer;
}

std::size_t LinesOf(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

boost::json::object JsonOf(const std::string& text) {
  REQUIRE(LinesOf(text) == 1);
  return boost::json::parse(text).as_object();
}

TEST_CASE("help names every command and fits a narrow terminal", "[unit]") {
  const Answer help = Call("--help");
  CHECK(help.code == 0);
  for (const char* command : {"join", "run", "status", "history", "doctor", "forget", "explain",
                              "new-app", "dev-server", "version"}) {
    CHECK(help.out.find("\n  " + std::string(command) + " ") != std::string::npos);
    const Answer own = Call(std::string(command) + " --help");
    CHECK(own.code == 0);
    std::istringstream lines(own.out);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  }
}

TEST_CASE("the version is text, or with --json one object, as a flag and as a command", "[unit]") {
  CHECK(Call("--version").out == Call("version").out);
  CHECK(LinesOf(Call("--version").out) == 1);
  for (const char* words : {"--json --version", "--version --json", "version --json"}) {
    INFO(words);
    const Answer answer = Call(words);
    CHECK(answer.code == 0);
    CHECK(JsonOf(answer.out).at("data").as_object().contains("version"));
  }
}

TEST_CASE("a word that is not known is named, with the one that was perhaps meant", "[unit]") {
  const Answer command = Call("stauts");
  CHECK(command.code == 2);
  CHECK(command.err.find("did you mean \"status\"?") != std::string::npos);
  const Answer option = Call("run --onec");
  CHECK(option.code == 2);
  CHECK(option.err.find("did you mean \"--once\"?") != std::string::npos);
  CHECK(Call("").code == 2);
  CHECK(Call("explain").code == 2);
  CHECK(Call("--set data.pat=x status").err.find("SKEP-1012") != std::string::npos);
  CHECK(Call("--set data.pat=x status").code == 2);
}

TEST_CASE("explain knows numbers and keys", "[unit]") {
  CHECK(Call("explain SKEP-3112").out.find("SKEP-3112") == 0);
  CHECK(Call("explain limits.cpu").out.find("limits.cpu") == 0);
  CHECK(Call("explain 1999").code == 2);
  const Answer near = Call("explain limits.cpus");
  CHECK(near.code == 2);
  CHECK(near.err.find("limits.cpu") != std::string::npos);
}

TEST_CASE("a join string that is damaged is refused before anything is made", "[unit]") {
  const TemporaryFolder place;
  const std::string folder = (place.path() / "device").string();
  const Answer joined = Call("join - --storage " + folder, "https://agg.example:8444#SKEP1-AAEC\n");
  CHECK(joined.code == 2);
  CHECK(joined.err.find("SKEP-3116") != std::string::npos);
  CHECK(joined.err.find("AAEC") == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder));
  CHECK(Call("join --storage " + folder).code == 2);
  CHECK(Call("join --join-file /nowhere --storage " + folder).code == 2);
}

TEST_CASE("the next step after joining says what training needs", "[unit]") {
  GlobalOptions options;
  config::ClientConfig config;
  config.storage_dir = "/d";
  CHECK(NextStep(options, config)
            .starts_with("next   skep-client run --storage /d "
                         "--set data.path=FILE --set data.label=COLUMN\n"));
  options.sets = {"data.path=own.csv"};
  config.data.path = "own.csv";
  CHECK(NextStep(options, config) ==
        "next   skep-client run --storage /d --set 'data.path=own.csv'\n");
}

TEST_CASE("an aggregator that is not there is exit code 4 within two seconds", "[unit]") {
  const TemporaryFolder place;
  AgentServer closed(AgentServer::Kind::kEnrolment);
  closed.Start();
  closed.Stop();
  crypto::JoinString join;
  join.host = "127.0.0.1";
  join.port = closed.port();
  const std::string text = crypto::FormatJoinString(join);
  const SteadyTime began = ReadClock().steady;
  const Answer joined = Call("join - --json --storage " + (place.path() / "d").string(), text);
  CHECK(ReadClock().steady - began < std::chrono::seconds(2));
  CHECK(joined.code == 4);
  const auto answer = JsonOf(joined.out);
  CHECK(answer.at("exit_code").as_int64() == 4);
  CHECK(answer.at("error").at("code").as_int64() == 3001);
  CHECK(joined.err.empty());
  CHECK(joined.out.find(text.substr(text.size() - 80)) == std::string::npos);
}

TEST_CASE("a device can be looked at, wiped, and is then none", "[unit]") {
  AgentWorld world;
  world.Enrol();
  const std::string at = " --storage " + world.StorageFolder();
  const Answer status = Call("status" + at);
  CHECK(status.code == 0);
  CHECK(status.out.find("070707  enrolled in pump at 127.0.0.1:") == 0);
  CHECK(status.out.find("last      nothing yet") != std::string::npos);
  const auto object = JsonOf(Call("status --json" + at).out);
  CHECK(object.at("status").as_string() == "ok");
  CHECK(object.at("data").at("device").as_string() == test::DeviceOf(7).Hex());

  const Answer again = Call("join -" + at, crypto::FormatJoinString([] {
                              crypto::JoinString join;
                              join.host = "127.0.0.1";
                              join.port = 1;
                              return join;
                            }()));
  CHECK(again.code == 2);
  CHECK(again.err.find("is enrolled already, as device 0707") != std::string::npos);

  CHECK(Call("forget" + at, "y").code == 2);  // not a terminal: nobody was asked
  CHECK(Call("status" + at).code == 0);
  CHECK(Call("forget --yes" + at).code == 0);
  CHECK(Call("status" + at).code == 2);
  for (const auto& entry : std::filesystem::directory_iterator(world.StorageFolder())) {
    const std::string name = entry.path().filename().string();
    CHECK((name == "FORMAT" || name == "lock"));
  }
}

TEST_CASE("a wrong path of data is exit code 2 in at most 12 lines, before any connection",
          "[unit]") {
  AgentWorld world;
  world.Enrol();
  const std::string at = " --storage " + world.StorageFolder();
  const Answer run = Call("run --once --set data.path=/nowhere/own.csv" + at);
  CHECK(run.code == 2);
  CHECK(LinesOf(run.err) <= 12);
  CHECK(run.err.find("error[SKEP-1201]: cannot read /nowhere/own.csv") != std::string::npos);
  CHECK(Call("run --once" + at).code == 2);
  CHECK(Call("run --once --data-experiment /nowhere/e.toml" + at).code == 2);
  CHECK(Call("run --once --budget soon --set data.dataset=fashion-mnist" + at).code == 2);
}

// The steps of `doctor --json` with these words.
boost::json::array StepsOf(const std::string& words, int code) {
  const Answer answer = Call("doctor --json " + words);
  INFO(answer.out + answer.err);
  CHECK(answer.code == code);
  return JsonOf(answer.out).at("data").at("steps").as_array();
}

TEST_CASE("a day's limit that an experiment will exceed is warned of before the first round",
          "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.server.Start();
  std::string table = "a,b,y\n";
  for (int row = 0; row < 20; ++row)
    table +=
        std::to_string(row) + ",1." + std::to_string(row) + (row % 2 == 0 ? ",no\n" : ",yes\n");
  (void)world.folder.Write("own.csv", table);
  // mlp 2-1000-2: 5,002 values, 20 kB each way; each of the two clients is asked every round.
  const std::string experiment =
      world.folder
          .Write("e.toml",
                 "[data]\npath = \"own.csv\"\nnum_clients = 2\npartition = \"iid\"\n"
                 "[model]\narchitecture = \"mlp\"\nhidden = [1000]\n"
                 "[training]\nrounds = 300\nclients_per_round = 2\n")
          .string();
  const bool is_tight = GENERATE(true, false);
  const std::string limit = is_tight ? "2MiB" : "64MiB";
  const auto steps = StepsOf("--storage " + world.StorageFolder() + " --data-experiment " +
                                 experiment + " --set limits.bytes_per_day=" + limit,
                             0);
  world.server.Stop();
  const std::string text(steps.back().at("text").as_string());
  INFO(text);
  CHECK(text.starts_with("warning: ") == is_tight);
  CHECK(text.find("a task takes about 40 KB, which leaves ") != std::string::npos);
  CHECK((text.find("about 300 for each client (12 MB)") != std::string::npos) == is_tight);
}

TEST_CASE("missing data fail at their step, with the path", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.server.Start();
  const auto steps = StepsOf(
      "--storage " + world.StorageFolder() + " --set data.label=y --set data.path=/nowhere/own.csv",
      2);
  world.server.Stop();
  CHECK(steps.back().at("step").as_string() == "data");
  CHECK(steps.back().at("code").as_int64() == 1201);
  CHECK(steps.back().at("text").as_string().find("/nowhere/own.csv") != boost::json::string::npos);
}

TEST_CASE("run --once contributes and ends with 0; so does doctor", "[unit]") {
  AgentWorld world;
  world.Enrol();
  world.server.Start();
  const std::string common = " --storage " + world.StorageFolder() +
                             " --set data.label=y --set data.path=" + world.config.data.path;
  const Answer doctor = Call("doctor --json" + common);
  CHECK(doctor.code == 0);
  CHECK(JsonOf(doctor.out).at("data").at("steps").as_array().size() == 13);
  const Answer run = Call("run --once" + common);
  INFO(run.err);
  CHECK(run.code == 0);
  CHECK(run.out.empty());
  CHECK(run.err.find(" info round 1: trained 16 examples in ") != std::string::npos);
  const Answer history = Call("history" + common);
  CHECK(history.out.find("contributed to round 1, 16 examples") != std::string::npos);
  world.server.Stop();
  CHECK(world.aggregator.updates.size() == 1);
  CHECK(Call("run --once" + common).code == 4);
}

TEST_CASE("what is wrong with a project or a dev-server is said by number, and nothing is made",
          "[unit]") {
  for (const auto& [words, number] :
       {std::pair{"new-app pump", "SKEP-1103"}, std::pair{"new-app pump --c --cpp", "SKEP-1103"},
        std::pair{"new-app ../pump --c", "SKEP-1102"}, std::pair{"new-app 2pump --c", "SKEP-1102"},
        std::pair{"new-app test --cpp", "SKEP-1102"},
        std::pair{"dev-server --rounds 0 --allow-root", "SKEP-1102"},
        std::pair{"dev-server --json --allow-root", "SKEP-1103"}}) {
    const Answer answer = Call(words);
    INFO(words << answer.out << answer.err);
    CHECK(answer.code == 2);
    CHECK((answer.out + answer.err).find(std::string(number).substr(5)) != std::string::npos);
  }
  for (const char* name : {"pump", "../pump", "2pump", "test"}) {
    CHECK_FALSE(std::filesystem::exists(name));
  }
}

}  // namespace
}  // namespace skep::cli
