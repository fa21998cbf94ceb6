#include "aggregator/server/commands/daemon.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>

#include <algorithm>
#include <filesystem>

#include "aggregator/server/admin_json.h"
#include "aggregator/server/admin_socket.h"
#include "shared/config/server_config.h"

namespace skep::aggregator {
namespace {

namespace json = boost::json;
using config::Problem;

constexpr const char* kDefaultSocket = "/run/skep/admin.sock";

std::vector<Problem> Problems(const Error& error) {
  return {Problem{.code = error.code, .message = error.message, .hint = error.hint}};
}

std::vector<Problem> Refusals(const AdminResponse& answer, const json::value& body) {
  const View view(body);
  std::vector<Problem> problems;
  if (view.Has("error")) problems.push_back(ProblemFromJson(view.At("error").value()));
  if (view.Has("errors")) {
    for (const View& one : view.At("errors").Items()) {
      problems.push_back(ProblemFromJson(one.value()));
    }
  }
  if (!problems.empty()) return problems;
  return Problems({5401, "the daemon answered with status " + std::to_string(answer.status),
                   "is it of another version?"});
}

const json::value& Nothing() {
  static const json::value nothing;
  return nothing;
}

}  // namespace

config::Validated<Daemon> Daemon::Find(const GlobalOptions& options) {
  if (!options.socket.empty()) return Daemon(options.socket, options.timeout);
  const auto loaded = config::LoadServerConfig(options.config);
  if (loaded) {
    const std::filesystem::path path(loaded->value.listen.admin_socket);
    return Daemon(path.lexically_normal().string(), options.timeout);
  }
  // Members of the admin group need not be able to read the configuration.
  if (options.is_config_given) return loaded.problems();
  return Daemon(kDefaultSocket, options.timeout);
}

config::Validated<AdminResponse> Daemon::Fetch(const AdminRequest& request) const {
  Result<AdminResponse> answer = CallAdmin(socket_, request, timeout_);
  if (!answer) return Problems(answer.error());
  if (answer->status == 200) return std::move(answer).value();
  boost::system::error_code error;
  return Refusals(*answer, json::parse(answer->body, error));
}

config::Validated<json::value> Daemon::Ask(const AdminRequest& request) const {
  return Ask(request, timeout_);
}

config::Validated<json::value> Daemon::Ask(const AdminRequest& request, Milliseconds limit) const {
  const Result<AdminResponse> answer = CallAdmin(socket_, request, std::min(limit, timeout_));
  if (!answer) return Problems(answer.error());
  boost::system::error_code error;
  const json::value body = json::parse(answer->body, error);
  if (error || answer->status != 200) return Refusals(*answer, body);
  return json::value(View(body).At("data").value());
}

AdminRequest Get(std::string path, std::map<std::string, std::string> query) {
  return {.method = "GET", .path = std::move(path), .query = std::move(query)};
}

AdminRequest Post(std::string path, const json::value& body) {
  return {.method = "POST", .path = std::move(path), .body = json::serialize(body)};
}

View View::At(std::string_view key) const {
  const json::object* object = value_->if_object();
  const json::value* found = object != nullptr ? object->if_contains(key) : nullptr;
  return {found != nullptr ? *found : Nothing()};
}

bool View::Has(std::string_view key) const {
  return !At(key).value_->is_null();
}

std::string View::Text() const {
  return value_->is_string() ? json::value_to<std::string>(*value_) : "";
}

std::string View::Text(std::string_view key) const {
  return At(key).Text();
}

std::int64_t View::Number(std::string_view key) const {
  boost::system::error_code ignored;
  return At(key).value_->to_number<std::int64_t>(ignored);
}

double View::Real(std::string_view key) const {
  boost::system::error_code ignored;
  return At(key).value_->to_number<double>(ignored);
}

bool View::Flag(std::string_view key) const {
  const bool* flag = At(key).value_->if_bool();
  return flag != nullptr && *flag;
}

std::vector<View> View::Items() const {
  std::vector<View> items;
  const json::array* array = value_->if_array();
  if (array == nullptr) return items;
  for (const json::value& item : *array) items.emplace_back(item);
  return items;
}

}  // namespace skep::aggregator
