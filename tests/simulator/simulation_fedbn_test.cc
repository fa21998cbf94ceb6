// Runs whose clients keep their norm layers: the same for every worker and lane, resumed and after
// abandoned attempts; and what they are for.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "shared/base/rng.h"
#include "shared/model/safetensors.h"
#include "simulator/checkpoint.h"
#include "simulator/own_states.h"
#include "tests/emulator/host_device.h"
#include "tests/simulator/fixture.h"

namespace skep::simulator {
namespace {

using Sets = std::vector<std::string>;

// These, and a batch norm that suits the small table where they do not say otherwise.
Sets With(Sets sets) {
  const auto gives = [&](const std::string& key) {
    return std::any_of(sets.begin(), sets.end(),
                       [&](const std::string& set) { return set.starts_with(key + "="); });
  };
  if (!gives("model.normalization") && !gives("model.layers")) {
    sets.emplace_back("model.normalization=batch");
  }
  if (!gives("client.batch_tail")) sets.emplace_back("client.batch_tail=merge");
  return sets;
}

Sets FedBn(Sets sets = {}) {
  sets.emplace_back("personalization.method=fedbn");
  return With(std::move(sets));
}

Outcome RunWith(const ExperimentFolder& folder, const Sets& sets) {
  return RunToEnd(MakeSetup(folder.MakePlanWith(sets)));
}

config::Problem Refusal(const ExperimentFolder& folder, const Sets& sets) {
  auto prepared = Prepare({.file = folder.path("experiment.toml"), .sets = sets, .folder = ""});
  if (!prepared.has_value()) return prepared.problems().front();
  const auto plan = MakePlan(std::move(prepared).value(), RunId{});
  REQUIRE_FALSE(plan.has_value());
  return plan.problems().front();
}

bool SameOwn(const OwnStates& a, const OwnStates& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const OwnState& x, const OwnState& y) {
        return x.client == y.client && x.update == y.update && *x.tensors == *y.tensors;
      });
}

TEST_CASE("clients keep their norm layers: neither model nor update nor file has them", "[unit]") {
  const ExperimentFolder folder;
  const Plan plan = folder.MakePlanWith(FedBn());
  const model::Layout& layout = *plan.spec->model.layout();
  std::set<std::string> kept;
  for (const wire::TensorSpec& tensor : plan.spec->plan.layout) {
    if (tensor.role == wire::TensorRole::kPrivate) kept.insert(tensor.name.substr(0, 4));
  }
  CHECK(kept == std::set<std::string>{"norm"});
  CHECK(layout.private_values() > 0);
  CHECK(layout.model_values() + layout.private_values() == layout.values());

  const Outcome outcome = RunToEnd(MakeSetup(plan));
  REQUIRE(outcome.end.state == EndState::kFinished);
  REQUIRE_FALSE(outcome.recording.clients.empty());
  for (const ClientRecord& client : outcome.recording.clients) {
    CHECK(client.bytes_up == layout.update_values() * sizeof(float));
    CHECK(client.bytes_down == layout.model_values() * sizeof(float));
  }
  // What is published has them as every client started.
  const model::Params& last = *outcome.checkpoints.models.back();
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const model::TensorSpec& tensor = layout.tensors()[i];
    if (tensor.role != model::Role::kPrivate) continue;
    for (const float value : last.Tensor(i)) CHECK(value == tensor.initial);
  }
  const auto file = model::DecodeTensorFile(model::EncodeModel(last, {}));
  REQUIRE(file.has_value());
  for (const model::FileTensor& tensor : file->tensors) {
    CHECK(tensor.name.find("norm") == std::string::npos);
  }
}

TEST_CASE("fedbn gives another model than averaging, and is evaluated on the clients alone",
          "[unit]") {
  const ExperimentFolder folder;
  const Outcome own = RunWith(folder, FedBn());
  const Outcome averaged = RunWith(folder, With({}));
  CHECK(own.end.model != averaged.end.model);
  CHECK(averaged.recording.rounds.back().metrics.count("test/accuracy") == 1);
  CHECK(own.recording.rounds.back().metrics.count("test/accuracy") == 0);
  CHECK(own.recording.rounds.back().metrics.count("client/accuracy_mean") == 1);
  const Plan plan = folder.MakePlanWith(FedBn());
  CHECK(plan.prepared.data.notes.back().find("no central evaluation") != std::string::npos);
  const Plan blind = folder.MakePlanWith(FedBn({"data.client_test_fraction=0"}));
  CHECK(blind.prepared.data.notes.back().find("data.client_test_fraction = 0.2") !=
        std::string::npos);
}

