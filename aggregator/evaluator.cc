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
  double loss = 0;
  std::size_t correct = 0;
  bool has_unknown_class = false;
};

}  // namespace

struct DatasetEvaluator::Workspace {
  Workspace(const model::ModelSpec& model, kernels::Isa isa)
      : network(model, 1, isa), x(kBlockRows * model.input_values()), y(kBlockRows) {}

  BlockSums Evaluate(const data::Dataset& test, const model::Params& params, std::size_t block,
                     std::size_t classes) {
    const std::size_t first = block * kBlockRows;
    rows.resize(std::min(kBlockRows, test.rows - first));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
    test.Gather(rows, x.data(), y.data());
    const auto end = y.begin() + static_cast<std::ptrdiff_t>(rows.size());
    const bool is_known = std::all_of(y.begin(), end, [&](std::int32_t label) {
      return label >= 0 && static_cast<std::size_t>(label) < classes;
    });
    if (!is_known) return {.loss = 0, .correct = 0, .has_unknown_class = true};
    const kernels::Evaluation sums =
        network.Evaluate(params.values(), {x.data(), y.data(), rows.size()});
    return {.loss = sums.loss_sum, .correct = sums.correct, .has_unknown_class = false};
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
    workspaces_.push_back(std::make_unique<Workspace>(spec.model, isa_));
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
  Prepare(spec);
  const std::size_t blocks = (test_->rows + kBlockRows - 1) / kBlockRows;
  std::vector<BlockSums> sums(blocks);
  const auto evaluate = [&](std::size_t worker, std::size_t block) {
    sums[block] = workspaces_[worker]->Evaluate(*test_, params, block, spec.model.outputs());
  };
  if (pool_ == nullptr) {
    for (std::size_t block = 0; block < blocks; ++block) evaluate(0, block);
  } else {
    pool_->ForEach(blocks, evaluate);
  }
  BlockSums all;
  for (const BlockSums& block : sums) {
    all.loss += block.loss;
    all.correct += block.correct;
    all.has_unknown_class = all.has_unknown_class || block.has_unknown_class;
  }
  if (all.has_unknown_class)
    return Error{1301, "the test data hold a class beyond the model's", ""};
  const auto rows = static_cast<double>(test_->rows);
  Evaluated evaluated{.metrics = {}, .examples = test_->rows};
  const auto add = [&](const char* name, double value) {
    const auto& names = spec.plan.metrics;
    const bool is_asked = std::find(names.begin(), names.end(), name) != names.end();
    if (is_asked && std::isfinite(value)) evaluated.metrics.push_back({name, value, 0});
  };
  add("accuracy", static_cast<double>(all.correct) / rows);
  add("loss", all.loss / rows);
  return evaluated;
}

std::unique_ptr<Evaluator> MakeEvaluator(std::shared_ptr<const data::Dataset> test,
                                         kernels::Isa isa, ThreadPool* pool) {
  return std::make_unique<DatasetEvaluator>(std::move(test), isa, pool);
}

}  // namespace skep::aggregator
