#include "simulator/commands/partition.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "shared/base/file.h"
#include "shared/config/utf8.h"
#include "simulator/chart.h"
#include "simulator/figures.h"
#include "simulator/html.h"
#include "simulator/json.h"
#include "simulator/names.h"
#include "simulator/plan.h"

namespace skep::simulator {
namespace {

constexpr std::size_t kMostBars = 60;

std::string NameOf(const Prepared& prepared, std::size_t client) {
  const std::string& name = prepared.partition.clients[client].name;
  return name.empty() ? std::to_string(client) : config::Printable(name);
}

std::uint64_t RowsOf(const Prepared& prepared, std::size_t client) {
  const data::ClientPart& part = prepared.partition.clients[client];
  return part.train.size() + part.test.size();
}

// One block a class: its share of the client's labels; a dot where it has none.
std::string LabelBar(const Prepared& prepared, std::size_t client, const TextStyle& style) {
  const data::LabelTable& labels = prepared.labels;
  const std::uint32_t* const counts = labels.counts.data() + client * labels.classes;
  const std::uint32_t most = *std::max_element(counts, counts + labels.classes);
  std::string bar;
  for (std::uint32_t k = 0; k < labels.classes; ++k) {
    if (counts[k] == 0) {
      bar += style.is_utf8 ? "\xC2\xB7" : ".";
    } else if (style.is_utf8) {
      bar += "\xE2\x96";
      bar += static_cast<char>(0x81 + std::uint64_t{counts[k]} * 7 / most);
    } else {
      bar += static_cast<char>('1' + std::uint64_t{counts[k]} * 8 / most);
    }
  }
  return bar;
}

std::uint32_t ClassesOf(const Prepared& prepared, std::size_t client) {
  const std::uint32_t classes = prepared.labels.classes;
  const auto from = prepared.labels.counts.begin() + static_cast<std::ptrdiff_t>(client * classes);
  return static_cast<std::uint32_t>(
      std::count_if(from, from + classes, [](std::uint32_t count) { return count > 0; }));
}

std::string TableText(const Prepared& prepared, std::uint32_t rows, const TextStyle& style) {
  const std::size_t clients = prepared.partition.clients.size();
  const std::size_t shown = std::min<std::size_t>(rows, clients);
  std::size_t width = 6;
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, Columns(NameOf(prepared, i)));
  std::string text = fmt::format("{:<{}}  {:>9}  {:>8}  {:>7}  {:>9}  {}\n", "client", width,
                                 "examples", "held out", "classes", "variation", "labels");
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string name = NameOf(prepared, i);
    text += name + std::string(width - Columns(name), ' ');
    text += fmt::format("  {:>9}  {:>8}  {:>7}  {:>9.3f}  {}\n", Grouped(RowsOf(prepared, i)),
                        Grouped(prepared.partition.clients[i].test.size()), ClassesOf(prepared, i),
                        prepared.labels.total_variation[i], LabelBar(prepared, i, style));
  }
  if (shown < clients)
    text +=
        fmt::format("\xE2\x80\xA6 and {} more (--clients {})\n", Grouped(clients - shown), clients);
  return text;
}

std::string SummaryText(const Prepared& prepared) {
  const std::size_t clients = prepared.partition.clients.size();
  std::uint64_t rows = 0;
  std::uint64_t least = RowsOf(prepared, 0);
  std::uint64_t most = least;
  std::uint32_t single = 0;
  double variation = 0;
  for (std::size_t i = 0; i < clients; ++i) {
    const std::uint64_t own = RowsOf(prepared, i);
    rows += own;
    least = std::min(least, own);
    most = std::max(most, own);
    single += ClassesOf(prepared, i) == 1 ? 1 : 0;
    variation += prepared.labels.total_variation[i];
  }
  std::string text =
      fmt::format("{}: {} clients, {} examples, {} to {} each; mean variation of labels {:.3f}\n",
                  PartitionText(prepared.experiment().data), Grouped(clients), Grouped(rows),
                  Grouped(least), Grouped(most), variation / static_cast<double>(clients));
  if (prepared.partition.cuts_in_file_order) text += "the rule cuts the data in file order\n";
  if (single > 0)
    text +=
        fmt::format("{} of {} clients hold one class only\n", Grouped(single), Grouped(clients));
  return text;
}

