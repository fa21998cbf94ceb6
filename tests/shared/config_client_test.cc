#include <string>

#include "shared/config/client_config.h"
#include "tests/support/catch.h"

namespace skep::config {
namespace {

Validated<Loaded<ClientConfig>> Parse(const std::string& text) {
  return ParseClientConfig(text, "/etc/skep/client.toml", {});
}

std::string Shown(const std::string& text) {
  const auto loaded = Parse(text);
  REQUIRE(loaded.problems().size() == 1);
  const Problem& problem = loaded.problems()[0];
  return std::to_string(problem.code) + " " + std::to_string(problem.place.line) + ":" +
         std::to_string(problem.place.column) + " " + problem.message;
}

TEST_CASE("more threads than the trainer has are refused, not ignored", "[unit]") {
  const auto loaded = ParseClientConfig("[limits]\nthreads = 4\n", "client.toml", {});
  REQUIRE_FALSE(loaded.has_value());
  REQUIRE(loaded.problems().size() == 1);
  CHECK(loaded.problems()[0].code == 1019);
  CHECK(loaded.problems()[0].place.Text() == "client.toml:2:11");
  CHECK(ParseClientConfig("[limits]\nthreads = 1\n", "client.toml", {}).has_value());
}

TEST_CASE("an empty file is a client without data", "[unit]") {
  const auto loaded = Parse("");
  REQUIRE(loaded.has_value());
  const ClientConfig& client = loaded->value;
  CHECK(client.storage_dir == "/var/lib/skep-client");
  CHECK(client.endpoint.empty());
  CHECK(client.eligibility.min_battery == 0.3);
  CHECK(client.limits.memory == 256ULL << 20U);
  CHECK(client.limits.per_run == std::chrono::minutes(10));
  CHECK(client.data.dataset.empty());
  CHECK(client.data.path.empty());
  CHECK(client.log_format == "text");
  CHECK_FALSE(client.part.has_value());
}

TEST_CASE("a client's data source has the rows of an experiment's", "[unit]") {
  const auto loaded = Parse(
      "[data]\npath = \"own.csv\"\nlabel = \"y\"\nshuffle = false\nclient_test_fraction = 0.1\n");
  REQUIRE(loaded.has_value());
  CHECK(loaded->value.data.path == "/etc/skep/own.csv");
  CHECK(loaded->value.data.label == "y");
  CHECK_FALSE(loaded->value.data.shuffle);
  CHECK(loaded->value.data.client_test_fraction == 0.1);
}

TEST_CASE("a client can train on a part of an experiment", "[unit]") {
  const auto loaded = Parse("[data]\nexperiment = \"../e.toml\"\npart = 3\n");
  REQUIRE(loaded.has_value());
  CHECK(loaded->value.experiment == "/etc/skep/../e.toml");
  CHECK(loaded->value.part == 3U);
}

TEST_CASE("what a client's file gets wrong is refused", "[unit]") {
  CHECK(Shown("[aggregator]\nendpoint = \"agg\"\n") ==
        "1102 2:12 \"aggregator.endpoint\" is \"agg\"; allowed HOST:PORT");
  CHECK(Shown("[data]\npath = \"x\"\nexperiment = \"e.toml\"\n") ==
        "1103 3:1 \"experiment\" contradicts \"path\" (line 2): give one");
  CHECK(Shown("[data]\npart = 1\n") == "1103 2:1 \"data.part\" needs \"data.experiment\"");
  CHECK(Shown("[data]\nfeatures = [\"a\"]\n") == "1012 2:1 unknown key \"data.features\"");
  CHECK(Shown("[limits]\nmemory = \"1MiB\"\n") ==
        "1102 2:10 \"limits.memory\" is \"1MiB\"; allowed at least \"16MiB\"");
  CHECK(Shown("[secure_aggregation]\nrequired = true\n") ==
        "1019 2:12 \"secure_aggregation.required\" = true is not in this build; it has false");
  CHECK(Shown("[privacy]\nmax_epsilon = 2\n") ==
        "1019 2:15 \"privacy.max_epsilon\" is not in this build");
  CHECK(Shown("[limits]\ndevice = \"gpu\"\n") ==
        "1102 2:10 \"limits.device\" is \"gpu\"; allowed \"auto\", \"cpu\", \"cuda:N\"");
}

}  // namespace
}  // namespace skep::config
