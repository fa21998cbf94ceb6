#include "client/agent/commands/join.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include <boost/json/array.hpp>

#include "client/agent/enrol.h"
#include "client/agent/local_data.h"
#include "client/agent/settings.h"
#include "shared/base/file.h"
#include "shared/base/try.h"
#include "shared/wire/text.h"

namespace skep::agent {
namespace {

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

Result<crypto::JoinString> ReadJoinString(const GlobalOptions& options, const JoinOptions& join) {
  std::string text = join.text;
  if (!join.file.empty()) {
    SKEP_ASSIGN(Bytes content, ReadFile(join.file, kLongestText, 1010));
    text = AsText(content);
    crypto::Wipe(content);
  } else if (text == "-") {
    SKEP_ASSIGN(text, ReadInput());
  } else {
    Tell(options,
         "note: other users can see a join string that is given as an argument; "
         "`join -` reads it from standard input\n");
  }
  Result<crypto::JoinString> parsed = crypto::ParseJoinString(text);
  crypto::Wipe({reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  return parsed;
}

Result<Identity> Join(const GlobalOptions& options, const JoinOptions& join,
                      const std::string& folder) {
  // All that can be wrong here is said before the network is touched.
  SKEP_ASSIGN(const crypto::JoinString parsed, ReadJoinString(options, join));
  SKEP_TRY(net::CheckReachable({parsed.host, parsed.port}));
  SKEP_ASSIGN(const Storage storage, Storage::Create(folder));
  Loop loop;
  SKEP_TRY(CheckClock(loop.Clock().wall));
  if (IsEnrolled(storage)) {
    SKEP_ASSIGN(const Identity identity, LoadIdentity(storage));
    return Error{4004, folder + " is enrolled already, as device " + identity.device.Hex(),
                 "give another folder with --storage; `skep-client forget` gives this one up"};
  }
  const EnrolSettings settings{
      .software = options.Software(), .name_hint = join.name, .limits = {}};
  return Enrol(storage, parsed, settings, loop);
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
  const Result<Identity> identity = Join(options, join, config->storage_dir);
  if (!identity.has_value()) return Fail(options, identity.error());
  boost::json::array populations;
  std::string names;
  for (const std::string& population : identity->populations) {
    populations.emplace_back(population);
    names += (names.empty() ? "" : ", ") + population;
  }
  const std::string device = identity->device.Hex();
  return Succeed(options,
                 {{"device", device},
                  {"endpoint", identity->endpoint},
                  {"federation", identity->federation.Hex()},
                  {"populations", std::move(populations)},
                  {"storage", config->storage_dir}},
                 "joined as device " + device.substr(0, 6) + " in " + names + " at " +
                     identity->endpoint + "\n" + NextStep(options, *config));
}

}  // namespace skep::agent