std::string PartitionJson(const Prepared& prepared) {
  std::vector<std::string> clients;
  for (std::size_t i = 0; i < prepared.partition.clients.size(); ++i) {
    JsonObject client;
    client.Add("client", i);
    if (!prepared.partition.clients[i].name.empty())
      client.Add("name", prepared.partition.clients[i].name);
    client.Add("examples", RowsOf(prepared, i));
    client.Add("held_out", prepared.partition.clients[i].test.size());
    client.Add("total_variation", prepared.labels.total_variation[i]);
    JsonObject labels;
    for (std::uint32_t k = 0; k < prepared.labels.classes; ++k) {
      const std::uint32_t count = prepared.labels.counts[i * prepared.labels.classes + k];
      if (count > 0) labels.Add(prepared.data.spec.classes[k], count);
    }
    clients.push_back(client.Raw("labels", labels.Text()).Text());
  }
  JsonObject object;
  object.Add("partition", prepared.experiment().data.partition);
  object.Add("cuts_in_file_order", prepared.partition.cuts_in_file_order);
  return object.Raw("clients", JsonArray(clients)).Text();
}

std::string PictureOf(const Prepared& prepared) {
  std::vector<std::size_t> order(prepared.partition.clients.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return RowsOf(prepared, a) > RowsOf(prepared, b);
  });
  order.resize(std::min(order.size(), kMostBars));
  BarChart chart;
  chart.parts = prepared.data.spec.classes;
  // Examples of text have many labels each.
  const bool has_many = prepared.data.train->labels_per_row != 1;
  chart.unit = has_many ? "labels" : "examples";
  chart.counts_whole = true;
  for (const std::size_t client : order) {
    const auto from = prepared.labels.counts.begin() +
                      static_cast<std::ptrdiff_t>(client * prepared.labels.classes);
    chart.values.emplace_back(from, from + prepared.labels.classes);
    chart.ticks.emplace_back(static_cast<double>(chart.bars.size()) + 0.5,
                             NameOf(prepared, client));
    chart.bars.push_back("client " + NameOf(prepared, client));
  }
  chart.text = {.title = has_many ? "Labels per client and class" : "Examples per client and class",
                .finding = fmt::format("the {} largest of {} clients", order.size(),
                                       prepared.partition.clients.size()),
                .x_title = "client, largest first",
                .y_title = chart.unit};
  return StandaloneSvg(Draw(chart));
}

}  // namespace

int PartitionCommand(const PartitionCommandOptions& options, const Console& console) {
  auto prepared = Prepare({.file = options.file, .sets = options.sets, .folder = ""});
  if (!prepared.has_value()) return console.Fail(prepared.problems());
  for (const std::string& text : prepared->data.notes)
    console.Say({.code = 0, .text = text, .hint = ""});
  for (const std::string& text : prepared->partition.notes)
    console.Say({.code = 0, .text = text, .hint = ""});
  Status written = Ok();
  if (!options.csv.empty())
    written = WriteFileAtomically(options.csv, AsBytes(data::PartitionCsv(prepared->partition)));
  if (written.has_value() && !options.svg.empty())
    written = WriteFileAtomically(options.svg, AsBytes(PictureOf(*prepared)));
  if (!written.has_value()) return console.Fail(written.error());
  console.Print(TableText(*prepared, options.clients, console.output_style()) +
                SummaryText(*prepared));
  console.PrintJson(PartitionJson(*prepared));
  return kExitDone;
}

}  // namespace skep::simulator
