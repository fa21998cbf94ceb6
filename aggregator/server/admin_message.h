// Requests and answers of the administration, as values, and how a target is written in a URL.
//
// Not HTTP itself: admin_socket.h carries them. Plain values, any thread. Source: RFC 3986,
// sections 2.1 and 3.4; docs/operations.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace skep::aggregator {

struct AdminRequest {
  std::string method = "GET";
  std::string path = {};                          // decoded: "/api/v1/runs/pump"
  std::map<std::string, std::string> query = {};  // decoded
  std::string idempotency_key = {};
  std::string body = {};  // JSON, or empty
};

struct AdminResponse {
  unsigned status = 200;
  std::string type = "application/json";
  std::string etag = {};
  std::string body = {};
};

// "/api/v1/runs/pump?all=true": every byte outside of the unreserved ones is escaped, slashes of
// the path stay.
[[nodiscard]] std::string EncodeTarget(const AdminRequest& request);
// Fills path and query. False for a damaged escape, a control character, a path without its slash,
// or a query key given twice.
[[nodiscard]] bool DecodeTarget(std::string_view target, AdminRequest& request);

}  // namespace skep::aggregator
