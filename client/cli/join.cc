#include "client/cli/join.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "client/cli/local_data.h"
#include "client/cli/settings.h"
#include "crypto/pki/join_string.h"
#include "shared/base/file.h"
#include "shared/base/try.h"
#include "shared/wire/text.h"

namespace skep::cli {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongestText = 4096;

// A secret passes through here: the buffer is wiped by its owner.
Result<std::string> ReadInput() {
  std::string text;
  std::array<char, 512> buffer{};
  while (text.size() < kLongestText) {
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error{1010, "cannot read standard input: " + SystemReason(errno), ""};
    if (count == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  crypto::Wipe({reinterpret_cast<std::uint8_t*>(buffer.data()), buffer.size()});
  return text;
}

Result<std::string> ReadJoinString(const GlobalOptions& options, const JoinOptions& join) {
  if (!join.file.empty()) {
    SKEP_ASSIGN(Bytes content, ReadFile(join.file, kLongestText, 1010));
    std::string text(AsText(content));
    crypto::Wipe(content);
    return text;
  }
  if (join.text == "-") return ReadInput();
  Tell(options,
       "note: other users can see a join string that is given as an argument; "
       "`join -` reads it from standard input\n");
  return join.text;
}

// What the folder says afterwards.
Result<json::object> Join(const GlobalOptions& options, const JoinOptions& join,
                          const config::ClientConfig& config) {
  ClientOptions settings(options, config);
  // All that can be wrong here is said before the folder is made and the network is touched.
  SKEP_ASSIGN(std::string text, ReadJoinString(options, join));
  const Result<crypto::JoinString> parsed = crypto::ParseJoinString(text);
  if (parsed.has_value()) settings.SetJoinString(text);
  crypto::Wipe({reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  if (!parsed.has_value()) return parsed.error();
  const Result<json::object> before = ReportOf(&skep_status_json, settings);
  if (before.has_value() && before->contains("enrolment")) {
    const json::object& enrolment = before->at("enrolment").as_object();
    return Error{4004,
                 config.storage_dir + " is enrolled already, as device " +
                     std::string(enrolment.at("device").as_string()),
                 "give another folder with --storage; `skep-client forget` gives this one up"};
  }
  SKEP_ASSIGN(const ClientPtr client, OpenClient(settings, NoData()));
  skep_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  if (skep_client_enrol(client.get(), join.name.c_str(), &outcome) != SKEP_OK) {
    return ErrorOf(outcome);
  }
  SKEP_ASSIGN(const json::object after, ReportOf(&skep_status_json, settings));
  return after.at("enrolment").as_object();
}

}  // namespace

std::string NextStep(const GlobalOptions& options, const config::ClientConfig& config) {
  std::string text = "next   skep-client run --storage " + config.storage_dir;
  if (options.is_config_given) text += " --config " + options.config;
  for (const std::string& set : options.sets) text += " --set '" + set + "'";
  if (HasDataSource(config)) return text + "\n";
  return text +
         " --set data.path=FILE --set data.label=COLUMN\n"
         "       FILE: the table to train on; or --data-experiment experiment.toml; or set [data] "
         "in client.toml\n";
}

int RunJoin(const GlobalOptions& options, const JoinOptions& join) {
  const auto config = LoadConfig(options);
  if (!config.has_value()) return Fail(options, config.problems());
  if (join.text.empty() == join.file.empty()) {
    return Fail(options,
                Error{1103, "give the join string once: `join -` or --join-file FILE", ""});
  }
  if (!join.name.empty() && !wire::IsName(join.name)) {
    return Fail(options, Error{1102, "--name takes letters, digits, - and _, at most 64", ""});
  }
  const Result<json::object> joined = Join(options, join, *config);
  if (!joined.has_value()) return Fail(options, joined.error());
  std::string names;
  for (const json::value& population : joined->at("populations").as_array()) {
    names += (names.empty() ? "" : ", ") + std::string(population.as_string());
  }
  const std::string device(joined->at("device").as_string());
  const std::string endpoint(joined->at("endpoint").as_string());
  return Succeed(options,
                 {{"device", device},
                  {"endpoint", endpoint},
                  {"federation", joined->at("federation")},
                  {"populations", joined->at("populations")},
                  {"storage", config->storage_dir}},
                 "joined as device " + device.substr(0, 6) + " in " + names + " at " + endpoint +
                     "\n" + NextStep(options, *config));
}

}  // namespace skep::cli
