#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "shared/base/error_catalogue.h"
#include "shared/config/schema.h"
#include "shared/config/value_check.h"
#include "tests/support/catch.h"

namespace skep::config {
namespace {

std::vector<const Schema*> Schemas() {
  return {&ExperimentSchema(), &ServerSchema(), &ClientSchema()};
}

TEST_CASE("every row of a schema keeps its own rules", "[unit]") {
  for (const Schema* schema : Schemas()) {
    std::set<std::string> paths;
    for (const Key& key : schema->keys()) {
      INFO(schema->file() << " " << key.path);
      const Row& row = *key.row;
      CHECK(paths.insert(key.path).second);
      CHECK(row.text.ends_with("."));
      (void)DefaultValue(key);  // aborts if the default is not allowed by its own row
      const std::uint32_t units = row.types & (kDuration | kSize | kRate);
      if (!row.range.empty())
        CHECK(ParseRange(row.range, units != 0 ? static_cast<Types>(units) : kNumber).has_value());
      if (!row.count.empty()) CHECK(ParseRange(row.count, kInteger).has_value());
      for (const std::string_view word : Words(row.present)) CHECK(IsAmong(word, row.words));
      if (!row.excludes.empty()) CHECK(schema->Find(row.excludes) != nullptr);
    }
  }
}

TEST_CASE("what a condition names exists", "[unit]") {
  for (const Schema* schema : Schemas()) {
    for (const Key& key : schema->keys()) {
      std::istringstream words{std::string(key.row->only_with)};
      for (std::string word; words >> word;) {
        // Words with a dot are paths, unless they are words of a value.
        if (word.find('.') != std::string::npos) CHECK(schema->Find(word) != nullptr);
      }
    }
  }
}

TEST_CASE("a key, a section and an alias can be explained", "[unit]") {
  CHECK(ExplainTopic(ExperimentSchema(), "training.over_selection") ==
        "training.over_selection\n"
        "  Invited divided by wanted.\n"
        "  value        a number, 1 to 10\n"
        "  default      1.0\n"
        "  also called  overcommitment\n");
  CHECK(ExplainTopic(ExperimentSchema(), "Cohort-Size").find("training.clients_per_round\n") == 0);
  const std::string section = ExplainTopic(ExperimentSchema(), "server_optimizer");
  CHECK(section.find("[server_optimizer]\n") == 0);
  CHECK(section.find("learning_rate") != std::string::npos);
  CHECK(ExplainTopic(ExperimentSchema(), "no such topic").empty());
  CHECK(ExplainTopic(ExperimentSchema(), "").empty());
}

TEST_CASE("a word of the field can be explained", "[unit]") {
  CHECK(ExplainWord("update") ==
        "update\n  What a client sends back: the difference to the model that it got.\n");
  CHECK(ExplainWord("collaborator").empty());
}

TEST_CASE("the JSON schema names every key", "[unit]") {
  for (const Schema* schema : Schemas()) {
    const std::string json = JsonSchema(*schema);
    for (const Key& key : schema->keys()) {
      INFO(key.path);
      CHECK(json.find("\"" + std::string(key.row->key) + "\":{\"description\":") !=
            std::string::npos);
    }
    CHECK(std::count(json.begin(), json.end(), '{') == std::count(json.begin(), json.end(), '}'));
  }
}

std::string FileText(const std::string& name) {
  std::ifstream file(std::string(SKEP_SOURCE_DIR) + "/docs/reference/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_CASE("the reference pages are what the tables say", "[unit]") {
  INFO("cmake --build build/dev --target reference writes them anew");
  CHECK(FileText("experiment.md") == MarkdownReference(ExperimentSchema()));
  CHECK(FileText("server.md") == MarkdownReference(ServerSchema()));
  CHECK(FileText("client.md") == MarkdownReference(ClientSchema()));
  CHECK(FileText("errors.md") == ErrorReference());
}

}  // namespace
}  // namespace skep::config
