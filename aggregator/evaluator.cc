#include "aggregator/evaluator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "kernels/nn/network.h"

namespace skep::aggregator {
namespace {

constexpr std::size_t kBlockRows = 256;  // fixed: part of the order in which losses are added

struct BlockSums {
  double loss = 0;  // of the labels that count
  std::size_t counted = 0;
  std::size_t correct = 0;
  const char* fault = nullptr;  // why the block cannot be evaluated

  void Add(const BlockSums& other) {
    loss += other.loss;
    counted += other.counted;
    correct += other.correct;
    if (fault == nullptr) fault = other.fault;
  }
};

// Labels are below this.
std::int32_t ClassesOf(const RunSpec& spec) {
  const bool is_binary =
      spec.model.outputs() == 1 && spec.loss != kernels::LossKind::kSoftmaxCrossEntropy;
  return is_binary ? 2 : static_cast<std::int32_t>(spec.model.outputs());
}

bool IsText(const RunSpec& spec) {
  return spec.plan.data && spec.plan.data->task == wire::DataTask::kNextToken;
}

bool AreSymbols(std::span<const float> x, std::uint32_t symbols) {
  return std::all_of(x.begin(), x.end(), [symbols](float value) {
    return value >= 0 && value < static_cast<float>(symbols) && value == std::floor(value);
  });
}

}  // namespace

struct DatasetEvaluator::Workspace {
  Workspace(const RunSpec& spec, kernels::Isa isa)
      : network(spec.model, 1, isa, spec.loss),
        x(kBlockRows * spec.model.input_values()),
        y(kBlockRows * spec.model.positions()) {}

  BlockSums Evaluate(const RunSpec& spec, const data::Dataset& test, const model::Params& params,
                     std::size_t block) {
    const std::size_t first = block * kBlockRows;
    rows.resize(std::min(kBlockRows, test.rows - first));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
    test.Gather(rows, x.data(), y.data());
    const std::size_t places = spec.model.positions();
    // Text has symbols of the test part alone, whatever the length of its examples.
    const bool has_gaps = places > 1 || IsText(spec);
    const std::int32_t least = has_gaps ? kernels::kNoLabel : 0;
    const auto end = y.begin() + static_cast<std::ptrdiff_t>(rows.size() * places);
    const bool are_classes =
        std::all_of(y.begin(), end, [least, classes = ClassesOf(spec)](std::int32_t label) {
          return label >= least && label < classes;
        });
    if (!are_classes) return {.fault = "the test data hold a class beyond the model's"};
    const std::span<const float> inputs(x.data(), rows.size() * test.values);
    if (spec.model.input_symbols() > 0 && !AreSymbols(inputs, spec.model.input_symbols())) {
      return {.fault = "the test data hold a symbol beyond the model's"};
    }
    const kernels::Evaluation sums =
        network.Evaluate(params.values(), {x.data(), y.data(), rows.size()});
    return {.loss = sums.loss_sum, .counted = sums.counted, .correct = sums.correct};
  }

  kernels::Network network;
  model::FloatVector x;
  std::vector<std::int32_t> y;
  std::vector<std::uint32_t> rows;
};

DatasetEvaluator::DatasetEvaluator(std::shared_ptr<const data::Dataset> test, kernels::Isa isa,
                                   ThreadPool* pool)
    : test_(std::move(test)), isa_(isa), pool_(pool) {}

DatasetEvaluator::~DatasetEvaluator() = default;

void DatasetEvaluator::Prepare(const RunSpec& spec) {
  if (!workspaces_.empty() && prepared_for_ == spec.id) return;
  workspaces_.clear();
  const std::size_t workers = pool_ == nullptr ? 1 : pool_->size();
  for (std::size_t i = 0; i < workers; ++i) {
    workspaces_.push_back(std::make_unique<Workspace>(spec, isa_));
  }
  prepared_for_ = spec.id;
}

Result<Evaluated> DatasetEvaluator::Evaluate(const RunSpec& spec, const model::Params& params) {
  if (test_->rows == 0 || test_->values != spec.model.input_values()) {
    return Error{1301,
                 fmt::format("the test data have {} values a row, the model takes {}",
                             test_->values, spec.model.input_values()),
                 ""};
  }
  if (test_->labels_per_row != spec.model.positions()) {
    return Error{1301,
                 fmt::format("the test data have {} labels a row, the model answers at {} places",
                             test_->labels_per_row, spec.model.positions()),
                 ""};
  }
  Prepare(spec);
  const std::size_t blocks = (test_->rows + kBlockRows - 1) / kBlockRows;
  std::vector<BlockSums> sums(blocks);
  const auto evaluate = [&](std::size_t worker, std::size_t block) {
    sums[block] = workspaces_[worker]->Evaluate(spec, *test_, params, block);
  };
  if (pool_ == nullptr) {
    for (std::size_t block = 0; block < blocks; ++block) evaluate(0, block);
  } else {
    pool_->ForEach(blocks, evaluate);
  }
  BlockSums all;
  for (const BlockSums& block : sums) all.Add(block);
  if (all.fault != nullptr) return Error{1301, all.fault, ""};
  const auto counted = static_cast<double>(all.counted);
  Evaluated evaluated{.metrics = {}, .examples = test_->rows};
  const auto add = [&](const char* name, double value) {
    const auto& names = spec.plan.metrics;
    const bool is_asked = std::find(names.begin(), names.end(), name) != names.end();
    if (is_asked && std::isfinite(value)) evaluated.metrics.push_back({name, value, 0});
  };
  add("accuracy", static_cast<double>(all.correct) / counted);
  add("loss", all.loss / counted);
  return evaluated;
}

std::unique_ptr<Evaluator> MakeEvaluator(std::shared_ptr<const data::Dataset> test,
                                         kernels::Isa isa, ThreadPool* pool) {
  return std::make_unique<DatasetEvaluator>(std::move(test), isa, pool);
}

}  // namespace skep::aggregator
