#include "simulator/report.h"

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/base/try.h"
#include "simulator/figures.h"
#include "simulator/html.h"
#include "simulator/report_facts.h"
#include "simulator/run_db.h"

namespace skep::simulator {
namespace {

constexpr const char* kDot = " \xC2\xB7 ";
constexpr std::size_t kShownDigits = 12;

std::string HashText(const std::string& name, const std::string& hash) {
  if (hash.empty()) return "";
  return fmt::format("{}{} <span title=\"{}\">{}</span>", kDot, name, Escape(hash),
                     Escape(hash.substr(0, kShownDigits)));
}

// What it trained on; why, where the pointer rests.
std::string DeviceOf(const RunHistory& run) {
  for (const NoteRecord& note : run.notes) {
    if (note.text.starts_with(kDeviceNote))
      return fmt::format("<span title=\"{}\">{}</span>", Escape(note.text), Escape(run.device));
  }
  return Escape(run.device);
}

std::string Header(const RunHistory& run, const ReportFacts& facts) {
  std::string html = fmt::format("<h1>{} <span class=\"state {}\">{}</span></h1>\n",
                                 Escape(run.name), Escape(run.state), Escape(run.state));
  html += fmt::format("<p class=\"meta\">{} of {} rounds", Grouped(facts.rounds),
                      Grouped(run.rounds_planned));
  if (run.wall_s) html += kDot + DurationText(*run.wall_s);
  html += fmt::format("{}seed {}{}{} {}, {}{}skep {}", kDot, run.seed, kDot, DeviceOf(run),
                      Escape(run.isa), Plural(run.jobs, "job"), kDot, Escape(run.version));
  html += HashText("configuration", run.config_sha256) + HashText("result", run.result_sha256);
  html += "</p>\n";
  if (!run.message.empty() && run.state != "finished") {
    const std::string code = run.code && *run.code != 0 ? fmt::format("SKEP-{}: ", *run.code) : "";
    html += "<p>" + Escape(code + run.message) + "</p>\n";
  }
  return html;
}

std::optional<double> LastOf(const RunHistory& run, const std::string& metric) {
  const std::vector<Point> points = SeriesOf(run, metric);
  return points.empty() ? std::nullopt : std::optional(points.back().y);
}

std::vector<Card> CardsOf(const RunHistory& run, const ReportFacts& facts) {
  std::vector<Card> cards;
  if (facts.last)
    cards.push_back(
        {.label = "Test " + facts.metric_name,
         .figure = Significant(*facts.last),
         .detail = fmt::format("best {} at round {}", Significant(*facts.best), facts.best_round)});
  if (facts.target)
    cards.push_back(
        {.label = fmt::format("Rounds to {} {}", facts.metric_name, Significant(*facts.target, 2)),
         .figure =
             facts.rounds_to_target ? fmt::format("{:.1f}", *facts.rounds_to_target) : kMissing,
         .detail = facts.rounds_to_target ? "interpolated between evaluations" : "not reached"});
  const auto& totals = facts.totals;
  cards.push_back(
      {.label = "Updates",
       .figure = Grouped(totals.ok) + " ok",
       .detail = fmt::format("{} rejected{}{} failed{}{} dropped{}{} late", totals.rejected, kDot,
                             totals.failed, kDot, totals.dropped, kDot, totals.late)});
  cards.push_back(
      {.label = "Uploaded",
       .figure = ByteText(facts.bytes_up),
       .detail = totals.ok == 0 ? kMissing : ByteText(facts.bytes_up / totals.ok) + " per update"});
  const auto p10 = LastOf(run, "client/accuracy_p10");
  const auto p90 = LastOf(run, "client/accuracy_p90");
  const auto worst = LastOf(run, "client/accuracy_min");
  if (p10 && p90 && worst)
    cards.push_back({.label = "Clients, p10 to p90",
                     .figure = fmt::format("{:.2f} \xE2\x80\x93 {:.2f}", *p10, *p90),
                     .detail = fmt::format("worst {:.2f}", *worst)});
  return cards;
}

}  // namespace

std::string RenderReport(const RunHistory& run) {
  const ReportFacts facts = FactsOf(run);
  std::string body = Cards(CardsOf(run, facts));
  body += MetricSection(run, facts);
  body += LabelSection(run);
  body += "<div class=\"pair\">\n" + ClientSection(run) + TimeSection(run) + ByteSection(run) +
          ParticipationSection(run) + NormSection(run) + "</div>\n";
  body += SettingSection(run);
  body += NoteSection(run);
  body += SectionOf("Run it again", "<pre>" + Escape(run.command) + "</pre>\n");
  return Page(run.name, Header(run, facts), body);
}

Status WriteReport(const std::vector<std::string>& folders, const std::string& output,
                   const std::string& baseline) {
  std::vector<ComparedRun> runs;
  std::size_t base = 0;
  for (const std::string& folder : folders) {
    SKEP_ASSIGN(RunHistory run, ReadRunDb(folder + "/run.db"));
    if (folder == baseline) base = runs.size();
    runs.push_back({.folder = folder, .run = std::move(run)});
  }
  const std::string html =
      runs.size() == 1 ? RenderReport(runs.front().run) : RenderComparison(runs, base);
  return WriteFileAtomically(output, AsBytes(html));
}

}  // namespace skep::simulator
