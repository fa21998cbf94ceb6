#include "aggregator/server/commands/run_text.h"

#include <fmt/format.h>

#include "aggregator/server/commands/text.h"

namespace skep::aggregator {
namespace {

constexpr const char* kDot = " \u00b7 ";

bool IsState(const View& run, std::string_view state) {
  return run.Text("state") == state;
}

std::string Where(const View& run) {
  const std::string place = fmt::format("round {}/{}", run.Number("round"), run.Number("rounds"));
  // The attempt of a round to come means nothing once none comes.
  if (IsState(run, "finished") || IsState(run, "stopped")) return place;
  return fmt::format("{}, attempt {}{}", place, run.Number("attempt"),
                     run.Text("kind") == "train" ? "" : " (" + run.Text("kind") + ")");
}

// " (SKEP-7413)" where all have one number, else " (3 SKEP-7413, 1 SKEP-7401)".
std::string CodesText(const View& codes) {
  const auto items = codes.Items();
  std::string text;
  for (const View& one : items) {
    text += text.empty() ? " (" : ", ";
    if (items.size() > 1) text += fmt::format("{} ", one.Number("count"));
    text += fmt::format("SKEP-{}", one.Number("code"));
  }
  return text.empty() ? text : text + ")";
}

// Of an attempt that collects: what has come and what has not.
std::string CountsText(const View& run) {
  const View counts = run.At("counts");
  std::string text;
  const auto add = [&](const char* name, std::int64_t count, bool always) {
    if (count == 0 && !always) return;
    text += fmt::format("{}{} {}{}", text.empty() ? "" : kDot, name, count,
                        CodesText(run.At("codes").At(name)));
  };
  for (const char* name :
       {"invited", "declined", "started", "ok", "rejected", "failed", "dropped", "late"}) {
    const std::string_view word(name);
    add(name, counts.Number(name), word == "invited" || word == "started" || word == "ok");
  }
  const std::int64_t settled = counts.Number("ok") + counts.Number("rejected") +
                               counts.Number("failed") + counts.Number("dropped") +
                               counts.Number("late");
  if (!IsOver(run))
    add("at work", std::max<std::int64_t>(counts.Number("started") - settled, 0), false);
  return text;
}

// Of the attempt that ended last, while none is open: whoever did not contribute, and why.
std::string LastCodesText(const View& run) {
  std::string text;
  for (const char* name : {"declined", "rejected", "failed"}) {
    const View codes = run.At("codes").At(name);
    std::int64_t count = 0;
    for (const View& one : codes.Items()) count += one.Number("count");
    if (count == 0) continue;
    text += fmt::format("{}{} {}{}", text.empty() ? "  last attempt: " : kDot, name, count,
                        CodesText(codes));
  }
  return text.empty() ? text : text + "\n";
}

std::string MetricsText(const View& metrics, const char* form) {
  std::string text;
  for (const View& metric : metrics.Items()) {
    text += fmt::format(fmt::runtime(form), metric.Text("name"), metric.Real("value"));
  }
  return text;
}

}  // namespace

bool IsOver(const View& run) {
  return IsState(run, "stopped") || IsState(run, "finished") || IsState(run, "halted") ||
         (IsState(run, "paused") && run.Has("code"));
}

bool HasSucceeded(const View& run) {
  return IsState(run, "finished");
}

std::string PlaceLine(const View& run) {
  std::string text =
      Where(run) + "  " + (IsState(run, "running") ? run.Text("phase") : run.Text("state"));
  if (IsState(run, "running") && run.Text("phase") == "collecting") {
    text += fmt::format("  {}/{} reported, needs {}", run.At("counts").Number("ok"),
                        run.Number("reports_wanted"), run.Number("min_reports"));
  }
  if (run.Has("closes_in_ms")) text += "  closes in " + SpanText(run.Number("closes_in_ms"));
  return text;
}

std::string RunLine(const View& run) {
  return fmt::format("run {} ({})  {}", run.Text("name"), ShortId(run.Text("id")), PlaceLine(run));
}

std::string RunScreen(const View& run) {
  std::string text = RunLine(run) + "\n";
  if (run.Has("code") || run.Has("reason")) {
    text += "  ";
    if (run.Has("code")) text += fmt::format("SKEP-{} ", run.Number("code"));
    text += run.Text("reason") + "\n";
  }
  if (const std::string waiting = run.Text("waiting_for"); !waiting.empty() && !IsOver(run)) {
    text += fmt::format("  {}, since {}\n", waiting, SpanText(run.Number("waiting_ms")));
  }
  if (run.At("counts").Number("invited") == 0) text += LastCodesText(run);
  if (run.At("counts").Number("invited") > 0) text += "  " + CountsText(run) + "\n";
  if (const std::string metrics = MetricsText(run.At("metrics"), "  {} {:.4g}"); !metrics.empty()) {
    text += metrics + "\n";
  }
  text +=
      fmt::format("  population {}{}seed {}\n", run.Text("population"), kDot, run.Number("seed"));
  return text + "  model sha256 " + run.Text("model_sha256") + "\n";
}

std::string AttemptLine(const View& attempt, std::int64_t rounds) {
  std::string line = fmt::format("round={}/{} attempt={} ", attempt.Number("round"), rounds,
                                 attempt.Number("attempt"));
  if (attempt.Text("kind") != "train") line += "kind=" + attempt.Text("kind") + " ";
  line += "state=" + attempt.Text("state");
  line += MetricsText(attempt.At("metrics"), " {}={:.4g}");
  if (attempt.Has("counts")) {
    const View counts = attempt.At("counts");
    for (const char* name : {"ok", "rejected", "failed", "dropped", "late"}) {
      line += fmt::format(" {}={}", name, counts.Number(name));
    }
  }
  for (const char* name : {"declined", "rejected", "failed"}) {
    std::string codes;
    for (const View& one : attempt.At("codes").At(name).Items()) {
      codes +=
          fmt::format("{}{}:{}", codes.empty() ? "" : ",", one.Number("code"), one.Number("count"));
    }
    if (!codes.empty()) line += fmt::format(" {}_codes={}", name, codes);
  }
  if (attempt.Has("reason")) line += fmt::format(" reason=\"{}\"", attempt.Text("reason"));
  return line + "\n";
}

std::string AttemptLines(const View& run, std::size_t count) {
  const auto attempts = run.At("attempts").Items();
  std::string text;
  for (std::size_t i = attempts.size() - std::min(count, attempts.size()); i < attempts.size();
       ++i) {
    text += AttemptLine(attempts[i], run.Number("rounds"));
  }
  return text;
}

std::string EndText(const View& run) {
  std::int64_t published = 0;
  for (const View& attempt : run.At("attempts").Items()) {
    const bool counts = attempt.Text("kind") == "train" && attempt.Text("state") == "published";
    if (counts) published = attempt.Number("round");
  }
  std::string text = fmt::format("run {} {} after {} round{}", run.Text("name"), run.Text("state"),
                                 published, published == 1 ? "" : "s");
  // A run that came to its last round gives that as its reason.
  const std::string reason = run.Text("reason");
  if (!reason.empty() && reason.rfind("finished after", 0) != 0) text += ": " + reason;
  return text + "\n  model sha256 " + run.Text("model_sha256") + "\n";
}

}  // namespace skep::aggregator
