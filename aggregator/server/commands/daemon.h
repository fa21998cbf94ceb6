// Daemon: questions to the running aggregator, as the commands ask them.
//
// Finds the admin socket, sends one request, gives back what stands in "data" or every problem of
// the refusal. One thread. Source: docs/operations.md (commands).
#pragma once

#include <boost/json/value.hpp>

#include <string>
#include <vector>

#include "aggregator/server/admin_message.h"
#include "aggregator/server/commands/console.h"

namespace skep::aggregator {

class Daemon {
 public:
  // --socket, else what the configuration says, else the default. Problems if --config was given
  // and cannot be read.
  [[nodiscard]] static config::Validated<Daemon> Find(const GlobalOptions& options);

  [[nodiscard]] const std::string& socket() const { return socket_; }
  // At most --timeout, or `limit` if that is shorter. SKEP-5401, 5402, 5407, or the daemon's own
  // problems.
  [[nodiscard]] config::Validated<boost::json::value> Ask(const AdminRequest& request) const;
  [[nodiscard]] config::Validated<boost::json::value> Ask(const AdminRequest& request,
                                                          Milliseconds limit) const;
  // The body itself, for what is no JSON.
  [[nodiscard]] config::Validated<AdminResponse> Fetch(const AdminRequest& request) const;

 private:
  Daemon(std::string socket, Milliseconds timeout)
      : socket_(std::move(socket)), timeout_(timeout) {}

  std::string socket_;
  Milliseconds timeout_;
};

// Finds the daemon, asks, and prints what `show` makes of the answer.
template <class Show>
int AskAndPrint(const GlobalOptions& options, const AdminRequest& request, Show show) {
  const auto daemon = Daemon::Find(options);
  if (!daemon) return Fail(options, daemon.problems());
  const auto answer = daemon->Ask(request);
  if (!answer) return Fail(options, answer.problems());
  return show(*answer);
}

[[nodiscard]] AdminRequest Get(std::string path, std::map<std::string, std::string> query = {});
[[nodiscard]] AdminRequest Post(std::string path, const boost::json::value& body);

// Looks into an answer without trusting its form: what is missing or of another type is empty.
class View {
 public:
  View(const boost::json::value& value) : value_(&value) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool Has(std::string_view key) const;
  [[nodiscard]] View At(std::string_view key) const;
  [[nodiscard]] std::string Text(std::string_view key) const;
  [[nodiscard]] std::int64_t Number(std::string_view key) const;
  [[nodiscard]] double Real(std::string_view key) const;
  [[nodiscard]] bool Flag(std::string_view key) const;
  [[nodiscard]] std::string Text() const;
  [[nodiscard]] std::vector<View> Items() const;
  [[nodiscard]] const boost::json::value& value() const { return *value_; }

 private:
  const boost::json::value* value_;
};

}  // namespace skep::aggregator
