#include "aggregator/server/admin_message.h"
#include "tests/support/catch.h"

namespace skep::aggregator {
namespace {

TEST_CASE("any path and query come through a target unchanged", "[unit]") {
  const AdminRequest request{.path = "/api/v1/runs/caf\xc3\xa9 & 100%?",
                             .query = {{"a b", "x=y&z"}, {"population", "pump"}}};
  const std::string target = EncodeTarget(request);
  CHECK(target == "/api/v1/runs/caf%c3%a9%20%26%20100%25%3f?a%20b=x%3dy%26z&population=pump");
  AdminRequest decoded;
  REQUIRE(DecodeTarget(target, decoded));
  CHECK(decoded.path == request.path);
  CHECK(decoded.query == request.query);
}

TEST_CASE("a damaged target is refused", "[unit]") {
  for (const char* target : {"", "api", "*", "/a%", "/a%4", "/a%zz", "/a%00b", "/a%0a", "/a?b",
                             "/a?b=1&b=2", "/a?b=%g1", "http://localhost/"}) {
    AdminRequest request;
    INFO(target);
    CHECK_FALSE(DecodeTarget(target, request));
  }
}

}  // namespace
}  // namespace skep::aggregator