TEST_CASE("fedbn gives the same bits for every number of workers", "[unit]") {
  const ExperimentFolder folder;
  for (const char* norm : {"model.normalization=batch", "model.normalization=group"}) {
    INFO(norm);
    const Outcome one = RunWith(folder, FedBn({norm, "run.jobs=1"}));
    REQUIRE(one.end.state == EndState::kFinished);
    for (const char* jobs : {"run.jobs=2", "run.jobs=4"}) {
      const Outcome many = RunWith(folder, FedBn({norm, jobs}));
      CHECK(many.end.model == one.end.model);
      CHECK(many.end.result_sha256 == one.end.result_sha256);
      CHECK(SameOwn(many.checkpoints.own.back(), one.checkpoints.own.back()));
    }
  }
}

TEST_CASE("fedbn gives the same bits for every number of lanes of a device", "[unit]") {
  const ExperimentFolder folder;
  const auto run = [&](std::uint32_t lanes) {
    auto prepared = Prepare({.file = folder.path("experiment.toml"),
                             .sets = FedBn({"training.clients_per_round=9", "training.rounds=3",
                                            "model.architecture=layers",
                                            "model.layers=[\"dense 6\", \"norm batch\", \"relu\", "
                                            "\"dense 2\"]"}),
                             .folder = ""});
    REQUIRE(prepared.has_value());
    auto plan = MakePlan(std::move(prepared).value(), RunId{}, [](const kernels::DeviceChoice&) {
      return Result<kernels::ChosenDevice>(kernels::ChosenDevice{
          std::make_unique<emulator::HostDevice>(
              emulator::HostDevice::Options{.total_bytes = std::uint64_t{1} << 30U}),
          "cuda:0, emulated"});
    });
    REQUIRE(plan.has_value());
    SimulationSetup setup = MakeSetup(*plan);
    REQUIRE(setup.lanes.count == 9);
    setup.lanes.count = lanes;
    setup.lanes.device.clients = lanes;
    return RunToEnd(std::move(setup));
  };
  const Outcome one = run(1);
  REQUIRE(one.end.state == EndState::kFinished);
  for (const std::uint32_t lanes : {4U, 9U}) {
    const Outcome many = run(lanes);
    CHECK(many.end.result_sha256 == one.end.result_sha256);
    CHECK(SameOwn(many.checkpoints.own.back(), one.checkpoints.own.back()));
  }
}

TEST_CASE("a fedbn run that is resumed ends as the one that was not interrupted", "[unit]") {
  const ExperimentFolder folder;
  const Outcome whole = RunWith(folder, FedBn());
  for (const std::uint32_t round : {1U, 3U, 5U}) {
    SimulationSetup setup = MakeSetup(folder.MakePlanWith(FedBn()));
    setup.resume = PointAfter(whole, round);
    const Outcome rest = RunToEnd(std::move(setup));
    CHECK(rest.end.model == whole.end.model);
    CHECK(rest.end.result_sha256 == whole.end.result_sha256);
    CHECK(SameOwn(rest.checkpoints.own.back(), whole.checkpoints.own.back()));
  }
  // What clients kept matters.
  SimulationSetup without = MakeSetup(folder.MakePlanWith(FedBn()));
  without.resume = PointAfter(whole, 3);
  without.resume->own.clear();
  CHECK(RunToEnd(std::move(without)).end.model != whole.end.model);
}

TEST_CASE("attempts that came to nothing leave no trace in the clients' norm layers", "[unit]") {
  const ExperimentFolder folder;
  // Everybody, so that each attempt has the same cohort.
  const Sets all{"training.clients_per_round=12", "training.min_reports=12",
                 "training.max_attempts=50"};
  const Outcome smooth = RunWith(folder, FedBn(all));
  Sets rough = all;
  rough.insert(rough.end(), {"devices.dropout=0.08", "devices.dropout_phase=upload"});
  const Outcome failed = RunWith(folder, FedBn(rough));
  REQUIRE(failed.end.state == EndState::kFinished);
  CHECK(failed.recording.rounds.size() > smooth.recording.rounds.size());
  CHECK(failed.end.model == smooth.end.model);
  REQUIRE(failed.checkpoints.own.back().size() == 12);
  // Ids are of the attempt that counted; the tensors are the same.
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(*failed.checkpoints.own.back()[i].tensors == *smooth.checkpoints.own.back()[i].tensors);
  }
}

