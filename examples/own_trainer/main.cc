// A C++ application with a training loop of its own: a softmax regression, which stands for
// LibTorch, ExecuTorch or whatever runs the application's models. The library brings the model as
// named tensors and takes care of the rest.
//
//     pump --join-file join.txt --storage state
//
// For runs whose model is one layer: "PART.weight" of [classes, columns], "PART.bias" of [classes].
#include <skep/client.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// The application's own data, in an order of its own.
class Readings : public skep::DataSource {
 public:
  std::size_t count(skep::TaskView) override { return kRows; }
  void rewind(skep::TaskView, std::uint64_t seed) override {
    taken_ = 0;
    first_ = seed % kRows;
  }
  void next(skep::TaskView, std::size_t max_rows, skep::Batch& out) override {
    x_.clear();
    y_.clear();
    for (; taken_ < kRows && y_.size() < max_rows; ++taken_) {
      const std::size_t i = (first_ + taken_) % kRows;
      const bool is_worn = i % 2 != 0;
      for (std::size_t j = 0; j < 4; ++j)
        x_.push_back(static_cast<float>((i * 37 + j * 11) % 100) / 100.0F +
                     (is_worn ? 0.5F : 0.0F));
      y_.push_back(is_worn ? 1 : 0);
    }
    out.x = x_.data(), out.x_dtype = SKEP_F32, out.x_cols = 4;
    out.y = y_.data(), out.y_dtype = SKEP_I64, out.y_cols = 1;
    out.rows = y_.size();
  }

 private:
  static constexpr std::size_t kRows = 412;
  std::vector<float> x_;
  std::vector<std::int64_t> y_;
  std::size_t first_ = 0;
  std::size_t taken_ = 0;
};

// The tensor whose name ends so. Names come from the plan; order is not promised.
template <class T>
T& Find(std::span<T> model, std::string_view end) {
  for (T& tensor : model) {
    if (std::string_view(tensor.name).ends_with(end)) return tensor;
  }
  throw std::runtime_error("the model has no tensor of the name ..." + std::string(end));
}

// Probabilities of the classes for one row.
std::vector<float> Predict(std::span<const float> weight, std::span<const float> bias,
                           const float* x, std::size_t columns) {
  std::vector<float> p(bias.begin(), bias.end());
  for (std::size_t k = 0; k < p.size(); ++k)
    for (std::size_t j = 0; j < columns; ++j) p[k] += weight[k * columns + j] * x[j];
  const float largest = *std::max_element(p.begin(), p.end());
  float sum = 0;
  for (float& value : p) sum += value = std::exp(value - largest);
  for (float& value : p) value /= sum;
  return p;
}

