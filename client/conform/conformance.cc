#include "client/conform/conformance.h"

#include <filesystem>
#include <fstream>

#include "client/conform/checks.h"
#include "client/conform/marks.h"
#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::conform {
namespace {

namespace fs = std::filesystem;

// A folder that goes with everything in it.
class WorkFolder {
 public:
  [[nodiscard]] Status Make() {
    std::error_code fault;
    std::string name = (fs::temp_directory_path(fault) / "skep-check-XXXXXX").string();
    if (fault || ::mkdtemp(name.data()) == nullptr)
      return Error{4001, "no folder " + name + " can be made", ""};
    path_ = name;
    return Ok();
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  WorkFolder() = default;
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Status WriteText(const std::string& path, const std::string& text) {
  return WriteFileAtomically(
      path, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, FileMode::kPrivate);
}

Finding Judge(const Check& check, World& world) {
  Trial trial(world, check.number);
  Result<Finding> finding = check.run(trial);
  if (finding.has_value()) return std::move(finding).value();
  return Failed(finding.error().message, finding.error().hint);
}

}  // namespace

std::set<int> KnownNumbers() {
  std::set<int> numbers;
  for (const Check& check : AllChecks()) numbers.insert(check.number);
  return numbers;
}

Result<std::vector<Line>> RunChecks(const Request& request,
                                    const std::function<void(const Line&)>& tell) {
  SKEP_ASSIGN(const std::string program, FindProgram(request.program));
  SKEP_ASSIGN(const std::string aggregator, FindCompanion("skep-aggregator"));
  WorkFolder folder;
  SKEP_TRY(folder.Make());
  const std::string data = folder.path() + "/data.csv";
  const std::string own = folder.path() + "/experiment.toml";
  SKEP_TRY(WriteText(data, MarkedTable()));
  SKEP_TRY(WriteText(own, ExperimentFor(data)));
  SKEP_ASSIGN(const std::unique_ptr<Host> host, Host::Start({.program = aggregator,
                                                             .folder = folder.path(),
                                                             .allows_root = request.allows_root}));
  World world{
      .request = request,
      .program = program,
      .aggregator = aggregator,
      .folder = folder.path(),
      .experiment = request.experiment.empty() ? own : fs::absolute(request.experiment).string(),
      .data = data,
      .host = *host};
  std::vector<Line> lines;
  for (const Check& check : AllChecks()) {
    if (!request.only.empty() && !request.only.contains(check.number)) continue;
    lines.push_back({check.number, check.name, Judge(check, world)});
    tell(lines.back());
  }
  return lines;
}

}  // namespace skep::conform