TEST_CASE("an update that was refused leaves its client where it was", "[unit]") {
  const ExperimentFolder folder;
  const Outcome free =
      RunWith(folder, FedBn({"training.rounds=1", "training.client_eval_every=1"}));
  std::vector<double> norms;
  for (const ClientRecord& client : free.recording.clients) {
    if (client.round == 1) norms.push_back(client.update_norm.value());
  }
  std::sort(norms.begin(), norms.end());
  REQUIRE(norms.size() == 4);
  // Between the largest two: one client of the first round is refused.
  const std::string limit = "admission.max_norm=" + std::to_string((norms[2] + norms[3]) / 2);
  const Outcome limited =
      RunWith(folder, FedBn({"training.rounds=1", "training.client_eval_every=1", limit}));
  std::optional<ClientNumber> refused;
  for (const ClientRecord& client : limited.recording.clients) {
    if (client.outcome == aggregator::Outcome::kRejected) refused = client.client;
  }
  REQUIRE(refused.has_value());
  CHECK(limited.checkpoints.own.back().size() == 3);
  for (const OwnState& own : limited.checkpoints.own.back()) CHECK(own.client != *refused);
}

TEST_CASE("fedbn is refused where it means nothing", "[unit]") {
  const ExperimentFolder folder;
  const config::Problem none = Refusal(folder, {"personalization.method=fedbn"});
  CHECK(none.code == 1103);
  CHECK(none.message == "personalization.method = \"fedbn\" needs a model with norm layers");
  CHECK(Refusal(folder, {"personalization.method=ditto"}).code == 1019);
  CHECK(Refusal(folder, FedBn({"training.patience=3"})).code == 1103);
  CHECK(Refusal(folder, FedBn({"training.target=0.9", "training.stop_at_target=true"})).code ==
        1103);
  CHECK(Refusal(folder, FedBn({"client.batch_size=1"})).code == 1303);
}

TEST_CASE("a last batch of one row is merged or refused, and never gives NaN", "[unit]") {
  const ExperimentFolder folder;
  // 12 clients of 16 training rows each: batches of 5 leave one.
  CHECK(Refusal(folder, FedBn({"client.batch_tail=keep"})).code == 1303);
  const Outcome merged = RunWith(folder, FedBn());
  REQUIRE(merged.end.state == EndState::kFinished);
  for (const ClientRecord& client : merged.recording.clients) {
    CHECK(client.outcome == aggregator::Outcome::kOk);
    CHECK(std::isfinite(client.train_loss.value()));
  }
}

TEST_CASE("norm layers of an initial model are passed over, with a note", "[unit]") {
  const ExperimentFolder folder;
  const Plan plain = folder.MakePlanWith(With({}));
  model::Params given = *plain.initial;
  for (float& value : given.values()) value += 0.5F;
  const Bytes bytes = model::EncodeModel(given, {});
  (void)folder.folder().Write("m.safetensors", std::string(bytes.begin(), bytes.end()));
  const Plan plan = folder.MakePlanWith(FedBn({"model.initial_model=m.safetensors"}));
  const model::Layout& layout = *plan.initial->layout();
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const model::TensorSpec& tensor = layout.tensors()[i];
    const bool is_own = tensor.role == model::Role::kPrivate;
    CHECK(plan.initial->Tensor(i)[0] == (is_own ? tensor.initial : given.Tensor(i)[0]));
  }
  const auto& notes = plan.prepared.data.notes;
  CHECK(std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
    return note.find("whatever the initial model holds") != std::string::npos;
  }));
  // What a fedbn run published has none, and starts the next one.
  const Outcome outcome = RunToEnd(MakeSetup(plan));
  const Bytes published = model::EncodeModel(*outcome.checkpoints.models.back(), {});
  (void)folder.folder().Write("p.safetensors", std::string(published.begin(), published.end()));
  const Plan next = folder.MakePlanWith(FedBn({"model.initial_model=p.safetensors"}));
  CHECK(next.spec->initial_model == outcome.end.model);
}

