#include "shared/config/experiment_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "shared/config/experiment_values.h"
#include "shared/config/value_check.h"

namespace skep::config {
namespace {

Value Whole(std::uint64_t number) {
  return {static_cast<std::int64_t>(number)};
}

// The stem in lower case; other characters become "-".
std::string NameFromFile(const std::string& file) {
  std::string name;
  for (char c : std::filesystem::path(file).stem().string()) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool is_kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (name.empty() && (!is_kept || c == '_' || c == '-')) continue;
    if (name.size() < 64) name += is_kept ? c : '-';
  }
  return name.empty() ? "run" : name;
}

// Plays say themselves whose each line is.
bool HasRoles(const Effective& e) {
  return e.Has("data.format") && e.Text("data.format") == "plays";
}

void CheckRequired(Reading& reading) {
  const Effective& e = reading.effective;
  const auto needs = [&](std::string_view path, std::string_view value, std::string_view wanted) {
    reading.AddAtValue(
        path, {.code = 1103, .message = fmt::format("\"{}\" = {} needs {}", path, value, wanted)});
  };
  if (e.Text("model.architecture") == "layers" && !e.IsGiven("model.layers"))
    needs("model.architecture", "\"layers\"", "\"model.layers\"");
  const bool has_momentum = e.Has("client.momentum") && e.Number("client.momentum") > 0;
  if (e.Has("client.nesterov") && e.Boolean("client.nesterov") && !has_momentum &&
      reading.IsSound({"client.momentum"}))
    needs("client.nesterov", "true", "\"client.momentum\" above 0");
  if (e.Boolean("training.stop_at_target") && !e.IsGiven("training.target"))
    needs("training.stop_at_target", "true", "\"training.target\"");
  if (e.IsGiven("data.client_file") && !e.IsGiven("data.client_column")) {
    reading.AddAtKey("data.client_file",
                     {.code = 1103,
                      .message = "\"data.client_file\" is set but \"data.client_column\" is not",
                      .hint = "name the column of that file that says who owns a row"});
  }
  const bool is_natural = e.Has("data.partition") && e.Text("data.partition") == "natural";
  if (is_natural && e.IsGiven("data.partition") && !e.IsGiven("data.client_column") &&
      !e.IsGiven("data.client_file") && !HasRoles(e))
    needs("data.partition", "\"natural\"", "\"data.client_column\"");
}

void CheckLimitsByRounds(Reading& reading) {
  constexpr std::array<std::string_view, 4> kPaths{"training.eval_every",
                                                   "training.client_eval_every",
                                                   "training.patience", "run.checkpoint_every"};
  const Effective& e = reading.effective;
  for (const std::string_view path : kPaths) {
    if (!reading.IsSound({path, "training.rounds"}) || !e.IsGiven(path)) continue;
    if (e.Whole(path) > e.Whole("training.rounds")) AddExcess(reading, path, "training.rounds");
  }
}

void CheckNoneTwice(Reading& reading, std::string_view path) {
  std::vector<std::string> texts = reading.effective.Texts(path);
  std::sort(texts.begin(), texts.end());
  const auto twice = std::adjacent_find(texts.begin(), texts.end());
  if (twice == texts.end()) return;
  reading.AddAtValue(
      path, {.code = 1102, .message = fmt::format("\"{}\" holds \"{}\" twice", path, *twice)});
}

void CheckTarget(Reading& reading) {
  const Effective& e = reading.effective;
  if (!reading.IsSound({"training.metrics", "training.target_metric", "training.target"})) return;
  const auto metrics = e.Texts("training.metrics");
  const std::string& metric = e.Text("training.target_metric");
  if (std::find(metrics.begin(), metrics.end(), metric) == metrics.end()) {
    reading.AddAtValue(
        "training.target_metric",
        {.code = 1103,
         .message = fmt::format(
             "\"training.target_metric\" (\"{}\") is not in \"training.metrics\"", metric)});
  }
  if (!e.IsGiven("training.target") || metric != "accuracy") return;
  const double target = e.Number("training.target");
  if (target >= 0 && target <= 1) return;
  reading.AddAtValue(
      "training.target",
      {.code = 1102,
       .message = fmt::format("\"training.target\" is {}; allowed 0 to 1 for accuracy",
                              ToToml(*e.at("training.target").value))});
}

// A run must not end midway because its clients cannot step any more.
void CheckRates(Reading& reading) {
  const Effective& e = reading.effective;
  if (!reading.IsSound({"client.learning_rate", "client.schedule", "client.learning_rate_decay",
                        "client.decay_every", "training.rounds"})) {
    return;
  }
  ClientTraining client;
  client.learning_rate = e.Number("client.learning_rate");
  client.schedule = ScheduleOf(e.Text("client.schedule"));
  if (e.Has("client.learning_rate_decay")) {
    client.learning_rate_decay = e.Number("client.learning_rate_decay");
  }
  if (e.Has("client.decay_every")) {
    client.decay_every = static_cast<std::uint32_t>(e.Whole("client.decay_every"));
  }
  const auto rounds = static_cast<std::uint32_t>(e.Whole("training.rounds"));
  const std::uint32_t round = FirstIdleRound(client, rounds);
  if (round == 0) return;
  if (round == 1) {
    return reading.AddAtValue(
        "client.learning_rate",
        {.code = 1102,
         .message =
             fmt::format("\"client.learning_rate\" is {}: too small for any weight to change",
                         ToToml(*e.at("client.learning_rate").value)),
         .hint = "take at least 1e-37"});
  }
  reading.AddAtValue(
      "client.learning_rate_decay",
      {.code = 1103,
       .message = fmt::format(
           "\"client.learning_rate_decay\" = {} makes the step size of round {} {:.2g}: too small "
           "for any weight to change",
           ToToml(*e.at("client.learning_rate_decay").value), round,
           LearningRateOf(client, rounds, round)),
       .hint =
           fmt::format("raise it or client.decay_every, or set training.rounds = {}", round - 1)});
}

// What judges the shared model, which fedbn leaves without norm layers: nothing evaluates it.
void CheckPersonalization(Reading& reading) {
  const Effective& e = reading.effective;
  if (!reading.IsSound({"personalization.method"}) || e.Text("personalization.method") != "fedbn") {
    return;
  }
  const auto refuse = [&](std::string_view path) {
    reading.AddAtValue(
        path, {.code = 1103,
               .message = fmt::format("\"{}\" judges the shared model, which fedbn leaves without "
                                      "norm layers",
                                      path),
               .hint = "leave it out, or set personalization.method = \"none\""});
  };
  if (e.Boolean("training.stop_at_target")) refuse("training.stop_at_target");
  if (reading.IsSound({"training.patience"}) && e.Whole("training.patience") > 0) {
    refuse("training.patience");
  }
  const Setting& target = e.at("training.target");
  if (!target.is_given() || !target.value || e.Boolean("training.stop_at_target")) return;
  if (target.source == Source::kSet) return refuse("training.target");
  reading.notes.push_back({.text = "\"training.target\" judges the shared model, which fedbn "
                                   "leaves without norm layers: it has no effect"});
}

// Columns that the specification names must be among its features, and be numbers or categories,
// not both.
void CheckSpecification(Reading& reading) {
  const Effective& e = reading.effective;
  CheckNoneTwice(reading, "data.features");
  CheckNoneTwice(reading, "data.classes");
  const auto features = e.Texts("data.features");
  for (const std::string_view path :
       {std::string_view("data.categories"), std::string_view("data.scaling")}) {
    if (!e.Has(path) || !reading.IsSound({path, "data.features"})) continue;
    for (const auto& [column, item] : e.at(path).value->table()) {
      if (!features.empty() &&
          std::find(features.begin(), features.end(), column) == features.end()) {
        reading.AddAtValue(
            path, {.code = 1103,
                   .message = fmt::format("\"{}\" names \"{}\", which is not in \"data.features\"",
                                          path, column)});
      }
      if (path == "data.scaling" && e.Has("data.categories") &&
          e.at("data.categories").value->table().count(column) > 0) {
        reading.AddAtValue(
            path, {.code = 1103,
                   .message = fmt::format("\"{}\" has both categories and a scale", column)});
      }
    }
  }
  const std::size_t classes = e.Texts("data.classes").size();
  if (classes > 0 && e.IsGiven("model.classes") && e.Whole("model.classes") != classes) {
    reading.AddAtValue("model.classes",
                       {.code = 1301,
                        .message = fmt::format("\"model.classes\" is {}; \"data.classes\" names {}",
                                               e.Whole("model.classes"), classes),
                        .hint = "leave it out: data.classes says it"});
  }
}

}  // namespace

