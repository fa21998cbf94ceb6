// The sections of a run's report.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "shared/config/schema.h"
#include "simulator/figures.h"
#include "simulator/html.h"
#include "simulator/names.h"
#include "simulator/report_facts.h"

namespace skep::simulator {
namespace {

constexpr std::size_t kMostBars = 60;
constexpr std::size_t kBins = 20;
constexpr std::array kOutcomes{"ok", "rejected", "failed", "dropped", "late"};

std::string Figure(const std::string& svg, const std::string& numbers) {
  return "<figure>\n" + svg + "</figure>\n" + Folded("Numbers", numbers);
}
std::string Half(const std::string& svg, const std::string& numbers) {
  return "<div>\n" + Figure(svg, numbers) + "</div>\n";
}
std::string Pair(const std::string& content) {
  return "<div class=\"pair\">\n" + content + "</div>\n";
}

std::string RoundTable(const std::string& caption, const std::vector<Line>& lines) {
  std::vector<TableColumn> columns{{.title = "round"}};
  std::map<double, std::vector<std::string>> rows;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    columns.push_back({.title = lines[i].name});
    for (const Point& point : lines[i].points) {
      auto& row = rows[point.x];
      row.resize(lines.size(), kMissing);
      row[i] = Significant(point.y);
    }
  }
  std::vector<std::vector<std::string>> table;
  for (auto& [round, values] : rows) {
    std::vector<std::string> row{fmt::format("{:.0f}", round)};
    row.insert(row.end(), values.begin(), values.end());
    table.push_back(std::move(row));
  }
  return Table(caption, columns, table);
}

// "accuracy rises from 0.10 to 0.93 over 40 rounds".
std::string Movement(const std::string& name, const std::vector<Point>& points) {
  if (points.empty()) return name + " was not measured";
  const double first = points.front().y;
  const double last = points.back().y;
  const char* const verb = last > first ? "rises" : last < first ? "falls" : "stays";
  if (last == first) return fmt::format("{} {} at {}", name, verb, Significant(last));
  return fmt::format("{} {} from {} to {} between rounds {:.0f} and {:.0f}", name, verb,
                     Significant(first), Significant(last), points.front().x, points.back().x);
}

// Attempts in at most 60 neighbouring groups, so that long runs stay readable.
struct Groups {
  std::vector<std::vector<const RoundRecord*>> members;
  std::vector<std::string> names;
  std::vector<std::pair<double, std::string>> ticks;
};

Groups GroupRounds(const std::vector<RoundRecord>& rounds) {
  Groups groups;
  const std::size_t count = std::min(kMostBars, rounds.size());
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t from = k * rounds.size() / count;
    const std::size_t to = (k + 1) * rounds.size() / count;
    std::vector<const RoundRecord*> members;
    for (std::size_t i = from; i < to; ++i) members.push_back(&rounds[i]);
    const std::uint32_t first = members.front()->round;
    const std::uint32_t last = members.back()->round;
    groups.names.push_back(first == last ? fmt::format("round {}", first)
                                         : fmt::format("mean of rounds {} to {}", first, last));
    groups.ticks.emplace_back(static_cast<double>(k) + 0.5, std::to_string(first));
    groups.members.push_back(std::move(members));
  }
  return groups;
}

template <class Value>
std::vector<double> MeanOf(const std::vector<const RoundRecord*>& rounds, std::size_t parts,
                           const Value& value) {
  std::vector<double> means(parts);
  for (const RoundRecord* round : rounds) {
    const auto values = value(*round);
    for (std::size_t i = 0; i < parts; ++i) means[i] += values[i];
  }
  for (double& mean : means) mean /= static_cast<double>(rounds.size());
  return means;
}

std::array<double, 4> PhasesOf(const RoundRecord& round) {
  return {round.phases.select, round.phases.train, round.phases.aggregate, round.phases.evaluate};
}

std::array<double, 5> OutcomesOf(const RoundRecord& round) {
  const auto& counts = round.counts;
  return {static_cast<double>(counts.ok), static_cast<double>(counts.rejected),
          static_cast<double>(counts.failed), static_cast<double>(counts.dropped),
          static_cast<double>(counts.late)};
}

std::string ClientLabel(const ClientHistory& client) {
  return client.name.empty() ? std::to_string(client.number) : client.name;
}

