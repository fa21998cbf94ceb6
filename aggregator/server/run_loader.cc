#include "aggregator/server/run_loader.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "aggregator/evaluator.h"
#include "crypto/csprng.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"
#include "shared/data/experiment_data.h"
#include "shared/wire/codec.h"
#include "shared/wire/text.h"

namespace skep::aggregator {
namespace {

using config::Problem;

constexpr int kDamaged = 4007;
constexpr int kNoPopulation = 5315;
constexpr int kNoDataSpec = 5316;
constexpr int kNotFinite = 5310;
constexpr int kOtherLayout = 5305;
constexpr const char* kPaths[] = {"data.path", "data.test_path", "data.client_file",
                                  "model.initial_model"};

std::vector<Problem> Refuse(Error error) {
  Problem problem;
  problem.code = error.code;
  problem.message = std::move(error.message);
  problem.hint = std::move(error.hint);
  return {problem};
}

// The data, or only their description where the aggregator has none.
struct Source {
  data::DataSpec spec;
  std::vector<std::uint32_t> input_shape;
  std::uint32_t labels_per_row = 0;  // 0: not known here
  std::shared_ptr<const data::Dataset> test;
  config::DataFacts facts;
  std::vector<std::string> notes;
};

data::DataSpec SpecOf(const config::DataConfig& data) {
  data::DataSpec spec;
  if (data.task == "next_token") spec.task = data::Task::kNextToken;
  spec.classes = data.classes;
  spec.label = data.label;
  for (const std::string& name : data.features) {
    data::Feature feature;
    feature.name = name;
    if (const auto known = data.categories.find(name); known != data.categories.end()) {
      feature.is_categorical = true;
      feature.categories = known->second;
    } else if (const auto scaled = data.scaling.find(name); scaled != data.scaling.end()) {
      feature.offset = scaled->second.first;
      feature.scale = scaled->second.second;
    }
    spec.features.push_back(std::move(feature));
  }
  return spec;
}

Result<Source> DescribedSource(const config::Experiment& experiment) {
  Source source;
  source.spec = SpecOf(experiment.data);
  if (source.spec.features.empty() && !experiment.model.input.empty()) {
    source.spec.features.push_back({.name = "x", .categories = {}});
    source.input_shape = experiment.model.input;
  } else if (source.spec.task == data::Task::kNextToken) {
    source.input_shape = {experiment.data.text_length};
  } else {
    source.input_shape = {source.spec.InputValues()};
  }
  if (source.spec.features.empty() || source.spec.classes.empty()) {
    return Error{kNoDataSpec, "the experiment names neither data nor their features and classes",
                 "paste what `skep-simulator schema` prints for the devices' data"};
  }
  source.facts.classes = static_cast<std::uint32_t>(source.spec.classes.size());
  source.facts.input = source.input_shape;
  return source;
}

Result<Source> ReadSource(const config::Experiment& experiment) {
  if (experiment.data.dataset.empty() && experiment.data.path.empty()) {
    return DescribedSource(experiment);
  }
  SKEP_ASSIGN(data::LoadedData loaded,
              data::Load(data::DataOptionsOf(experiment.data, experiment.seed)));
  Source source;
  source.spec = std::move(loaded.spec);
  source.input_shape = loaded.train->input_shape;
  source.labels_per_row = loaded.train->labels_per_row;
  source.test = std::move(loaded.test);
  source.notes = std::move(loaded.notes);
  source.facts.rows = loaded.train->rows;
  if (!loaded.train->owner.empty()) {
    source.facts.owners = static_cast<std::uint32_t>(loaded.train->owner_names.size());
  }
  source.facts.classes = static_cast<std::uint32_t>(source.spec.classes.size());
  source.facts.input = source.input_shape;
  return source;
}

// A restart may happen in any folder.
void MakePathsAbsolute(config::Effective& effective, const std::string& folder) {
  for (const char* path : kPaths) {
    if (!effective.Has(path) || effective.Text(path).empty()) continue;
    const std::filesystem::path absolute =
        std::filesystem::absolute(std::filesystem::path(folder) / effective.Text(path));
    effective.at(path).value = config::Value(absolute.lexically_normal().string());
  }
}

Result<std::uint64_t> DrawSeed() {
  SKEP_ASSIGN(const auto bytes, (crypto::RandomId<FixedBytes<8, struct SeedTag>>()));
  return LoadLittle<std::uint64_t>(bytes.bytes.data()) >> 1U;
}

Result<model::ParamsPtr> FirstModel(const config::Experiment& experiment, const RunSpec& spec,
                                    std::vector<std::string>& notes) {
  Result<model::Params> made = MakeInitialModel(experiment, spec.model, spec.seed, &notes);
  if (!made) {
    Error error = std::move(made).error();
    if (error.code == 1301) error.code = kOtherLayout;
    return error;
  }
  for (const float value : std::as_const(made.value()).values()) {
    if (!std::isfinite(value)) {
      return Error{kNotFinite, "the initial model holds NaN or infinity", "give another model"};
    }
  }
  return std::make_shared<const model::Params>(std::move(made).value());
}

std::unique_ptr<Evaluator> EvaluatorOf(std::shared_ptr<const data::Dataset> test,
                                       const EvaluationMeans& means) {
  return test ? MakeEvaluator(std::move(test), means.isa, means.pool) : nullptr;
}

}  // namespace

StartedRun DescribeRun(const RunSpec& spec) {
  // It was encoded when the specification was made.
  const Bytes plan = wire::EncodePlan(spec.plan).value();
  StartedRun answer;
  answer.id = spec.id;
  answer.name = spec.name;
  answer.population = spec.population;
  answer.seed = spec.seed;
  answer.plan_sha256 = Sha256::Of(plan);
  answer.plan_bytes = plan.size();
  answer.initial_model = spec.initial_model;
  answer.model_bytes = spec.model.layout()->model_values() * sizeof(float);
  answer.update_bytes = spec.model.layout()->update_values() * sizeof(float);
  answer.invited = spec.training.invited;
  return answer;
}

namespace {

Result<PreparedRun> Build(const config::Loaded<config::Experiment>& loaded, Source source,
                          const std::string& population, const EvaluationMeans& means) {
  RunInputs inputs;
  SKEP_ASSIGN(inputs.id, crypto::RandomId<RunId>());
  inputs.population = population;
  inputs.seed = loaded.value.seed;
  inputs.data = std::move(source.spec);
  inputs.input_shape = source.input_shape;
  inputs.labels_per_row = source.labels_per_row;
  inputs.has_test_data = source.test != nullptr;
  SKEP_ASSIGN(RunSpec spec, MakeRunSpec(loaded.value, inputs));
  PreparedRun run;
  SKEP_ASSIGN(run.initial, FirstModel(loaded.value, spec, source.notes));
  spec.initial_model = run.initial->ModelHash();
  for (std::string& note : PersonalNotes(spec)) source.notes.push_back(std::move(note));
  run.answer = DescribeRun(spec);
  run.answer.notes = loaded.notes;
  for (std::string& note : source.notes) run.answer.notes.push_back({.text = std::move(note)});
  run.evaluator = EvaluatorOf(std::move(source.test), means);
  run.spec = std::make_shared<const RunSpec>(std::move(spec));
  run.experiment_toml = loaded.effective.AsToml();
  return run;
}

data::DataSpec SpecOf(const wire::DataSpec& sent) {
  data::DataSpec spec;
  spec.task = static_cast<data::Task>(sent.task);
  spec.classes = sent.classes;
  spec.label = sent.label;
  for (const wire::Feature& feature : sent.features) {
    spec.features.push_back({.name = feature.name,
                             .is_categorical = feature.kind == wire::FeatureKind::kCategorical,
                             .offset = feature.offset,
                             .scale = feature.scale,
                             .categories = feature.categories});
  }
  return spec;
}

// A restart goes on at once; the test data are read when a model is to be evaluated.
class LateEvaluator final : public Evaluator {
 public:
  LateEvaluator(data::DataOptions options, const EvaluationMeans& means)
      : options_(std::move(options)), means_(means) {}

