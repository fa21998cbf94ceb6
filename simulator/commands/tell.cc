#include "simulator/commands/tell.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kernels/backend.h"
#include "shared/base/error_catalogue.h"
#include "shared/base/suggest.h"
#include "shared/config/schema.h"
#include "shared/model/layer_forms.h"
#include "simulator/json.h"
#include "simulator/plan.h"

namespace skep::simulator {
namespace {

struct Entry {
  std::string_view name;
  std::string_view text;
};

constexpr std::array<Entry, 13> kWords{{
    {"client", "A participant; in simulation one part of the data and its turns."},
    {"device", "Enrolled hardware that runs a client; a word of deployment only."},
    {"aggregator", "The program that selects clients and combines their updates."},
    {"population", "A named group of devices that train one thing."},
    {"round", "Selection, local training, aggregation, and then a new model."},
    {"attempt",
     "One try of a round; a round that is opened again keeps its number and gets the next "
     "attempt."},
    {"run", "One execution of a configuration; it owns one run directory."},
    {"sweep", "Several runs that differ in named keys."},
    {"update", "What a client sends back: the difference to the model it got."},
    {"partition", "The rule that says which example belongs to which client."},
    {"cohort", "The clients that are invited to one attempt of a round."},
    {"aggregation", "The weighted mean of a round's updates, added to the model."},
    {"fedbn",
     "Federated averaging in which norm layers (weight, bias, running statistics) stay on each "
     "client; for clients whose features differ in scale. personalization.method = \"fedbn\"; "
     "there "
     "is no central evaluation, as the shared model lacks its norm layers (Li et al. 2021)."},
}};

constexpr std::array<Entry, 1> kAlgorithms{
    {{"fedavg", "weighted mean of the clients' models (McMahan et al. 2017)"}}};
constexpr std::array<Entry, 1> kRules{
    {{"mean", "exact weighted mean, in fixed point: the order of updates does not matter"}}};
constexpr std::array<Entry, 4> kPartitions{{
    {"iid", "shuffled, then cut into equal parts"},
    {"shards", "sorted by label, cut into shards, some shards for each client"},
    {"dirichlet", "label skew: class shares drawn from a Dirichlet distribution"},
    {"natural", "by owner: client_column or client_file"},
}};
constexpr std::array<Entry, 12> kModels{{
    {"softmax", "one dense layer"},
    {"mlp", "dense layers of the widths in model.hidden"},
    {"2nn", "dense layers of 200 and 200 (McMahan et al. 2017)"},
    {"fedavg-cnn", "images: two 5x5 convolutions and a dense layer (McMahan et al. 2017)"},
    {"lenet", "images: two 5x5 convolutions and two dense layers"},
    {"pfl-cnn", "images: two 3x3 convolutions, dropout and a dense layer"},
    {"resnet8", "images: 8 layers with shortcuts (He et al. 2016)"},
    {"resnet20", "images: 20 layers with shortcuts (He et al. 2016)"},
    {"har-cnn", "windows of sensors: two convolutions along time and a dense layer"},
    {"char-lstm", "text: an embedding and two LSTM layers of 256"},
    {"tiny-transformer", "text: an embedding with positions and two blocks of attention"},
    {"layers", "a list of layers of your own in model.layers: skep-simulator explain layers"},
}};
constexpr std::array<Entry, 2> kDatasets{{
    {"fashion-mnist", "60,000 + 10,000 pictures of clothes, 28 x 28, 10 classes (Debian package)"},
    {"path = FILE", "your own: idx or CSV files, or a folder of them"},
}};
constexpr std::array<Entry, 2> kMetrics{{
    {"accuracy", "share of examples whose largest output is their class"},
    {"loss", "mean cross-entropy, in nats"},
}};

struct Topic {
  std::string_view name;
  const Entry* first;
  std::size_t count;
};
constexpr std::array<Topic, 6> kLists{{
    {"algorithms", kAlgorithms.data(), kAlgorithms.size()},
    {"rules", kRules.data(), kRules.size()},
    {"partitions", kPartitions.data(), kPartitions.size()},
    {"models", kModels.data(), kModels.size()},
    {"datasets", kDatasets.data(), kDatasets.size()},
    {"metrics", kMetrics.data(), kMetrics.size()},
}};

// Texts of sections and keys; a key may be named without its section where that is clear.
std::string SchemaText(const std::string& topic) {
  const config::Schema& schema = config::ExperimentSchema();
  std::string text = config::ExplainTopic(schema, topic);
  if (!text.empty() || topic.find('.') != std::string::npos) return text;
  for (const config::Key& key : schema.keys()) {
    if (key.row->key != topic) continue;
    if (!text.empty()) text += "\n";
    text += config::ExplainTopic(schema, key.path);
  }
  return text;
}

std::string LayerText(const model::LayerForm& form) {
  constexpr std::size_t kFormColumns = 30;
  const bool is_long = form.form.size() > kFormColumns;
  return is_long ? fmt::format("  {}\n  {:<30}  {}\n", form.form, "", form.text)
                 : fmt::format("  {:<30}  {}\n", form.form, form.text);
}

// Every form of a line, or that of one layer.
std::string LayersText(const std::string& topic) {
  if (const model::LayerForm* form = model::FindLayerForm(topic)) {
    return "a line of model.layers\n" + LayerText(*form);
  }
  if (topic != "layers" && topic != "model.layers") return "";
  std::string text = "lines of model.layers; what is in brackets may be left out\n";
  for (const model::LayerForm& form : model::LayerForms()) text += LayerText(form);
  return text;
}

std::string ExplainText(const std::string& topic) {
  if (const std::optional<int> number = ParseErrorNumber(topic)) return Explain(*number);
  const std::string layers = LayersText(topic);
  std::string text = SchemaText(topic);
  if (!text.empty() && !layers.empty()) text += "\n";
  text += layers;
  if (!text.empty()) return text;
  for (const Entry& word : kWords) {
    if (word.name == topic) return fmt::format("{}\n    {}\n", word.name, word.text);
  }
  return "";
}

std::string Nearest(const std::string& topic) {
  std::vector<std::string_view> known;
  for (const Entry& word : kWords) known.push_back(word.name);
  for (const std::string_view layer : model::LayerWords()) known.push_back(layer);
  for (const config::Section& section : config::ExperimentSchema().sections()) {
    if (!section.name.empty()) known.push_back(section.name);
  }
  for (const config::Key& key : config::ExperimentSchema().keys()) {
    known.push_back(key.row->key);
    known.push_back(key.path);
  }
  return Suggest(topic, known);
}

// What lists there are, with how many entries and the first few of them.
int ListLists(const Console& console) {
  constexpr std::size_t kShownNames = 4;
  std::string text;
  std::vector<std::string> entries;
  for (const Topic& topic : kLists) {
    std::string names;
    std::vector<std::string> all;
    for (std::size_t i = 0; i < topic.count; ++i) {
      all.push_back(JsonText(topic.first[i].name));
      if (i < kShownNames) names += (i == 0 ? "" : ", ") + std::string(topic.first[i].name);
    }
    if (topic.count > kShownNames) names += ", \xE2\x80\xA6";
    text += fmt::format("{:<10}  {:>3}  {}\n", topic.name, topic.count, names);
    entries.push_back(JsonObject().Add("name", topic.name).Raw("entries", JsonArray(all)).Text());
  }
  console.Print(text + "one line each: skep-simulator list WHAT\n");
  console.PrintJson(JsonArray(entries));
  return kExitDone;
}

}  // namespace

int ExplainCommand(const std::string& topic, bool is_json_schema, const Console& console) {
  if (is_json_schema) {
    const std::string schema = config::JsonSchema(config::ExperimentSchema());
    console.Print(schema);
    console.PrintJson(schema);
    return kExitDone;
  }
  std::string text = ExplainText(topic);
  if (text.empty()) {
    config::Problem problem;
    problem.code = 1012;
    problem.message = fmt::format("nothing is known about \"{}\"", topic);
    const std::string nearest = Nearest(topic);
    problem.hint = nearest.empty() ? "give SKEP-nnnn, a section, a key, or a word such as \"round\""
                                   : fmt::format("did you mean \"{}\"?", nearest);
    return console.Fail({problem});
  }
  if (!text.ends_with('\n')) text += '\n';
  console.Print(text);
  console.PrintJson(JsonObject().Add("topic", topic).Add("text", text).Text());
  return kExitDone;
}

int ListCommand(const std::string& what, const Console& console) {
  if (what.empty()) return ListLists(console);
  const auto* const list = std::find_if(kLists.begin(), kLists.end(),
                                        [&](const Topic& topic) { return topic.name == what; });
  if (list == kLists.end()) {
    std::vector<std::string_view> known;
    std::string names;
    for (const Topic& topic : kLists) {
      known.push_back(topic.name);
      names += (names.empty() ? "" : ", ") + std::string(topic.name);
    }
    config::Problem problem;
    problem.code = 1102;
    problem.message = fmt::format("there is no list of \"{}\"; there are {}", what, names);
    if (const std::string nearest = Suggest(what, known); !nearest.empty())
      problem.hint = fmt::format("did you mean \"{}\"?", nearest);
    return console.Fail({problem});
  }
  std::size_t width = 0;
  for (std::size_t i = 0; i < list->count; ++i) width = std::max(width, list->first[i].name.size());
  std::string text;
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < list->count; ++i) {
    const Entry& entry = list->first[i];
    text += fmt::format("{:<{}}  {}\n", entry.name, width, entry.text);
    entries.push_back(JsonObject().Add("name", entry.name).Add("text", entry.text).Text());
  }
  console.Print(text);
  console.PrintJson(JsonArray(entries));
  return kExitDone;
}

int SchemaCommand(const std::string& file, const std::vector<std::string>& sets,
                  const Console& console) {
  const auto prepared = Prepare({.file = file, .sets = sets, .folder = ""});
  if (!prepared.has_value()) return console.Fail(prepared.problems());
  const std::string toml = data::DataSpecToml(prepared->data.spec);
  console.Print(toml);
  console.PrintJson(JsonObject().Add("toml", toml).Text());
  return kExitDone;
}

int VersionCommand(const Console& console) {
  std::string isas;
  for (const kernels::Isa isa : kernels::AvailableIsas())
    isas += (isas.empty() ? "" : ", ") + kernels::IsaName(isa);
  console.Print(fmt::format("skep-simulator {}\ninstruction sets {}\n", SKEP_VERSION, isas));
  console.PrintJson(JsonObject().Add("version", SKEP_VERSION).Add("isas", isas).Text());
  return kExitDone;
}

}  // namespace skep::simulator