std::uint64_t RoundedShare(std::uint64_t count, double fraction) {
  constexpr std::uint64_t kMillion = 1'000'000;
  const auto millionths = static_cast<std::uint64_t>(std::llround(fraction * 1e6));
  return (count * millionths + kMillion / 2) / kMillion;
}

std::uint64_t ShareRoundedUp(std::uint64_t count, double factor) {
  constexpr std::uint64_t kMillion = 1'000'000;
  const auto millionths = static_cast<std::uint64_t>(std::llround(factor * 1e6));
  return (count * millionths + kMillion - 1) / kMillion;
}

void DeriveBeforeConditions(Reading& reading, const std::string& file, Program program) {
  Effective& e = reading.effective;
  e.Derive("name", {NameFromFile(file)});
  if (program == Program::kSimulator && !e.IsGiven("seed")) {
    e.at("seed").value = Whole(42);
    e.at("seed").source = Source::kDefault;
  }
  // Never a drawn seed: aggregator and devices must split alike.
  if (!e.IsGiven("data.partition_seed"))
    e.Derive("data.partition_seed", e.Has("seed") ? *e.at("seed").value : Whole(42));

  const bool has_specification = e.IsGiven("data.features") || e.IsGiven("data.classes");
  if (has_specification && !e.IsGiven("data.dataset")) e.at("data.dataset").value.reset();
  const bool has_owners =
      e.IsGiven("data.client_column") || e.IsGiven("data.client_file") || HasRoles(e);
  e.Derive("data.partition", {std::string(has_owners ? "natural" : "dirichlet")});
}