std::string SizeHistogram(const std::vector<const ClientHistory*>& clients, std::size_t from) {
  std::vector<double> sizes;
  for (std::size_t i = from; i < clients.size(); ++i)
    sizes.push_back(static_cast<double>(clients[i]->examples));
  const std::vector<double> ticks = TicksFor(0, *std::max_element(sizes.begin(), sizes.end()));
  const std::vector<double> counts = Histogram(sizes, 0, ticks.back(), kBins);
  BarChart chart;
  chart.text = {.title = "Sizes of the other clients",
                .finding = fmt::format("{} more clients have between {:.0f} and {:.0f} examples",
                                       sizes.size(), *std::min_element(sizes.begin(), sizes.end()),
                                       *std::max_element(sizes.begin(), sizes.end())),
                .x_title = "training examples",
                .y_title = fmt::format("the other {} clients, by size", sizes.size())};
  chart.parts = {"clients"};
  chart.unit = "clients";
  chart.counts_whole = true;
  std::vector<std::vector<std::string>> rows;
  const double width = ticks.back() / kBins;
  for (std::size_t i = 0; i < kBins; ++i) {
    chart.bars.push_back(fmt::format("{:.0f} to {:.0f} examples", width * static_cast<double>(i),
                                     width * static_cast<double>(i + 1)));
    chart.values.push_back({counts[i]});
    rows.push_back({chart.bars.back(), fmt::format("{:.0f}", counts[i])});
  }
  for (const double tick : ticks)
    chart.ticks.emplace_back(tick / width, TickText(tick, ticks[1] - ticks[0]));
  return Half(Draw(chart),
              Table("Sizes of the clients that the bars leave out",
                    {{.title = "examples", .is_number = false}, {.title = "clients"}}, rows));
}

}  // namespace

std::string MetricSection(const RunHistory& run, const ReportFacts& facts) {
  std::string html;
  if (const std::vector<Point> points = SeriesOf(run, facts.metric); !points.empty()) {
    LineChart chart;
    chart.text = {.title = fmt::format("Test {} by round", facts.metric_name),
                  .finding = Movement("test " + facts.metric_name, points),
                  .x_title = "round",
                  .y_title = facts.is_share ? facts.metric_name + " (share of test examples)"
                                            : "test " + facts.metric_name};
    chart.lines.push_back({.name = "test " + facts.metric_name, .points = points});
    if (facts.is_share) chart.y_range = {0, 1};
    chart.goal = facts.target;
    chart.goal_name = "target";
    html += Half(Draw(chart), RoundTable(chart.text.title, chart.lines));
  }
  LineChart loss;
  for (const char* name : {"train/loss", "test/loss"}) {
    if (facts.metric == name) continue;
    const std::vector<Point> points = SeriesOf(run, name);
    if (points.empty()) continue;
    const bool is_train = std::string_view(name) == "train/loss";
    loss.lines.push_back({.name = is_train ? "training (clients)" : "test", .points = points});
  }
  if (!loss.lines.empty()) {
    loss.text = {.title = "Loss by round",
                 .finding = Movement(loss.lines.back().name + " loss", loss.lines.back().points),
                 .x_title = "round",
                 .y_title = "loss (nats)"};
    loss.may_be_logarithmic = true;
    loss.starts_at_zero = true;
    html += Half(Draw(loss), RoundTable(loss.text.title, loss.lines));
  }
  return html.empty() ? "" : SectionOf("Accuracy and loss", Pair(html));
}

