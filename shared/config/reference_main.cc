// Writes the generated pages of docs/reference: experiment.md, server.md, client.md, errors.md. Run
// by the target `reference`.
#include <cstdio>
#include <string>

#include "shared/base/error_catalogue.h"
#include "shared/base/file.h"
#include "shared/config/schema.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: reference FOLDER\n", stderr);
    return 2;
  }
  const std::pair<const char*, std::string> pages[] = {
      {"experiment.md", skep::config::MarkdownReference(skep::config::ExperimentSchema())},
      {"server.md", skep::config::MarkdownReference(skep::config::ServerSchema())},
      {"client.md", skep::config::MarkdownReference(skep::config::ClientSchema())},
      {"errors.md", skep::ErrorReference()}};
  for (const auto& [name, text] : pages) {
    const auto written =
        skep::WriteFileAtomically(std::string(argv[1]) + "/" + name, skep::AsBytes(text));
    if (!written) {
      std::fprintf(stderr, "%s\n", written.error().message.c_str());
      return 1;
    }
  }
  return 0;
}
