#include "client/cli/new_app.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "client/cli/templates.h"
#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::cli {
namespace {

constexpr std::string_view kTemplateName = "pump";
constexpr std::size_t kLongestName = 64;
constexpr mode_t kFolderMode = 0755;
constexpr mode_t kProgramMode = 0755;

bool IsPartOfName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

// What CMake takes as the name of a project and of a program.
Status CheckName(const std::string& name) {
  constexpr std::array<std::string_view, 7> kTaken{"all",     "clean", "help", "install",
                                                   "package", "skep",  "test"};
  if (std::find(kTaken.begin(), kTaken.end(), name) != kTaken.end()) {
    return Error{1102, "\"" + name + "\" means something else to CMake or to the library",
                 "give another name, such as my-" + name};
  }
  const bool starts_well = !name.empty() && IsPartOfName(name.front()) && name.front() != '-' &&
                           (name.front() < '0' || name.front() > '9');
  if (starts_well && name.size() <= kLongestName &&
      std::all_of(name.begin(), name.end(), &IsPartOfName)) {
    return Ok();
  }
  return Error{1102, "\"" + name + "\" is no name for a project",
               "letters, digits, - and _, a letter first, at most 64; the folder is made where "
               "you are"};
}

// The name of the template, wherever it stands as a word, becomes the project's.
std::string Named(std::string_view content, const std::string& name) {
  std::string text;
  std::size_t from = 0;
  for (std::size_t at = content.find(kTemplateName); at != std::string_view::npos;
       at = content.find(kTemplateName, at + kTemplateName.size())) {
    const std::size_t end = at + kTemplateName.size();
    const bool is_word = (at == 0 || !IsPartOfName(content[at - 1])) &&
                         (end == content.size() || !IsPartOfName(content[end]));
    if (!is_word) continue;
    text.append(content.substr(from, at - from)).append(name);
    from = end;
  }
  return text.append(content.substr(from));
}

Status WriteProject(const std::string& name, std::string_view language) {
  if (::mkdir(name.c_str(), kFolderMode) != 0) {
    if (errno == EEXIST) {
      return Error{4004, name + " is there already, and stays as it is",
                   "give another name, or go to another folder"};
    }
    return Error{4001, "cannot make the folder " + name + ": " + SystemReason(errno), ""};
  }
  for (const TemplateFile& file : TemplateFiles()) {
    if (file.language != language) continue;
    const std::string path = name + "/" + std::string(file.path);
    const std::string text = Named(file.content, name);
    SKEP_TRY(WriteFileAtomically(
        path, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}));
    if (file.is_program && ::chmod(path.c_str(), kProgramMode) != 0) {
      return Error{4001, "cannot make " + path + " a program: " + SystemReason(errno), ""};
    }
  }
  return Ok();
}

}  // namespace

int RunNewApp(const GlobalOptions& options, const NewAppOptions& app) {
  if (int{app.is_cpp} + int{app.is_c} + int{app.is_python} != 1) {
    return Fail(options, Error{1103, "give one language: --cpp, --c or --python", ""});
  }
  if (const Status named = CheckName(app.name); !named.has_value()) {
    return Fail(options, named.error());
  }
  const std::string_view language = app.is_cpp ? "cpp" : app.is_c ? "c" : "python";
  if (const Status written = WriteProject(app.name, language); !written.has_value()) {
    return Fail(options, written.error());
  }
  boost::json::array files;
  std::string names;
  for (const TemplateFile& file : TemplateFiles()) {
    if (file.language != language) continue;
    files.emplace_back(boost::json::string(file.path));
    names += (names.empty() ? "" : ", ") + std::string(file.path);
  }
  const std::string build = app.is_python ? "" : "       cmake -B build && cmake --build build\n";
  const std::string program = app.is_python ? "./app.py" : "./build/" + app.name;
  return Succeed(options,
                 {{"folder", app.name}, {"language", language}, {"files", std::move(files)}},
                 app.name + "/ has " + names + "\nnext   cd " + app.name + "\n" + build +
                     "       skep-client dev-server --join-file join.txt &\n       " + program +
                     " --join-file join.txt --storage state\n");
}

}  // namespace skep::cli