std::string LabelSection(const RunHistory& run) {
  const std::vector<std::string> classes = ClassesOf(run);
  if (classes.empty()) return "";
  std::vector<const ClientHistory*> clients;
  for (const ClientHistory& client : run.clients) clients.push_back(&client);
  std::stable_sort(clients.begin(), clients.end(),
                   [](const auto* a, const auto* b) { return a->examples > b->examples; });
  const std::size_t shown = std::min(kMostBars, clients.size());
  BarChart chart;
  chart.parts = classes;
  chart.counts_whole = true;
  std::vector<TableColumn> columns{{.title = "client", .is_number = false}, {.title = "examples"}};
  for (const std::string& name : classes) columns.push_back({.title = name});
  std::vector<std::vector<std::string>> rows;
  std::uint64_t total = 0;
  std::uint64_t counted = 0;
  for (std::size_t k = 0; k < clients.size(); ++k) {
    const ClientHistory& client = *clients[k];
    total += client.examples;
    std::vector<double> values;
    std::vector<std::string> row{ClientLabel(client), Grouped(client.examples)};
    for (const std::string& name : classes) {
      const auto label = client.labels.find(name);
      const std::uint64_t count = label == client.labels.end() ? 0 : label->second;
      counted += count;
      values.push_back(static_cast<double>(count));
      row.push_back(Grouped(count));
    }
    rows.push_back(std::move(row));
    if (k >= shown) continue;
    chart.values.push_back(std::move(values));
    chart.bars.push_back("client " + ClientLabel(client));
    chart.ticks.emplace_back(static_cast<double>(k) + 0.5, ClientLabel(client));
  }
  // Examples of text have many labels each.
  chart.unit = counted > total ? "labels" : "examples";
  chart.text = {
      .title = fmt::format("Training {} per client and class", chart.unit),
      .finding = fmt::format(
          "{} clients hold {} examples{} of {} classes, between {} and {} each", clients.size(),
          Grouped(total), counted > total ? fmt::format(" with {} labels", Grouped(counted)) : "",
          classes.size(), Grouped(clients.back()->examples), Grouped(clients.front()->examples)),
      .x_title = "client, largest first",
      .y_title = "training " + chart.unit};
  std::string html = Half(Draw(chart), Table(chart.text.title, columns, rows));
  if (clients.size() > shown) html += SizeHistogram(clients, shown);
  return SectionOf(
      counted > total ? "Labels per client and class" : "Examples per client and class",
      "<p>" + Escape(chart.text.finding) + ".</p>\n" + Pair(html));
}

std::string ClientSection(const RunHistory& run) {
  const auto found = run.client_metrics.find("accuracy");
  if (found == run.client_metrics.end() || found->second.empty()) return "";
  std::vector<double> values;
  std::vector<std::vector<std::string>> rows;
  for (const auto& [number, value] : found->second) {
    values.push_back(value);
    const auto client = std::find_if(run.clients.begin(), run.clients.end(),
                                     [&](const auto& entry) { return entry.number == number; });
    const bool is_known = client != run.clients.end();
    rows.push_back({is_known ? ClientLabel(*client) : std::to_string(number),
                    is_known ? Grouped(client->test_examples) : kMissing, Significant(value)});
  }
  const std::vector<double> counts = Histogram(values, 0, 1, kBins);
  BarChart chart;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  chart.text = {
      .title = fmt::format("Accuracy per client after round {}", run.client_metrics_round),
      .finding = fmt::format("the accuracy of {} clients on their own held-out examples lies "
                             "between {} and {}",
                             values.size(), Significant(*low), Significant(*high)),
      .x_title = "accuracy on the client's own held-out examples",
      .y_title = "clients"};
  chart.parts = {"clients"};
  chart.unit = "clients";
  chart.counts_whole = true;
  for (std::size_t i = 0; i < kBins; ++i) {
    chart.bars.push_back(fmt::format("accuracy {:.2f} to {:.2f}", 0.05 * static_cast<double>(i),
                                     0.05 * static_cast<double>(i + 1)));
    chart.values.push_back({counts[i]});
  }
  for (int tenth = 0; tenth <= 10; tenth += 2)
    chart.ticks.emplace_back(2.0 * tenth, fmt::format("{:.1f}", 0.1 * tenth));
  const std::string table =
      Table(chart.text.title,
            {{.title = "client", .is_number = false}, {.title = "examples"}, {.title = "accuracy"}},
            rows);
  return SectionOf(fmt::format("Accuracy per client, round {}", run.client_metrics_round),
                   Figure(Draw(chart), table));
}