class Softmax : public skep::Trainer {
 public:
  // SGD as the plan has it; other optimisers and losses are refused by throwing.
  skep::Status train(skep::Task& task, std::span<skep::Tensor> model,
                     std::uint64_t& num_examples) override {
    const std::span<float> weight = skep::floats(Find(model, "weight"));
    const std::span<float> bias = skep::floats(Find(model, "bias"));
    const auto epochs = static_cast<std::uint32_t>(task.number("client.local_epochs", 1));
    if (epochs == 0) throw std::runtime_error("this trainer counts epochs, not steps");
    for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
      num_examples = 0;
      skep::Status status = task.rewind(task.seed(epoch));
      skep::Batch batch{};
      double loss = 0;
      while (status == SKEP_OK) {
        status = task.next(static_cast<std::size_t>(task.number("client.batch_size", 32)), batch);
        if (status != SKEP_OK || batch.rows == 0) break;
        loss =
            Step(weight, bias, batch, static_cast<float>(task.number("client.learning_rate", 0.1)));
        num_examples += batch.rows;  // distinct ones: counted anew in each epoch
      }
      if (status != SKEP_OK) return status;
      task.progress((epoch + 1.0) / epochs, loss);
    }
    return SKEP_OK;
  }

  skep::Status evaluate(skep::Task& task, std::span<const skep::Tensor> model,
                        std::uint64_t& num_examples) override {
    const std::span<const float> weight = skep::floats(Find(model, "weight"));
    const std::span<const float> bias = skep::floats(Find(model, "bias"));
    std::uint64_t correct = 0;
    skep::Batch batch{};
    skep::Status status = task.rewind(task.seed(0));
    while (status == SKEP_OK) {
      status = task.next(256, batch);
      if (status != SKEP_OK || batch.rows == 0) break;
      for (std::size_t i = 0; i < batch.rows; ++i) {
        const auto p = Predict(weight, bias, Row(batch, i), batch.x_cols);
        const auto best = std::max_element(p.begin(), p.end()) - p.begin();
        correct += best == Label(batch, i) ? 1 : 0;
      }
      num_examples += batch.rows;
    }
    if (status == SKEP_OK && num_examples > 0)
      task.metric("accuracy", static_cast<double>(correct) / static_cast<double>(num_examples));
    return status;
  }

 private:
  static const float* Row(const skep::Batch& batch, std::size_t i) {
    return static_cast<const float*>(batch.x) + i * batch.x_cols;
  }
  static std::int64_t Label(const skep::Batch& batch, std::size_t i) {
    return static_cast<const std::int64_t*>(batch.y)[i];
  }

  // One step of gradient descent; the mean loss before it.
  static double Step(std::span<float> weight, std::span<float> bias, const skep::Batch& batch,
                     float rate) {
    std::vector<float> weight_step(weight.size());
    std::vector<float> bias_step(bias.size());
    double loss = 0;
    const float scale = rate / static_cast<float>(batch.rows);
    for (std::size_t i = 0; i < batch.rows; ++i) {
      const float* const x = Row(batch, i);
      std::vector<float> p = Predict(weight, bias, x, batch.x_cols);
      const auto label = static_cast<std::size_t>(Label(batch, i));
      loss -= std::log(std::max(p[label], 1e-12F));
      p[label] -= 1;  // now the gradient of the loss
      for (std::size_t k = 0; k < p.size(); ++k) {
        bias_step[k] += scale * p[k];
        for (std::size_t j = 0; j < batch.x_cols; ++j)
          weight_step[k * batch.x_cols + j] += scale * p[k] * x[j];
      }
    }
    for (std::size_t k = 0; k < bias.size(); ++k) bias[k] -= bias_step[k];
    for (std::size_t k = 0; k < weight.size(); ++k) weight[k] -= weight_step[k];
    return loss / static_cast<double>(batch.rows);
  }
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5 || std::string(argv[1]) != "--join-file" || std::string(argv[3]) != "--storage") {
    std::fprintf(stderr, "usage: %s --join-file FILE --storage FOLDER\n", argv[0]);
    return 2;
  }
  std::string join;  // may be empty once the device is enrolled
  std::getline(std::ifstream(argv[2]) >> std::ws, join);
  skep::Client client({.join_string = join,
                       .storage_dir = argv[4],
                       .eligibility = {.idle = false, .unmetered = false},
                       .log_level = SKEP_LOG_DEBUG},
                      std::make_shared<Readings>(), std::make_shared<Softmax>());
  client.on_log([](int, std::string_view line) {
    std::fprintf(stderr, "  %.*s\n", static_cast<int>(line.size()), line.data());
  });
  client.on_progress([](const skep::Progress& p) {
    if (p.phase == SKEP_PHASE_TRAIN) std::printf("  loss %.3f\n", p.loss);
  });
  const skep::Outcome outcome = client.run_once(std::chrono::minutes{5});
  std::printf("%s: %s; come back in %lld s\n", skep_status_name(outcome.status),
              outcome.message.c_str(), static_cast<long long>(outcome.retry_after.count()));
  return outcome.failed() ? 1 : 0;
} catch (const skep::Error& e) {
  std::fprintf(stderr, "SKEP-%d: %s\n", e.code, e.what());
  return 1;
}
