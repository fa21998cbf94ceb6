#include "simulator/progress_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "simulator/figures.h"
#include "simulator/names.h"

namespace skep::simulator {
namespace {

constexpr std::size_t kNarrow = 60;
constexpr std::size_t kShortestBar = 10;
constexpr std::size_t kLongestBar = 46;
constexpr std::size_t kSparkCells = 12;
constexpr std::size_t kRoundsOfMean = 20;
constexpr std::uint32_t kFirstEstimate = 3;
constexpr double kStill = 2;  // seconds without movement until the reason is shown
constexpr const char* kDot = " \xC2\xB7 ";

std::optional<double> MetricOf(const Metrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? std::nullopt : found->second;
}

std::string Padded(std::string text, std::size_t columns) {
  const std::size_t width = Columns(text);
  if (width < columns) text.append(columns - width, ' ');
  return text;
}

std::string OutcomeText(const aggregator::AttemptCounts& counts) {
  return fmt::format("{} ok{}{} rejected{}{} failed{}{} dropped{}{} late", counts.ok, kDot,
                     counts.rejected, kDot, counts.failed, kDot, counts.dropped, kDot, counts.late);
}

}  // namespace

std::string Sparkline(const std::vector<double>& values, std::size_t cells) {
  if (values.empty()) return "";
  const std::size_t count = std::min(cells, values.size());
  std::vector<double> means;
  for (std::size_t cell = 0; cell < count; ++cell) {
    const std::size_t from = cell * values.size() / count;
    const std::size_t to = (cell + 1) * values.size() / count;
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += values[i];
    means.push_back(sum / static_cast<double>(to - from));
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  const double range = *high - *low;
  std::string text;
  for (const double mean : means) {
    const double share = range > 0 ? (mean - *low) / range : 0.5;
    // U+2581 to U+2588: one eighth to a full block.
    text += "\xE2\x96";
    text += static_cast<char>(0x81 + std::min(7L, std::lround(share * 7)));
  }
  return text;
}

void ProgressText::On(const RunStart& start) {
  start_ = start;
  is_falling_better_ = !start.is_target_maximised;
  if (start.resumed_from) rounds_ = *start.resumed_from;
}

void ProgressText::On(const RoundRecord& round, SteadyTime now) {
  moved_ = now;
  record_at_ = now;
  waiting_for_.clear();
  counts_ = round.counts;
  totals_.ok += round.counts.ok;
  totals_.rejected += round.counts.rejected;
  totals_.failed += round.counts.failed;
  totals_.dropped += round.counts.dropped;
  totals_.late += round.counts.late;
  bytes_up_ += round.bytes_up;
  bytes_down_ += round.bytes_down;
  if (!round.published) return;
  durations_.push_back(round.time_s - time_s_);
  if (durations_.size() > kRoundsOfMean) durations_.pop_front();
  time_s_ = round.time_s;
  rounds_ = round.round;
  if (const auto loss = MetricOf(round.metrics, "train/loss")) losses_.push_back(*loss);
  if (const auto value = MetricOf(round.metrics, start_.target_metric)) {
    targets_.push_back(*value);
    if (!best_ || (is_falling_better_ ? *value < *best_ : *value > *best_)) {
      best_ = value;
      best_round_ = round.round;
    }
  }
}

void ProgressText::On(const Activity& activity, SteadyTime now) {
  if (moved_ == SteadyTime{}) moved_ = now;
  if (activity.waiting_for == waiting_for_) return;
  waiting_for_ = activity.waiting_for;
  moved_ = now;
}

std::string ProgressText::HeadLine() const {
  const std::string per_round =
      fmt::format("{} clients, {} per round", start_.clients.size(), start_.clients_per_round);
  return fmt::format("{}   {}{}{}{}{}{}{}, {} parameters{}seed {}{}{}{}{} {}",
                     Painted(start_.name, Paint::kBold, style_), start_.algorithm, kDot, per_round,
                     kDot, start_.partition, kDot, start_.architecture,
                     Grouped(start_.model_parameters), kDot, start_.seed, kDot,
                     Plural(start_.jobs, "job"), kDot, start_.device, start_.isa);
}

std::string ProgressText::Bar(std::size_t width) const {
  const double share =
      start_.rounds == 0 ? 0 : static_cast<double>(rounds_) / static_cast<double>(start_.rounds);
  const auto halves = static_cast<std::size_t>(std::floor(share * static_cast<double>(2 * width)));
  std::string done;
  for (std::size_t i = 0; i < halves / 2; ++i) done += "\xE2\x94\x81";
  if (halves % 2 == 1) done += "\xE2\x95\xB8";
  std::string rest;
  for (std::size_t i = halves / 2 + halves % 2; i < width; ++i)
    rest += style_.is_utf8 && style_.has_color ? "\xE2\x94\x81" : "\xE2\x94\x80";
  return Painted(done, Paint::kGreen, style_) + Painted(rest, Paint::kDim, style_);
}

std::string ProgressText::RoundLine(std::size_t width, SteadyTime now) const {
  const std::string head = fmt::format("round {}/{}  ", rounds_, start_.rounds);
  const double share =
      start_.rounds == 0 ? 0 : 100.0 * static_cast<double>(rounds_) / start_.rounds;
  const double elapsed = record_at_ == SteadyTime{} ? 0 : time_s_ + Seconds(now - record_at_);
  std::string tail = fmt::format("  {:.0f} %   {}", std::floor(share), DurationText(elapsed));
  if (rounds_ >= kFirstEstimate && !durations_.empty()) {
    double sum = 0;
    for (const double duration : durations_) sum += duration;
    const double mean = sum / static_cast<double>(durations_.size());
    tail += fmt::format("   {} left", DurationText(mean * (start_.rounds - rounds_)));
    if (mean > 0) tail += fmt::format("   {} rounds/s", Significant(1 / mean, 2));
  }
  const std::size_t used = Columns(head) + Columns(tail);
  const std::size_t room = width > used ? width - used : 0;
  if (room < kShortestBar) return head + tail.substr(2);
  return head + Bar(std::min(room, kLongestBar)) + tail;
}

std::string ProgressText::MetricLine() const {
  const auto part = [&](const std::string& name, const std::vector<double>& values) {
    std::string text =
        name + "  " +
        (values.empty() ? std::string(kMissing) : fmt::format("{:.3f}", values.back()));
    if (style_.is_utf8) text += "  " + Padded(Sparkline(values, kSparkCells), kSparkCells);
    return text;
  };
  std::string line = "  " + part("train loss", losses_) + "      " +
                     part(std::string(ShortMetricName(start_.target_metric)), targets_);
  if (best_) line += fmt::format("   best {:.3f} @{}", *best_, best_round_);
  return line;
}

std::string ProgressText::LastLine(SteadyTime now) const {
  const double still = moved_ == SteadyTime{} ? 0 : Seconds(now - moved_);
  if (!waiting_for_.empty() && still >= kStill)
    return fmt::format("  waiting: {} for {:.0f} s", waiting_for_, std::floor(still));
  return fmt::format("  clients     {}      up {}{}down {}", OutcomeText(counts_),
                     ByteText(bytes_up_), kDot, ByteText(bytes_down_));
}

std::vector<std::string> ProgressText::Display(std::size_t width, SteadyTime now) const {
  const auto fit = [&](const std::string& line) {
    return FitColumns(Shown(line, style_), width > 0 ? width - 1 : 0);
  };
  const std::string round = fit(RoundLine(width > 0 ? width - 1 : 0, now));
  if (width < kNarrow) return {round};
  return {fit(HeadLine()), round, fit(MetricLine()), fit(LastLine(now))};
}

std::string ProgressText::PlainLine(const RoundRecord& round) const {
  const auto& counts = round.counts;
  std::string line = fmt::format("round={}/{} attempt={} state={}", round.round, start_.rounds,
                                 round.attempt, round.published ? "published" : "abandoned");
  const auto loss = MetricOf(round.metrics, "train/loss");
  if (loss) line += fmt::format(" loss={:.3f}", *loss);
  if (const auto value = MetricOf(round.metrics, start_.target_metric))
    line += fmt::format(" {}={:.3f}", ShortMetricName(start_.target_metric), *value);
  line += fmt::format(" ok={} rejected={} failed={} dropped={} late={} up={} down={} t={:.3f}",
                      counts.ok, counts.rejected, counts.failed, counts.dropped, counts.late,
                      round.bytes_up, round.bytes_down, round.time_s);
  if (round.virtual_s) line += fmt::format(" virtual={:.3f}", *round.virtual_s);
  const auto clients = round.metric_clients.find("train/loss");
  if (loss && clients != round.metric_clients.end() && clients->second != counts.ok)
    line += fmt::format(" loss_clients={}", clients->second);
  if (!round.published) line += fmt::format(" code=SKEP-{}", round.code);
  return line;
}

std::string ProgressText::EndPhrase(const RunEnd& end) const {
  const std::string after =
      fmt::format("after {} in {}", Plural(end.rounds, "round"), DurationText(end.time_s));
  switch (end.state) {
    case EndState::kFinished:
      if (end.rounds_to_target && end.rounds < start_.rounds) return "target reached " + after;
      if (end.rounds < start_.rounds && !end.text.empty()) return end.text + " " + after;
      return fmt::format("{} in {}", Plural(end.rounds, "round"), DurationText(end.time_s));
    case EndState::kFailed:
      return fmt::format("{}{}", after,
                         end.code == 0 ? "" : fmt::format(" (SKEP-{}): {}", end.code, end.text));
    default:
      return end.text.empty() ? after : fmt::format("{} ({})", after, end.text);
  }
}

std::string ProgressText::MetricSummary(const RunEnd& end) const {
  const std::string name(ShortMetricName(start_.target_metric));
  std::string line;
  const auto add = [&](const std::string& part) { line += (line.empty() ? "" : kDot) + part; };
  if (const auto last = MetricOf(end.final_metrics, start_.target_metric)) {
    std::string part = fmt::format("{} {:.3f}", name, *last);
    if (end.best) part += fmt::format(" (best {:.3f} at round {})", *end.best, end.best_round);
    add(part);
  } else if (end.best) {
    add(fmt::format("best {} {:.3f} at round {}", name, *end.best, end.best_round));
  }
  if (start_.target) {
    add(end.rounds_to_target
            ? fmt::format("{:.2f} reached at round {:.1f}", *start_.target, *end.rounds_to_target)
            : fmt::format("{:.2f} not reached", *start_.target));
  }
  const auto p10 = MetricOf(end.final_metrics, "client/accuracy_p10");
  const auto worst = MetricOf(end.final_metrics, "client/accuracy_min");
  if (p10 && worst)
    add(fmt::format("{} clients: p10 {:.2f}, worst {:.2f}", start_.clients.size(), *p10, *worst));
  return line;
}

std::string ProgressText::Summary(const RunEnd& end, const std::string& folder, bool has_report,
                                  std::size_t width) const {
  constexpr std::size_t kDetail = 4;   // indent of what continues a line of figures
  constexpr std::size_t kCommand = 9;  // of what continues a line that begins with its name
  const Paint paint = end.state == EndState::kFinished ? Paint::kGreen
                      : end.state == EndState::kFailed ? Paint::kRed
                                                       : Paint::kYellow;
  std::string text;
  // In plain ASCII the three dots of an ellipsis take two columns more.
  const std::size_t room = style_.is_utf8 || width <= 2 ? width : width - 2;
  const auto add = [&](const std::string& line, std::size_t indent) {
    text += WrapColumns(line, room, indent) + "\n";
  };
  text += fmt::format("{} {}: {}\n", Painted(start_.name, Paint::kBold, style_),
                      Painted(EndStateName(end.state), paint, style_), EndPhrase(end));
  if (const std::string metrics = MetricSummary(end); !metrics.empty())
    add("  " + metrics, kDetail);
  add(fmt::format("  updates {}{}uploaded {}", OutcomeText(totals_), kDot, ByteText(bytes_up_)),
      kDetail);
  if (end.rounds > 0)
    add(fmt::format("  result sha256 {}\xE2\x80\xA6   ({})", end.result_sha256.Hex().substr(0, 12),
                    end.reproducible ? "same configuration, same bytes: any --jobs"
                                     : "ended by wall time: another run need not repeat it"),
        kDetail);
  if (folder.empty()) return Shown(text, style_);
  if (has_report) add(fmt::format("report   {}/report.html", folder), kCommand);
  add(fmt::format("compare  skep-simulator report {0} DIR\xE2\x80\xA6      sqlite3 -box "
                  "{0}/run.db 'select * from v_rounds'",
                  folder),
      kCommand);
  if (end.state == EndState::kInterrupted)
    add(fmt::format("resume   skep-simulator run --resume {}", folder), kCommand);
  return Shown(text, style_);
}

}  // namespace skep::simulator
