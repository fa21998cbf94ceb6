#include "tests/simulator/program.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace skep::simulator {

std::size_t ProgramResult::error_lines() const {
  return static_cast<std::size_t>(std::count(error.begin(), error.end(), '\n'));
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

ProgramResult RunProgram(const test::TemporaryFolder& folder, const std::string& command,
                         const std::string& before) {
  const test::TemporaryFolder captured;
  const std::string out = (captured.path() / "out").string();
  const std::string err = (captured.path() / "err").string();
  const std::string line = "cd '" + folder.path().string() +
                           "' && PATH='" SKEP_BINARY_DIR "/bin':\"$PATH\" && export PATH && " +
                           before + " " + command + " >'" + out + "' 2>'" + err + "' </dev/null";
  const int status = std::system(line.c_str());
  ProgramResult result;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.exit_code = 128 + WTERMSIG(status);
  result.output = ReadText(out);
  result.error = ReadText(err);
  return result;
}

}  // namespace skep::simulator
