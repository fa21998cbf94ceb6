// The body of eigen_*.cc, compiled once an instruction set. SKEP_EIGEN_LOOP names the table.
#pragma once

#include <Eigen/Core>
#include <vector>

#include "benchmarks/eigen_loop.h"

namespace skep::bench {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<Matrix>;
using ConstView = Eigen::Map<const Matrix>;
using Row = Eigen::Map<Eigen::RowVectorXf>;

struct Layer {
  Eigen::Index inputs;
  Eigen::Index outputs;
  std::size_t weights;
  std::size_t bias;
};

struct Workspace {
  std::vector<Layer> layers;
  std::vector<Matrix> outputs;
  std::vector<Matrix> deltas;
};

void* Make(const std::size_t* widths, std::size_t count, std::size_t max_batch) {
  auto* workspace = new Workspace;
  std::size_t offset = 0;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const auto inputs = static_cast<Eigen::Index>(widths[i]);
    const auto outputs = static_cast<Eigen::Index>(widths[i + 1]);
    workspace->layers.push_back({inputs, outputs, offset, offset + widths[i] * widths[i + 1]});
    offset += (widths[i] + 1) * widths[i + 1];
    workspace->outputs.emplace_back(static_cast<Eigen::Index>(max_batch), outputs);
    workspace->deltas.emplace_back(static_cast<Eigen::Index>(max_batch), outputs);
  }
  return workspace;
}

void Free(void* workspace) {
  delete static_cast<Workspace*>(workspace);
}

double SoftmaxGradient(const Matrix& logits, const std::int32_t* y, Eigen::Index rows,
                       Matrix& delta) {
  double loss = 0;
  for (Eigen::Index r = 0; r < rows; ++r) {
    const float largest = logits.row(r).maxCoeff();
    delta.row(r) = (logits.row(r).array() - largest).exp();
    const float sum = delta.row(r).sum();
    loss += std::log(static_cast<double>(sum)) - static_cast<double>(logits(r, y[r]) - largest);
    delta.row(r) /= sum * static_cast<float>(rows);
    delta(r, y[r]) -= 1 / static_cast<float>(rows);
  }
  return loss / static_cast<double>(rows);
}

double Step(void* opaque, float* params, const float* x, const std::int32_t* y, std::size_t count,
            float rate) {
  auto& workspace = *static_cast<Workspace*>(opaque);
  const auto rows = static_cast<Eigen::Index>(count);
  const std::size_t depth = workspace.layers.size();
  const ConstView batch(x, rows, workspace.layers[0].inputs);
  for (std::size_t i = 0; i < depth; ++i) {
    const Layer& layer = workspace.layers[i];
    const ConstView weights(params + layer.weights, layer.outputs, layer.inputs);
    auto out = workspace.outputs[i].topRows(rows);
    if (i == 0) {
      out.noalias() = batch * weights.transpose();
    } else {
      out.noalias() = workspace.outputs[i - 1].topRows(rows) * weights.transpose();
    }
    out.rowwise() += Row(params + layer.bias, layer.outputs);
    if (i + 1 < depth) out = out.cwiseMax(0.0F);
  }
  const double loss = SoftmaxGradient(workspace.outputs.back(), y, rows, workspace.deltas.back());
  for (std::size_t i = depth; i-- > 0;) {
    const Layer& layer = workspace.layers[i];
    View weights(params + layer.weights, layer.outputs, layer.inputs);
    const auto delta = workspace.deltas[i].topRows(rows);
    if (i > 0) {
      const auto below = workspace.outputs[i - 1].topRows(rows);
      auto next = workspace.deltas[i - 1].topRows(rows);
      next.noalias() = delta * weights;
      next = (below.array() > 0.0F).select(next, 0.0F);
      weights.noalias() -= (rate * delta.transpose()) * below;
    } else {
      weights.noalias() -= (rate * delta.transpose()) * batch;
    }
    Row(params + layer.bias, layer.outputs) -= rate * delta.colwise().sum();
  }
  return loss;
}

}  // namespace

extern const EigenLoop SKEP_EIGEN_LOOP;
const EigenLoop SKEP_EIGEN_LOOP{Make, Free, Step};

}  // namespace skep::bench