void DeriveAfterConditions(Reading& reading) {
  Effective& e = reading.effective;
  const auto is = [&](std::string_view path, std::string_view word) {
    return e.Has(path) && e.Text(path) == word;
  };
  if (!is("data.partition", "natural") && !e.IsGiven("data.num_clients")) {
    e.at("data.num_clients").value = Whole(100);
    e.at("data.num_clients").source = Source::kDefault;
  }
  e.Derive("data.min_examples", Whole(is("data.partition", "dirichlet") ? 10 : 1));
  if (!e.IsGiven("model.initial_model"))
    e.Derive("model.init", {std::string(is("model.architecture", "softmax") ? "zeros" : "fan-in")});
  e.Derive("admission.max_weight", Whole(is("training.weighting", "uniform") ? 1 : 1U << 20U));
  if (!e.IsGiven("training.client_eval_every")) {
    // A configuration that is saved and read again must keep within its own ranges.
    e.Derive("training.client_eval_every",
             Whole(std::min<std::uint64_t>(10, e.Whole("training.rounds"))));
  }
  const auto metrics = e.Texts("training.metrics");
  const bool has_accuracy = std::find(metrics.begin(), metrics.end(), "accuracy") != metrics.end();
  if (!has_accuracy && !e.IsGiven("training.target_metric"))
    e.Derive("training.target_metric", {metrics.front()});
  e.Derive("training.target_mode",
           {std::string(is("training.target_metric", "loss") ? "min" : "max")});
  if (e.Has("data.num_clients")) DeriveCounts(e);
}

