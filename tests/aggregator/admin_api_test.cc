#include <boost/json/parse.hpp>

#include "aggregator/server/admin.h"
#include "aggregator/server/admin_json.h"
#include "shared/model/layout.h"
#include "shared/model/safetensors.h"
#include "tests/aggregator/fake_control.h"
#include "tests/support/catch.h"

namespace skep::test {
namespace {

namespace json = boost::json;

struct Answered {
  unsigned status = 0;
  json::value body;

  [[nodiscard]] json::value Data(const char* path) const { return body.at_pointer(path); }
  [[nodiscard]] std::int64_t Code() const { return body.at("error").at("code").as_int64(); }
};

Answered Ask(FakeControl& control, AdminRequest request) {
  AdminApi api(control, {.version = "0.1.0", .pid = 812, .admin_socket = "/run/admin.sock"});
  const AdminResponse answer = api.Answer(request);
  return {answer.status, json::parse(answer.body)};
}

AdminRequest Get(std::string path, std::map<std::string, std::string> query = {}) {
  return {.path = std::move(path), .query = std::move(query)};
}

AdminRequest Post(std::string path, std::string body) {
  return {.method = "POST", .path = std::move(path), .body = std::move(body)};
}

TEST_CASE("status shows what the daemon is, where it listens and what is wrong", "[unit]") {
  FakeControl control;
  const Answered answer = Ask(control, Get("/api/v1/status"));
  CHECK(answer.status == 200);
  CHECK(answer.Data("/data/state") == "ready");
  CHECK(answer.Data("/data/pid") == 812);
  CHECK(answer.Data("/data/uptime_ms") == 12'000);
  CHECK(answer.Data("/data/listeners/1/address") == "127.0.0.1:8444");
  CHECK(answer.Data("/data/problems/0/code") == 5108);
  CHECK(answer.Data("/data/problems/0/hint") == "sign a new one, then restart");
}

TEST_CASE("tokens are made with the count and lifetime that were asked for", "[unit]") {
  FakeControl control;
  const Answered answer =
      Ask(control, Post("/api/v1/tokens", R"({"population":"pump","count":3,"expires":"2m"})"));
  CHECK(answer.status == 200);
  CHECK(answer.Data("/data/join_strings").as_array().size() == 3);
  CHECK(control.calls == std::vector<std::string>{"CreateTokens pump 3 120000000000"});
}

TEST_CASE("tokens of every population are listed when none is named", "[unit]") {
  FakeControl control;
  CHECK(Ask(control, Get("/api/v1/tokens")).Data("/data/0/population") == "pump");
  CHECK(control.calls == std::vector<std::string>{"Tokens pump"});
}

TEST_CASE("devices are filtered by population and state, and counted beyond the limit", "[unit]") {
  FakeControl control;
  const auto total = [&](std::map<std::string, std::string> query) {
    const Answered answer = Ask(control, Get("/api/v1/devices", std::move(query)));
    return std::pair(answer.Data("/data/total").to_number<int>(),
                     answer.Data("/data/devices").as_array().size());
  };
  CHECK(total({}) == std::pair(3, std::size_t{3}));
  CHECK(total({{"population", "pump"}}) == std::pair(2, std::size_t{2}));
  CHECK(total({{"population", "pump"}, {"state", "active"}}) == std::pair(1, std::size_t{1}));
  CHECK(total({{"limit", "1"}}) == std::pair(3, std::size_t{1}));
}

TEST_CASE("a start passes on file, folder, options and key", "[unit]") {
  FakeControl control;
  AdminRequest request = Post("/api/v1/runs", R"({"text":"seed = 1\n","path":"pump.toml",
      "folder":"/data","sets":["training.rounds=3"],"population":"pump","dry_run":true})");
  request.idempotency_key = "key-1";
  CHECK(Ask(control, request).Data("/data/seed") == 42);
  CHECK(control.started.text == "seed = 1\n");
  CHECK(control.started.path == "pump.toml");
  CHECK(control.started.folder == "/data");
  CHECK(control.started.sets == std::vector<std::string>{"training.rounds=3"});
  CHECK(control.started.population == "pump");
  CHECK(control.started.request_key == "key-1");
  CHECK(control.started.is_dry_run);
}

TEST_CASE("every problem of a file comes back with the place of its caret", "[unit]") {
  FakeControl control;
  control.problems = std::vector<config::Problem>{
      {.code = 1012,
       .place = {"pump.toml", 3, 5, 6, "seeed = 1"},
       .message = "unknown key \"seeed\"",
       .suggestion = "seed"},
      {.code = 5315, .message = "no population", .hint = "add population = \"NAME\""}};
  const Answered answer =
      Ask(control, Post("/api/v1/runs", R"({"text":"","path":"pump.toml","folder":"/"})"));
  CHECK(answer.status == 400);
  const config::Problem first = ProblemFromJson(answer.Data("/errors/0"));
  CHECK(first.code == 1012);
  CHECK(first.place.Text() == "pump.toml:3:5");
  CHECK(first.place.width == 6);
  CHECK(first.place.source_line == "seeed = 1");
  CHECK(first.suggestion == "seed");
  CHECK(ProblemFromJson(answer.Data("/errors/1")).hint == "add population = \"NAME\"");
}

TEST_CASE("a run says what it waits for, and since when", "[unit]") {
  FakeControl control;
  const Answered answer = Ask(control, Get("/api/v1/runs/pump"));
  CHECK(answer.Data("/data/waiting_for") == "waiting for devices: 3 of 10 held");
  CHECK(answer.Data("/data/waiting_ms") == 40'000);
  CHECK(answer.Data("/data/state") == "running");
}

TEST_CASE("a stop tells whether the run was over before", "[unit]") {
  FakeControl control;
  const Answered first = Ask(control, Post("/api/v1/runs/pump/stop", R"({"now":true})"));
  CHECK(first.Data("/data/was_over") == false);
  CHECK(first.Data("/data/state") == "stopped");
  const Answered second = Ask(control, Post("/api/v1/runs/pump/stop", ""));
  CHECK(second.status == 200);
  CHECK(second.Data("/data/was_over") == true);
}

TEST_CASE("a model is sent as a safetensors file under its hash", "[unit]") {
  FakeControl control;
  const auto layout = model::Layout::Make({{.name = "fc1.weight", .shape = {2, 3}}}).value();
  auto params = std::make_shared<model::Params>(layout);
  params->values()[4] = 0.5F;
  control.model = params;
  AdminApi api(control, {});
  const AdminResponse answer = api.Answer(Get("/api/v1/runs/pump/model", {{"round", "2"}}));
  CHECK(answer.status == 200);
  CHECK(answer.etag == "\"" + params->ModelHash().Hex() + "\"");
  const auto file = model::DecodeTensorFile(AsBytes(answer.body));
  REQUIRE(file.has_value());
  CHECK(file->metadata.at("skep.model_sha256") == params->ModelHash().Hex());
  CHECK(file->metadata.at("skep.round") == "2");
  CHECK(file->tensors.at(0).name == "fc1.weight");
}

TEST_CASE("what makes no sense is SKEP-5408 and reaches nobody", "[unit]") {
  const std::vector<AdminRequest> requests{
      Post("/api/v1/populations", "{"),
      Post("/api/v1/populations", "[1]"),
      Post("/api/v1/populations", "{}"),
      Post("/api/v1/populations", R"({"name":7})"),
      Post("/api/v1/populations", R"({"name":"pump","nmae":"x"})"),
      Post("/api/v1/tokens", R"({"population":"pump","count":-1})"),
      Post("/api/v1/tokens", R"({"population":"pump","count":1.5})"),
      Post("/api/v1/tokens", R"({"population":"pump","expires":"soon"})"),
      Post("/api/v1/tokens", R"({"population":"pump","expires":"0s"})"),
      Post("/api/v1/runs", R"({"text":"","path":"x"})"),
      Post("/api/v1/runs", R"({"text":"","path":"x","folder":"/","sets":[1]})"),
      Post("/api/v1/runs/pump/stop", R"({"now":1})"),
      Get("/api/v1/devices", {{"state", "lost"}}),
      Get("/api/v1/devices", {{"limit", "-1"}}),
      Get("/api/v1/runs/pump/model", {{"round", "two"}})};
  for (const AdminRequest& request : requests) {
    FakeControl control;
    INFO(request.path << " " << request.body);
    const Answered answer = Ask(control, request);
    CHECK(answer.status == 400);
    CHECK(answer.Code() == 5408);
    CHECK(control.calls.empty());
  }
}

TEST_CASE("a route that does not exist is SKEP-5403", "[unit]") {
  for (const AdminRequest& request :
       {Get("/"), Get("/api/v1/nothing"), Post("/api/v1/status", ""), Get("/api/v1/runs/"),
        Get("/api/v1/runs/pump/stop"), Post("/api/v1/runs/pump/start", ""),
        Get("/api/v1/../status")}) {
    FakeControl control;
    INFO(request.path);
    const Answered answer = Ask(control, request);
    CHECK(answer.status == 404);
    CHECK(answer.Code() == 5403);
    CHECK(control.calls.empty());
  }
}

TEST_CASE("errors of the aggregator keep their number and say whose fault they are", "[unit]") {
  constexpr std::array<std::pair<int, unsigned>, 6> kExpected{
      {{5403, 404}, {5404, 409}, {5405, 409}, {5401, 503}, {5408, 400}, {4001, 500}}};
  for (const auto& [code, status] : kExpected) {
    FakeControl control;
    control.failure = Error{code, "why", "what to do"};
    const Answered answer = Ask(control, Post("/api/v1/runs/pump/pause", ""));
    CHECK(answer.status == status);
    CHECK(answer.Code() == code);
    CHECK(answer.Data("/error/hint") == "what to do");
  }
}

TEST_CASE("readiness follows the server", "[unit]") {
  FakeControl control;
  AdminApi api(control, {});
  CHECK(api.Answer(Get("/healthz")).status == 200);
  CHECK(api.Answer(Get("/readyz")).status == 200);
  control.failure = Error{5401, "the aggregator has ended", ""};
  CHECK(api.Answer(Get("/readyz")).status == 503);
}

}  // namespace
}  // namespace skep::test
