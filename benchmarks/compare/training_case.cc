#include "benchmarks/compare/training_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "shared/base/file.h"
#include "shared/base/rng.h"
#include "shared/base/try.h"

namespace skep::bench {
namespace {

constexpr std::size_t kExamples = 600;  // of one client
constexpr std::size_t kEpochs = 10;
constexpr std::uint64_t kSeed = 1;

struct Recipe {
  const char* name;
  std::vector<std::uint32_t> input;
  std::uint32_t classes;
  float learning_rate;
};

const std::array<Recipe, 5>& Recipes() {
  static const std::array<Recipe, 5> recipes{{{"softmax", {784}, 10, 0.02F},
                                              {"2nn", {784}, 10, 0.02F},
                                              {"fedavg-cnn", {1, 28, 28}, 10, 0.02F},
                                              {"char-lstm", {80}, 65, 0.5F},
                                              {"resnet8", {3, 32, 32}, 10, 0.002F}}};
  return recipes;
}

std::vector<float> RandomExamples(const model::ModelSpec& spec) {
  RandomStream stream(kSeed, {.purpose = Purpose::kSyntheticData});
  std::vector<float> x(kExamples * spec.input_values());
  for (float& value : x) {
    value = spec.input_symbols() != 0 ? static_cast<float>(stream.Below(spec.input_symbols()))
                                      : static_cast<float>(stream.Uniform());
  }
  return x;
}

std::vector<std::int32_t> RandomLabels(const model::ModelSpec& spec) {
  RandomStream stream(kSeed, {.purpose = Purpose::kSyntheticData, .client = 1});
  std::vector<std::int32_t> labels(kExamples * spec.positions());
  for (std::int32_t& label : labels) {
    label = static_cast<std::int32_t>(stream.Below(spec.outputs()));
  }
  return labels;
}

// Full batches only: what fills none at the end of an epoch is left out.
std::vector<std::uint32_t> RandomOrder(std::size_t batch) {
  RandomStream stream(kSeed, {.purpose = Purpose::kBatchOrder});
  std::vector<std::uint32_t> examples(kExamples);
  std::iota(examples.begin(), examples.end(), 0U);
  std::vector<std::uint32_t> order;
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
    stream.Shuffle(std::span<std::uint32_t>(examples));
    const auto count = static_cast<std::ptrdiff_t>(kExamples / batch * batch);
    order.insert(order.end(), examples.begin(), examples.begin() + count);
  }
  return order;
}

template <class T>
Status WriteArray(const std::string& path, std::span<const T> values) {
  return WriteFileAtomically(
      path, {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()});
}

std::string CaseJson(const TrainingCase& training) {
  std::vector<std::string> tensors;
  for (const model::TensorSpec& tensor : training.spec.layout()->tensors()) {
    tensors.push_back(
        fmt::format("{{\"name\": \"{}\", \"shape\": {}}}", tensor.name, tensor.shape));
  }
  return fmt::format(
      "{{\"name\": \"{}\", \"batch\": {}, \"input\": {}, \"symbols\": {}, \"classes\": {},\n"
      " \"positions\": {}, \"learning_rate\": {}, \"tensors\": [{}]}}\n",
      training.name, training.batch, training.spec.input(), training.spec.input_symbols(),
      training.spec.outputs(), training.spec.positions(), training.learning_rate,
      fmt::join(tensors, ", "));
}

struct Product {
  double weights = 0;
  double places = 0;  // of an example at which they multiply
};

std::vector<Product> ProductsOf(const model::Layer& layer) {
  if (const auto* dense = std::get_if<model::DenseLayer>(&layer)) {
    return {{static_cast<double>(dense->inputs) * dense->outputs,
             static_cast<double>(dense->positions)}};
  }
  if (const auto* conv = std::get_if<model::ConvLayer>(&layer)) {
    const double window = static_cast<double>(conv->kernel_height) * conv->kernel_width;
    const std::uint32_t inputs = conv->in.channels / conv->groups;
    return {{window * inputs * conv->out.channels, static_cast<double>(conv->out.Pixels())}};
  }
  if (const auto* recurrent = std::get_if<model::RecurrentLayer>(&layer)) {
    const double gates = static_cast<double>(recurrent->gates()) * recurrent->hidden;
    return {
        {gates * (recurrent->inputs + recurrent->hidden), static_cast<double>(recurrent->length)}};
  }
  return {};
}

}  // namespace

Result<TrainingCase> MakeTrainingCase(const std::string& name, std::size_t batch) {
  const auto& recipes = Recipes();
  const auto recipe = std::find_if(recipes.begin(), recipes.end(),
                                   [&](const Recipe& known) { return known.name == name; });
  if (recipe == recipes.end() || batch == 0 || batch > kExamples) {
    return Error{1102, fmt::format("no case \"{}\" of batches of {}", name, batch), ""};
  }
  const model::PresetWishes wishes{
      .input = recipe->input, .classes = recipe->classes, .hidden = {}};
  SKEP_ASSIGN(const auto lines, model::PresetLines(name, wishes));
  SKEP_ASSIGN(auto spec, model::ModelSpec::Parse(recipe->input, lines));
  model::Params initial = model::InitialParams(spec, model::Initialiser::kFanIn, kSeed);
  std::vector<float> x = RandomExamples(spec);
  std::vector<std::int32_t> labels = RandomLabels(spec);
  return TrainingCase{.name = name,
                      .batch = batch,
                      .spec = std::move(spec),
                      .learning_rate = recipe->learning_rate,
                      .x = std::move(x),
                      .labels = std::move(labels),
                      .order = RandomOrder(batch),
                      .initial = std::move(initial)};
}

Status WriteTrainingCase(const TrainingCase& training, const std::string& folder) {
  const std::string json = CaseJson(training);
  SKEP_TRY(WriteArray<float>(folder + "/x.f32", training.x));
  SKEP_TRY(WriteArray<std::int32_t>(folder + "/labels.i32", training.labels));
  SKEP_TRY(WriteArray<std::uint32_t>(folder + "/order.i32", training.order));
  SKEP_TRY(WriteArray<float>(folder + "/weights.f32", training.initial.values()));
  return WriteArray<char>(folder + "/case.json", json);
}

StepWork CountStep(const model::ModelSpec& spec, std::size_t batch) {
  StepWork work;
  bool is_above_parameters = false;
  for (const model::Layer& layer : spec.layers()) {
    for (const Product& product : ProductsOf(layer)) {
      const double passes = is_above_parameters ? 3 : 2;
      work.flops += passes * 2 * product.weights * product.places * static_cast<double>(batch);
      work.weight_bytes += (is_above_parameters ? 16 : 12) * product.weights;
      is_above_parameters = true;
    }
    is_above_parameters =
        is_above_parameters || std::holds_alternative<model::EmbeddingLayer>(layer);
  }
  return work;
}

}  // namespace skep::bench