std::string TimeSection(const RunHistory& run) {
  if (run.rounds.empty()) return "";
  const std::vector<std::string> names{"select", "train", "aggregate", "evaluate"};
  const Groups groups = GroupRounds(run.rounds);
  BarChart chart;
  chart.parts = names;
  chart.bars = groups.names;
  chart.ticks = groups.ticks;
  chart.unit = "s";
  std::array<double, 4> totals{};
  std::vector<std::vector<std::string>> rows;
  for (const auto& members : groups.members) chart.values.push_back(MeanOf(members, 4, PhasesOf));
  for (const RoundRecord& round : run.rounds) {
    const std::array<double, 4> phases = PhasesOf(round);
    std::vector<std::string> row{std::to_string(round.round), std::to_string(round.attempt)};
    for (std::size_t i = 0; i < 4; ++i) {
      totals[i] += phases[i];
      row.push_back(Significant(phases[i]));
    }
    row.push_back(Significant(round.time_s, 4));
    rows.push_back(std::move(row));
  }
  const auto largest = std::max_element(totals.begin(), totals.end());
  const double sum = std::accumulate(totals.begin(), totals.end(), 0.0);
  chart.text = {.title = "Where each round's time went",
                .finding = fmt::format("{} takes {:.0f} % of {}",
                                       names[static_cast<std::size_t>(largest - totals.begin())],
                                       sum > 0 ? 100 * *largest / sum : 0, DurationText(sum)),
                .x_title = "round",
                .y_title = "seconds"};
  std::string html = Figure(Draw(chart), Table(chart.text.title,
                                               {{.title = "round"},
                                                {.title = "attempt"},
                                                {.title = "select s"},
                                                {.title = "train s"},
                                                {.title = "aggregate s"},
                                                {.title = "evaluate s"},
                                                {.title = "ended at s"}},
                                               rows));
  html = SectionOf("Time", html);
  Line virtual_time{.name = "virtual time", .points = {}};
  for (const RoundRecord& round : run.rounds) {
    if (round.virtual_s && round.published)
      virtual_time.points.push_back({.x = static_cast<double>(round.round), .y = *round.virtual_s});
  }
  if (!virtual_time.points.empty()) {
    LineChart line;
    line.text = {.title = "Virtual time by round",
                 .finding = Movement("virtual time", virtual_time.points),
                 .x_title = "round",
                 .y_title = "virtual seconds"};
    line.lines = {virtual_time};
    line.starts_at_zero = true;
    html += SectionOf("Virtual time", Figure(Draw(line), RoundTable(line.text.title, line.lines)));
  }
  return html;
}

std::string ByteSection(const RunHistory& run) {
  if (run.rounds.empty()) return "";
  constexpr double kMega = 1e6;
  std::vector<Line> lines{{.name = "up (from clients)", .points = {}},
                          {.name = "down (to clients)", .points = {}, .is_dashed = true}};
  double up = 0;
  double down = 0;
  for (const RoundRecord& round : run.rounds) {
    up += static_cast<double>(round.bytes_up) / kMega;
    down += static_cast<double>(round.bytes_down) / kMega;
    if (!round.published) continue;
    lines[0].points.push_back({.x = static_cast<double>(round.round), .y = up});
    lines[1].points.push_back({.x = static_cast<double>(round.round), .y = down});
  }
  LineChart chart;
  chart.text = {.title = "Bytes, cumulative",
                .finding = fmt::format("{} up and {} down in all",
                                       ByteText(static_cast<std::uint64_t>(up * kMega)),
                                       ByteText(static_cast<std::uint64_t>(down * kMega))),
                .x_title = "round",
                .y_title = "MB (10\xE2\x81\xB6 bytes)"};
  chart.lines = lines;
  chart.starts_at_zero = true;
  return SectionOf("Bytes", Figure(Draw(chart), RoundTable(chart.text.title, lines)));
}

std::string ParticipationSection(const RunHistory& run) {
  if (run.rounds.empty()) return "";
  const Groups groups = GroupRounds(run.rounds);
  BarChart chart;
  chart.parts.assign(kOutcomes.begin(), kOutcomes.end());
  chart.bars = groups.names;
  chart.ticks = groups.ticks;
  chart.unit = "clients";
  chart.counts_whole = true;
  for (const auto& members : groups.members) chart.values.push_back(MeanOf(members, 5, OutcomesOf));
  std::vector<std::vector<std::string>> rows;
  std::array<double, 5> totals{};
  for (const RoundRecord& round : run.rounds) {
    const std::array<double, 5> counts = OutcomesOf(round);
    std::vector<std::string> row{std::to_string(round.round), std::to_string(round.attempt),
                                 round.published ? "published" : "abandoned"};
    for (std::size_t i = 0; i < counts.size(); ++i) {
      totals[i] += counts[i];
      row.push_back(fmt::format("{:.0f}", counts[i]));
    }
    rows.push_back(std::move(row));
  }
  chart.text = {.title = "Outcomes per attempt",
                .finding = fmt::format("{:.0f} ok, {:.0f} rejected, {:.0f} failed, {:.0f} dropped, "
                                       "{:.0f} late",
                                       totals[0], totals[1], totals[2], totals[3], totals[4]),
                .x_title = "round",
                .y_title = "clients"};
  std::vector<TableColumn> columns{
      {.title = "round"}, {.title = "attempt"}, {.title = "state", .is_number = false}};
  for (const char* outcome : kOutcomes) columns.push_back({.title = outcome});
  std::string html = Figure(Draw(chart), Table(chart.text.title, columns, rows));
  if (!run.clients.empty()) {
    const auto [least, most] =
        std::minmax_element(run.clients.begin(), run.clients.end(),
                            [](const auto& a, const auto& b) { return a.started < b.started; });
    html += least->started == most->started
                ? fmt::format("<p>Each client took part {} times.</p>\n", Grouped(least->started))
                : fmt::format("<p>Each client took part between {} and {} times.</p>\n",
                              Grouped(least->started), Grouped(most->started));
  }
  if (run.codes.empty()) return SectionOf("Participation", html);
  std::vector<std::vector<std::string>> codes;
  for (const CodeCount& code : run.codes)
    codes.push_back({code.code == 0 ? kMissing : fmt::format("SKEP-{}", code.code), code.outcome,
                     Grouped(code.count),
                     fmt::format("round {}, {}", code.first_round, code.first_client),
                     code.message.empty() ? kMissing : code.message});
  html += Table("Commonest numbers of clients whose update did not count",
                {{.title = "number", .is_number = false},
                 {.title = "outcome", .is_number = false},
                 {.title = "clients"},
                 {.title = "first", .is_number = false},
                 {.title = "message", .is_number = false}},
                codes);
  return SectionOf("Participation", html);
}

