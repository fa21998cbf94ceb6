#include "simulator/progress.h"

#include <unistd.h>

#include <fmt/format.h>

#include "shared/config/utf8.h"

namespace skep::simulator {
namespace {

constexpr Milliseconds kLeastInterval{100};

void Put(std::FILE* file, const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), file);
  (void)std::fflush(file);
}

}  // namespace

Progress::Progress(Options options)
    : options_(options),
      text_(options.error_style),
      summary_(options.output_style),
      json_([this](const std::string& line, bool) {
        if (options_.mode == ProgressMode::kJson) Put(options_.output, line + "\n");
      }) {}

Progress::~Progress() {
  Erase();
}

void Progress::Restore(const std::vector<RoundRecord>& rounds) {
  for (const RoundRecord& round : rounds) {
    text_.On(round, ReadClock().steady);
    summary_.On(round, ReadClock().steady);
  }
}

void Progress::On(const RunStart& start) {
  json_.On(start);
  text_.On(start);
  summary_.On(start);
  failures_.Start(start);
  Redraw(true);
}

void Progress::On(const ClientRecord& client) {
  json_.On(client);
  if (const std::string line = failures_.On(client); !line.empty()) Say(line);
  Redraw(false);
}

void Progress::On(const RoundRecord& round) {
  json_.On(round);
  text_.On(round, ReadClock().steady);
  summary_.On(round, ReadClock().steady);
  for (const std::string& line : failures_.On(round)) Say(line);
  if (options_.mode == ProgressMode::kLines) Say(text_.PlainLine(round));
  Redraw(false);
}

void Progress::On(const NoteRecord& note) {
  json_.On(note);
  const std::string text = config::Printable(note.text);
  switch (note.level) {
    case NoteLevel::kInfo:
      Say("note: " + text);
      break;
    case NoteLevel::kWarning:
      Say(note.code == 0 ? "warning: " + text
                         : fmt::format("warning[SKEP-{}]: {}", note.code, text));
      break;
    case NoteLevel::kError:
      Say(fmt::format("error[SKEP-{}]: {}", note.code, text));
      break;
  }
}

void Progress::On(const CheckpointRecord& checkpoint) {
  json_.On(checkpoint);
}

void Progress::On(const RunEnd& end) {
  json_.On(end);
}

void Progress::On(const Activity& activity) {
  text_.On(activity, ReadClock().steady);
  Redraw(false);
}

void Progress::Say(const std::string& line) {
  if (options_.mode == ProgressMode::kQuiet) return;
  Erase();
  Put(options_.error, Shown(line, options_.error_style) + "\n");
  Redraw(true);
}

void Progress::Redraw(bool is_forced) {
  if (options_.mode != ProgressMode::kDisplay) return;
  const SteadyTime now = ReadClock().steady;
  if (!is_forced && now - redrawn_ < kLeastInterval) return;
  redrawn_ = now;
  const std::size_t width = options_.width > 0 ? options_.width : TerminalWidth(STDERR_FILENO);
  // Written over the old lines rather than erased first: one write, no flicker.
  std::string text;
  if (drawn_ > 0) text = fmt::format("\x1b[{}A", drawn_);
  const std::vector<std::string> lines = text_.Display(width, now);
  for (const std::string& line : lines) text += "\r\x1b[2K" + line + "\n";
  for (std::size_t i = lines.size(); i < drawn_; ++i) text += "\r\x1b[2K\n";
  if (drawn_ > lines.size()) text += fmt::format("\x1b[{}A", drawn_ - lines.size());
  drawn_ = lines.size();
  Put(options_.error, text);
}

void Progress::Erase() {
  if (drawn_ == 0) return;
  std::string text = fmt::format("\x1b[{}A", drawn_);
  for (std::size_t i = 0; i < drawn_; ++i) text += "\r\x1b[2K\n";
  text += fmt::format("\x1b[{}A", drawn_);
  drawn_ = 0;
  Put(options_.error, text);
}

void Progress::Finish(const RunEnd& end, const std::string& folder, bool has_report) {
  Erase();
  if (options_.mode == ProgressMode::kJson || options_.mode == ProgressMode::kQuiet) return;
  std::size_t width = options_.width;
  // A file or a pipe has no width.
  if (width == 0 && IsTerminal(STDOUT_FILENO)) width = TerminalWidth(STDOUT_FILENO);
  Put(options_.output, summary_.Summary(end, folder, has_report, width));
}

}  // namespace skep::simulator