void DeriveCounts(Effective& e) {
  const std::uint64_t clients = e.Whole("data.num_clients");
  Setting& fraction = e.at("training.client_fraction");
  if (fraction.is_given() && fraction.value) {
    e.Derive("training.clients_per_round",
             Whole(std::max<std::uint64_t>(1, RoundedShare(clients, fraction.value->number()))));
    fraction.is_superseded = true;
  } else {
    e.Derive("training.clients_per_round", Whole(std::min<std::uint64_t>(10, clients)));
  }
  if (e.Has("training.clients_per_round"))
    e.Derive("training.min_reports", Whole((e.Whole("training.clients_per_round") + 1) / 2));
}

std::uint64_t InvitedClients(const Effective& e) {
  return ShareRoundedUp(e.Whole("training.clients_per_round"), e.Number("training.over_selection"));
}

void CheckCounts(Reading& reading) {
  const Effective& e = reading.effective;
  const auto is_usable = [&](std::string_view path) {
    return e.Has(path) && reading.IsSound({path});
  };
  if (!is_usable("training.clients_per_round")) return;
  if (is_usable("training.min_reports") &&
      e.Whole("training.min_reports") > e.Whole("training.clients_per_round"))
    AddExcess(reading, "training.min_reports", "training.clients_per_round");
  if (!is_usable("data.num_clients")) return;
  const std::uint64_t clients = e.Whole("data.num_clients");
  if (e.Whole("training.clients_per_round") > clients)
    return AddExcess(reading, "training.clients_per_round", "data.num_clients", 1105);
  if (!is_usable("training.over_selection") || InvitedClients(e) <= clients) return;
  reading.AddAtKey(
      "training.over_selection",
      {.code = 1105,
       .message = fmt::format(
           "\"training.over_selection\" ({}) x \"training.clients_per_round\" ({}) invites {} "
           "clients; \"data.num_clients\" is {}",
           ToToml(*e.at("training.over_selection").value), e.Whole("training.clients_per_round"),
           InvitedClients(e), clients)});
}

void CheckExperiment(Reading& reading) {
  const Effective& e = reading.effective;
  CheckRequired(reading);
  CheckLimitsByRounds(reading);
  CheckNoneTwice(reading, "training.metrics");
  CheckTarget(reading);
  CheckRates(reading);
  CheckPersonalization(reading);
  CheckSpecification(reading);
  CheckCounts(reading);
  const bool has_most =
      e.Has("data.max_examples") && reading.IsSound({"data.max_examples", "data.min_examples"});
  if (has_most && e.Whole("data.min_examples") > e.Whole("data.max_examples"))
    AddExcess(reading, "data.min_examples", "data.max_examples");
  if (e.Has("data.dirichlet_alpha") && e.at("data.dirichlet_alpha").value->is_list()) {
    reading.AddAtValue("data.dirichlet_alpha",
                       {.code = 1019,
                        .message = "\"data.dirichlet_alpha\" as a list is not in this build; it "
                                   "has one number for all clients"});
  }
}

void AddWarnings(Reading& reading, Program program) {
  const Effective& e = reading.effective;
  const double rate = e.Number("client.learning_rate");
  constexpr double kDefaultRate = 0.1;
  if (rate > 10 * kDefaultRate) {
    reading.notes.push_back(
        {.text = fmt::format("\"client.learning_rate\" is {}, {:.0f}x the default {}",
                             ToToml(*e.at("client.learning_rate").value), rate / kDefaultRate,
                             kDefaultRate)});
  }
  if (program != Program::kAggregator) return;
  if (e.IsGiven("seed")) {
    reading.notes.push_back(
        {.code = 5314,
         .text = e.at("seed").key_place.Text() +
                 ": \"seed\" is given: whoever knows it can predict the cohorts",
         .hint = "leave it out, except to compare with a simulation"});
  }
  std::string ignored;
  for (const std::string_view section : {"devices", "attack", "run"}) {
    const auto& settings = e.settings();
    const bool is_given = std::any_of(settings.begin(), settings.end(), [&](const Setting& s) {
      return s.key->section == section && s.is_given();
    });
    if (is_given) ignored += fmt::format("{}[{}]", ignored.empty() ? "" : ", ", section);
  }
  if (!ignored.empty())
    reading.notes.push_back({.text = ignored + ": for the simulator; checked, then ignored"});
}

}  // namespace skep::config