std::string NormSection(const RunHistory& run) {
  const std::vector<Point> median = SeriesOf(run, "update/norm_p50");
  if (median.empty()) return "";
  const std::vector<Point> low = SeriesOf(run, "update/norm_p10");
  const std::vector<Point> high = SeriesOf(run, "update/norm_p90");
  LineChart chart;
  chart.lines.push_back({.name = "median", .points = median});
  chart.lines.push_back(
      {.name = "maximum", .points = SeriesOf(run, "update/norm_max"), .is_dashed = true});
  if (low.size() == median.size() && high.size() == median.size()) {
    Band band{.name = "p10 to p90", .x = {}, .low = {}, .high = {}};
    for (std::size_t i = 0; i < low.size(); ++i) {
      band.x.push_back(low[i].x);
      band.low.push_back(low[i].y);
      band.high.push_back(high[i].y);
    }
    chart.bands.push_back(std::move(band));
  }
  chart.text = {.title = "Norm of the updates by round",
                .finding = Movement("the median norm", median),
                .x_title = "round",
                .y_title = "L2 norm of an update"};
  chart.starts_at_zero = true;
  std::vector<Line> numbers = chart.lines;
  numbers.insert(numbers.begin(), {.name = "p10", .points = low});
  numbers.push_back({.name = "p90", .points = high});
  return SectionOf("Update norms", Figure(Draw(chart), RoundTable(chart.text.title, numbers)));
}

std::string SettingSection(const RunHistory& run) {
  std::vector<std::vector<std::string>> changed;
  std::vector<std::vector<std::string>> others;
  const auto add = [&](const HistorySetting& setting) {
    (IsChanged(setting) ? changed : others).push_back({setting.key, setting.value, setting.source});
  };
  for (const config::Key& key : config::ExperimentSchema().keys()) {
    const auto found = std::find_if(run.settings.begin(), run.settings.end(),
                                    [&](const auto& entry) { return entry.key == key.path; });
    if (found != run.settings.end()) add(*found);
  }
  for (const HistorySetting& setting : run.settings) {
    if (config::ExperimentSchema().Find(setting.key) == nullptr) add(setting);
  }
  const std::vector<TableColumn> columns{{.title = "key", .is_number = false},
                                         {.title = "value", .is_number = false},
                                         {.title = "source", .is_number = false}};
  return SectionOf("Configuration",
                   Table("Keys that were set", columns, changed) +
                       Folded("Defaults and derived values",
                              Table("Defaults and derived values", columns, others)));
}

std::string NoteSection(const RunHistory& run) {
  std::string items;
  for (const NoteRecord& note : run.notes) {
    if (note.level == NoteLevel::kInfo) continue;
    const std::string code = note.code == 0 ? "" : fmt::format("SKEP-{}: ", note.code);
    const std::string round = note.round ? fmt::format("round {}: ", *note.round) : "";
    items += "<li>" + Escape(round + code + note.text) + "</li>\n";
  }
  return items.empty() ? "" : SectionOf("Warnings", "<ul class=\"notes\">\n" + items + "</ul>\n");
}

}  // namespace skep::simulator