  Result<Evaluated> Evaluate(const RunSpec& spec, const model::Params& params) override {
    if (!evaluator_) {
      SKEP_ASSIGN(data::LoadedData loaded, data::Load(options_));
      evaluator_ = EvaluatorOf(std::move(loaded.test), means_);
    }
    // Whether the data have a test part is not stored: without one nothing was ever measured.
    if (!evaluator_) return Evaluated{};
    return evaluator_->Evaluate(spec, params);
  }

 private:
  data::DataOptions options_;
  EvaluationMeans means_;
  std::unique_ptr<Evaluator> evaluator_;
};

}  // namespace

std::string RequestKeyOf(const StartRequest& request) {
  if (!request.request_key.empty()) return request.request_key;
  std::string all;
  for (const std::string* part : {&request.text, &request.path, &request.population}) {
    all += fmt::format("{}\n{}\n", part->size(), *part);
  }
  for (const std::string& set : request.sets) all += set + "\n";
  return Sha256::Of(AsBytes(all)).Hex();
}

config::Validated<PreparedRun> PrepareRun(const StartRequest& request,
                                          const EvaluationMeans& means) {
  const config::LoadOptions options{
      .sets = request.sets, .program = config::Program::kAggregator, .folder = request.folder};
  auto parsed = config::ParseExperiment(request.text, request.path, options);
  if (!parsed) return parsed.problems();
  config::Loaded<config::Experiment> loaded = std::move(parsed).value();
  const std::string population =
      request.population.empty() ? loaded.value.population : request.population;
  if (population.empty()) {
    return Refuse({kNoPopulation, "the run names no population", "--population NAME"});
  }
  if (!wire::IsName(population)) {
    return Refuse({5408, "the population's name is not a name", "use letters, digits, _ and -"});
  }
  if (!loaded.value.is_seed_given) {
    const Result<std::uint64_t> seed = DrawSeed();
    if (!seed) return Refuse(seed.error());
    config::SetDrawnSeed(loaded, seed.value());
  }
  Result<Source> source = ReadSource(loaded.value);
  if (!source) return Refuse(std::move(source).error());
  auto problems = config::FinishExperiment(loaded, source.value().facts);
  if (!problems.empty()) return problems;
  MakePathsAbsolute(loaded.effective, request.folder);
  Result<PreparedRun> run = Build(loaded, std::move(source).value(), population, means);
  if (!run) {
    return std::vector{config::ProblemOf(
        run.error(), loaded.effective,
        {"model.layers", "model.hidden", "model.architecture", "data.format", "data.path"})};
  }
  return std::move(run).value();
}

Result<RestoredRun> RestoreRun(const RunRow& row, const EvaluationMeans& means) {
  const std::string name = "run " + row.name;
  const auto parsed = config::ParseExperiment(
      row.experiment_toml, name, {.sets = {}, .program = config::Program::kAggregator});
  if (!parsed) {
    Error error = config::AsError(parsed.problems());
    error.code = kDamaged;
    return std::move(error).Within("the stored experiment of " + name);
  }
  const Result<wire::Plan> plan = wire::DecodePlan(row.plan);
  if (!plan || !plan.value().data) return Error{kDamaged, "the stored plan of " + name, ""};
  const config::Experiment& experiment = parsed.value().value;
  const bool has_data = !experiment.data.dataset.empty() || !experiment.data.path.empty();
  RunInputs inputs;
  inputs.id = row.id;
  inputs.population = row.population;
  inputs.seed = row.seed;
  inputs.data = SpecOf(*plan.value().data);
  inputs.input_shape = experiment.model.input;
  inputs.has_test_data = has_data;
  inputs.initial_model = row.model;
  SKEP_ASSIGN(RunSpec spec, MakeRunSpec(experiment, inputs));
  spec.plan = plan.value();
  RestoredRun run;
  if (has_data) {
    data::DataOptions options = data::DataOptionsOf(experiment.data, row.seed);
    options.plan = inputs.data;
    run.evaluator = std::make_unique<LateEvaluator>(std::move(options), means);
  }
  run.spec = std::make_shared<const RunSpec>(std::move(spec));
  return run;
}

}  // namespace skep::aggregator