TEST_CASE("checkpoints hold what clients keep, and one whose file is not whole is passed over",
          "[unit]") {
  const ExperimentFolder folder;
  const Plan plan = folder.MakePlanWith(FedBn());
  const model::LayoutPtr& layout = plan.spec->model.layout();
  const Outcome outcome = RunToEnd(MakeSetup(plan));
  const test::TemporaryFolder run;
  CheckpointRules rules;
  rules.folder = run.path().string();
  rules.metadata = {{"skep.config_sha256", plan.config_sha256.Hex()}};
  Recording recording;
  Checkpoints checkpoints(rules, recording, [] { return Ok(); });
  MetricsHistory history;
  for (std::uint32_t round = 1; round <= 6; ++round) {
    const std::size_t at = round - 1;
    REQUIRE(checkpoints
                .Write({.round = round,
                        .model = *outcome.checkpoints.models[at],
                        .own = outcome.checkpoints.own[at]})
                .has_value());
    history.published.push_back({.record = outcome.recording.rounds[at], .end_bytes = 0});
  }
  std::vector<std::string> notes;
  const auto find = [&] {
    return FindResumePoint(rules.folder, history, plan.config_sha256, layout, notes);
  };
  const auto point = find();
  REQUIRE(point.has_value());
  CHECK(point->round == 6);
  CHECK(SameOwn(point->own, outcome.checkpoints.own.back()));
  const std::string path = OwnStatesPath(CheckpointPath(rules.folder, 6));
  CHECK(std::filesystem::exists(OwnStatesPath(CheckpointPath(rules.folder, 5))));
  CHECK_FALSE(std::filesystem::exists(OwnStatesPath(CheckpointPath(rules.folder, 4))));
  // One bit of the values, then half of the file, then none of it.
  const auto size = std::filesystem::file_size(path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size - 100));
  file.put('\x55');
  file.close();
  CHECK(find()->round == 5);
  std::filesystem::resize_file(path, size / 2);
  CHECK(find()->round == 5);
  std::filesystem::remove(path);
  CHECK(find()->round == 5);
  CHECK(notes.size() == 3);
}

// Sites whose instruments differ in scale and offset: eight features, the class is which half of
// them is larger.
std::string ShiftedTable() {
  RandomStream stream(11, {.purpose = Purpose::kSyntheticData});
  std::string text = "site,";
  for (int i = 0; i < 8; ++i) text += "x" + std::to_string(i) + ",";
  text += "outcome\n";
  for (int site = 0; site < 8; ++site) {
    const double scale = 0.25 * (1 << (site % 5));
    const double shift = 3.0 * (site - 4);
    for (int row = 0; row < 60; ++row) {
      const bool is_high = row % 2 == 1;
      text += "s" + std::to_string(site) + ",";
      for (int i = 0; i < 8; ++i) {
        const double mean = (i < 4) == is_high ? 0.7 : -0.7;
        text += std::to_string(scale * (stream.Normal() + mean) + shift) + ",";
      }
      text += std::string(is_high ? "high" : "low") + "\n";
    }
  }
  return text;
}

TEST_CASE("where clients' features differ in scale and offset, fedbn beats averaging", "[unit]") {
  const ExperimentFolder folder;
  (void)folder.folder().Write("table.csv", ShiftedTable());
  const auto accuracy = [&](const std::string& method) {
    const Outcome outcome = RunWith(
        folder,
        {"personalization.method=" + method, "data.client_column=site", "data.partition=natural",
         "data.num_clients=8", "data.normalize=none", "data.client_test_fraction=0.3",
         "model.architecture=layers",
         "model.layers=[\"norm batch\", \"dense 16\", \"norm batch\", \"relu\", \"dense 2\"]",
         "training.rounds=15", "training.clients_per_round=8", "training.client_eval_every=15",
         "client.batch_size=10", "client.batch_tail=merge"});
    REQUIRE(outcome.end.state == EndState::kFinished);
    return outcome.recording.rounds.back().metrics.at("client/accuracy_mean").value();
  };
  const double own = accuracy("fedbn");
  const double averaged = accuracy("none");
  INFO("fedbn " << own << ", averaged " << averaged);
  CHECK(own > 0.85);
  CHECK(own > averaged + 0.05);
}

}  // namespace
}  // namespace skep::simulator
