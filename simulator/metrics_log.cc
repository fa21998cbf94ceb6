#include "simulator/metrics_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/base/try.h"
#include "simulator/json.h"
#include "simulator/names.h"

namespace skep::simulator {
namespace {

constexpr std::uint32_t kMostClientLines = 1000;  // a round; all are in run.db

std::string MetricsJson(const Metrics& metrics) {
  JsonObject object;
  for (const auto& [name, value] : metrics) object.Add(name, value);
  return object.Text();
}

std::string CountsJson(const aggregator::AttemptCounts& counts) {
  JsonObject object;
  object.Add("invited", counts.invited).Add("started", counts.started).Add("ok", counts.ok);
  object.Add("rejected", counts.rejected).Add("failed", counts.failed);
  object.Add("dropped", counts.dropped).Add("late", counts.late);
  return object.Text();
}

Error CannotWrite(const std::string& path, int reason) {
  return Error{4001, fmt::format("cannot write {}: {}", path, SystemReason(reason)),
               "look at the free space and the permissions of its folder"};
}

}  // namespace

void MetricsLines::On(const RunStart& start) {
  best_metric_ = start.target_metric;
  JsonObject line;
  line.Add("event", "start").Add("schema", 1).Add("run", start.run_id).Add("name", start.name);
  line.Add("time", UtcText(start.time)).Add("version", start.version).Add("seed", start.seed);
  line.Add("config_sha256", start.config_sha256.Hex());
  line.Add("data_sha256", start.data_sha256.Hex());
  line.Add("algorithm", start.algorithm).Add("rounds", start.rounds);
  line.Add("clients", start.clients.size()).Add("clients_per_round", start.clients_per_round);
  line.Add("device", start.device).Add("isa", start.isa).Add("jobs", start.jobs);
  line.Add("model_parameters", start.model_parameters);
  line.Add("memory_plan_bytes", start.memory_plan_bytes);
  line.Add("resumed_from", start.resumed_from).Add("folder", start.folder);
  sink_(line.Text(), true);
}

void MetricsLines::On(const ClientRecord& client) {
  if (client.outcome == aggregator::Outcome::kOk) return;
  if (client.round != client_round_) client_lines_ = 0;
  client_round_ = client.round;
  if (++client_lines_ > kMostClientLines) return;
  JsonObject line;
  line.Add("event", "client").Add("round", client.round).Add("client", client.client);
  line.Add("attempt", client.attempt).Add("outcome", OutcomeName(client.outcome));
  line.Add("code", client.code).Add("text", client.detail);
  if (!client.name.empty()) line.Add("name", client.name);
  sink_(line.Text(), false);
}

void MetricsLines::On(const RoundRecord& round) {
  JsonObject line;
  line.Add("event", "round").Add("round", round.round).Add("attempt", round.attempt);
  line.Add("state", round.published ? "published" : "abandoned");
  if (!round.reason.empty()) line.Add("reason", round.reason);
  line.Raw("time_s", JsonSeconds(round.time_s));
  line.Add("virtual_s", round.virtual_s);  // exact: a resumed run goes on at that instant
  line.Raw("clients", CountsJson(round.counts)).Raw("metrics", MetricsJson(round.metrics));
  JsonObject counted;
  for (const auto& [name, clients] : round.metric_clients) counted.Add(name, clients);
  line.Raw("metric_clients", counted.Text());
  line.Add("bytes_up", round.bytes_up).Add("bytes_down", round.bytes_down);
  JsonObject phases;
  phases.Raw("select", JsonSeconds(round.phases.select));
  phases.Raw("train", JsonSeconds(round.phases.train));
  phases.Raw("aggregate", JsonSeconds(round.phases.aggregate));
  phases.Raw("evaluate", JsonSeconds(round.phases.evaluate));
  line.Raw("phases_s", phases.Text()).Raw("privacy", "null");
  line.Add("model_sha256", round.model.Hex());
  sink_(line.Text(), true);
}

void MetricsLines::On(const NoteRecord& note) {
  JsonObject line;
  line.Add("event", "note").Add("round", note.round).Add("attempt", note.attempt);
  line.Add("level", NoteLevelName(note.level));
  if (note.code != 0) {
    line.Add("code", note.code);
  } else {
    line.Raw("code", "null");
  }
  line.Add("text", note.text);
  sink_(line.Text(), false);
}

void MetricsLines::On(const CheckpointRecord& checkpoint) {
  JsonObject line;
  line.Add("event", "checkpoint").Add("round", checkpoint.round).Add("path", checkpoint.path);
  line.Add("file_sha256", checkpoint.file_sha256.Hex());
  line.Add("model_sha256", checkpoint.model.Hex());
  sink_(line.Text(), true);
}

void MetricsLines::On(const RunEnd& end) {
  JsonObject line;
  line.Add("event", "end").Add("state", EndStateName(end.state)).Add("exit_code", end.exit_code);
  if (end.code != 0) {
    line.Add("code", end.code);
  } else {
    line.Raw("code", "null");
  }
  line.Add("text", end.text).Add("rounds", end.rounds).Raw("time_s", JsonSeconds(end.time_s));
  line.Raw("final", MetricsJson(end.final_metrics));
  if (end.best) {
    JsonObject best;
    best.Add("name", best_metric_).Add("value", *end.best).Add("round", end.best_round);
    line.Raw("best", best.Text());
  } else {
    line.Raw("best", "null");
  }
  line.Add("rounds_to_target", end.rounds_to_target);
  line.Add("model_sha256", end.model.Hex()).Add("result_sha256", end.result_sha256.Hex());
  line.Add("reproducible", end.reproducible);
  sink_(line.Text(), true);
}

Result<std::unique_ptr<MetricsLog>> MetricsLog::Create(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0644);
  if (file < 0) return CannotWrite(path, errno);
  (void)::flock(file, LOCK_EX | LOCK_NB);  // nobody else can have seen the file yet
  return std::unique_ptr<MetricsLog>(new MetricsLog(path, file));
}

Result<std::unique_ptr<MetricsLog>> MetricsLog::Resume(const std::string& path,
                                                       std::uint64_t bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_APPEND);
  if (file < 0) return CannotWrite(path, errno);
  std::unique_ptr<MetricsLog> log(new MetricsLog(path, file));
  if (::flock(file, LOCK_EX | LOCK_NB) != 0)
    return Error{4001, fmt::format("cannot resume: another process is writing {}", path),
                 "wait for it, or stop it"};
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) return CannotWrite(path, errno);
  return log;
}

bool MetricsLog::IsBeingWritten(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool is_free = ::flock(file, LOCK_SH | LOCK_NB) == 0;
  ::close(file);
  return !is_free;
}

MetricsLog::MetricsLog(std::string path, int file)
    : path_(std::move(path)),
      file_(file),
      lines_([this](const std::string& line, bool is_flush) { Write(line, is_flush); }) {}

MetricsLog::~MetricsLog() {
  Flush();
  ::close(file_);
}

void MetricsLog::Write(const std::string& line, bool is_flush_due) {
  buffer_ += line;
  buffer_ += '\n';
  if (is_flush_due) Flush();
}

void MetricsLog::Flush() {
  std::string_view rest = buffer_;
  while (!rest.empty() && status_.has_value()) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      status_ = CannotWrite(path_, errno);
    }
  }
  buffer_.clear();
}

}  // namespace skep::simulator
