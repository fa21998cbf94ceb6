// metrics.jsonl: one JSON object per line, for programs that follow or compare runs; `--json`
// prints the same lines.
//
// MetricsLines turns records into lines and hands each on; MetricsLog keeps them in the run
// directory, flushed per round, and holds the directory's lock. Reading is for resume and knows
// only what resume needs. A write that fails is remembered (status) and ends the run at the next
// checkpoint. One thread. Source: docs/formats.md (metrics.jsonl).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulator/records.h"
#include "simulator/round_log.h"

namespace skep::simulator {

class MetricsLines final : public Recorder {
 public:
  // `is_flush_due`: after this line the file should be complete.
  using Sink = std::function<void(const std::string& line, bool is_flush_due)>;
  explicit MetricsLines(Sink sink) : sink_(std::move(sink)) {}

  void On(const RunStart& start) override;
  void On(const ClientRecord& client) override;
  void On(const RoundRecord& round) override;
  void On(const NoteRecord& note) override;
  void On(const CheckpointRecord& checkpoint) override;
  void On(const RunEnd& end) override;
  using Recorder::On;

 private:
  Sink sink_;
  std::string best_metric_;
  std::uint32_t client_round_ = 0;
  std::uint32_t client_lines_ = 0;  // of that round: at most 1,000
};

class MetricsLog final : public Recorder {
 public:
  // A new file. SKEP-4001: it exists, or cannot be written.
  [[nodiscard]] static Result<std::unique_ptr<MetricsLog>> Create(const std::string& path);
  // Goes on with `path`, cut to its first `bytes`. SKEP-4001: another process is writing it.
  [[nodiscard]] static Result<std::unique_ptr<MetricsLog>> Resume(const std::string& path,
                                                                  std::uint64_t bytes);
  // Whether a living process has the file open for writing.
  [[nodiscard]] static bool IsBeingWritten(const std::string& path);
  ~MetricsLog() override;

  void On(const RunStart& start) override { lines_.On(start); }
  void On(const ClientRecord& client) override { lines_.On(client); }
  void On(const RoundRecord& round) override { lines_.On(round); }
  void On(const NoteRecord& note) override { lines_.On(note); }
  void On(const CheckpointRecord& checkpoint) override { lines_.On(checkpoint); }
  void On(const RunEnd& end) override { lines_.On(end); }
  using Recorder::On;

  // SKEP-4001 once a write failed.
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  MetricsLog(std::string path, int file);
  void Write(const std::string& line, bool is_flush_due);
  void Flush();

  std::string path_;
  int file_;
  std::string buffer_;
  Status status_ = Ok();
  MetricsLines lines_;
};

// What a file says of a run, up to its last complete line.
struct MetricsHistory {
  std::string run_id;
  std::string isa;
  std::string device;
  std::string folder;
  std::string config_sha256;
  struct Published {
    RoundRecord record;           // counts, metrics, bytes, phases, model
    std::uint64_t end_bytes = 0;  // size of the file up to the last line that belongs to it
  };
  std::vector<Published> published;  // rounds 1, 2, ... without a gap
  std::vector<RoundRecord> abandoned;
  std::uint64_t start_bytes = 0;  // size up to the first start line
  std::string end_state;          // of the last line, if that is an end; else empty
  std::string end_line;           // that line as it stands there
};
// What else the file tells: the clients that were not ok (at most 1,000 a round) and the notes.
struct LoggedRecords {
  std::vector<ClientRecord> clients;
  std::vector<NoteRecord> notes;
};
[[nodiscard]] Result<LoggedRecords> ReadLoggedRecords(const std::string& path);

// SKEP-4001: unreadable, or a line (named) that is not of this format.
[[nodiscard]] Result<MetricsHistory> ReadMetrics(const std::string& path);

}  // namespace skep::simulator
