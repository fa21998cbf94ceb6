#include "client/cli/explain.h"

#include <string_view>
#include <vector>

#include "shared/base/error_catalogue.h"
#include "shared/base/suggest.h"
#include "shared/config/schema.h"

namespace skep::cli {

int RunExplain(const GlobalOptions& options, const std::string& topic) {
  std::string text;
  if (const auto number = ParseErrorNumber(topic)) {
    text = Explain(*number);
    if (text.empty()) {
      return Fail(options, Error{1012, "there is no SKEP-" + std::to_string(*number), ""});
    }
  } else {
    text = config::ExplainTopic(config::ClientSchema(), topic);
  }
  if (!text.empty()) {
    if (text.back() != '\n') text += '\n';
    return Succeed(options, {{"topic", topic}, {"text", text}}, text);
  }
  std::vector<std::string_view> known;
  for (const config::Section& section : config::ClientSchema().sections()) {
    if (!section.name.empty()) known.push_back(section.name);
  }
  for (const config::Key& key : config::ClientSchema().keys()) known.emplace_back(key.path);
  const std::string meant = Suggest(topic, known);
  return Fail(options, Error{1012, "nothing is known about \"" + topic + "\"",
                             meant.empty() ? "" : "did you mean \"" + meant + "\"?"});
}

}  // namespace skep::cli
