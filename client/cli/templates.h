// The projects that new-app writes. They are the folders of examples/ themselves, which are built
// and run by the tests: client/cli/templates/embed.cmake puts their files into the program.
#pragma once

#include <span>
#include <string_view>

namespace skep::cli {

struct TemplateFile {
  std::string_view language;  // "cpp", "c" or "python"
  std::string_view path;      // in the project
  std::string_view content;   // the project is called "pump"
  bool is_program;            // to be run as it is
};
[[nodiscard]] std::span<const TemplateFile> TemplateFiles();

}  // namespace skep::cli
