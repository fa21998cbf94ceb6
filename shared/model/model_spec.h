// ModelSpec: a model as a list of layers, as it stands in the plan, and what follows from it.
//
// A preset ("softmax", "mlp", "2nn") stands for such a list. One parser serves the configuration,
// the plan and the kernels. Source: docs/reference (model.layers) and Skep protocol 1.0, section 4.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/layout.h"
#include "shared/model/params.h"

namespace skep::model {

struct DenseLayer {
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  bool has_bias = true;
  std::size_t weight = 0;  // index of the tensor [outputs, inputs] in the layout
  std::size_t bias = 0;    // index of the tensor [outputs]; meaningless without a bias
};
struct ReluLayer {
  std::uint32_t width = 0;
};
struct FlattenLayer {
  std::uint32_t width = 0;
};
using Layer = std::variant<DenseLayer, ReluLayer, FlattenLayer>;

enum class Initialiser { kFanIn, kGlorot, kHe, kZeros };

class ModelSpec {
 public:
  // `lines` are strings of the `layers` syntax ("dense 200", "relu"). SKEP-1301: they do not fit
  // `input` (the message names the line); SKEP-1019: a layer that this build does not have (it
  // lists those it has).
  [[nodiscard]] static Result<ModelSpec> Parse(std::vector<std::uint32_t> input,
                                               std::vector<std::string> lines);

  [[nodiscard]] const std::vector<std::uint32_t>& input() const { return input_; }
  [[nodiscard]] std::uint32_t input_values() const { return input_values_; }  // product of `input`
  [[nodiscard]] std::uint32_t outputs() const { return outputs_; }            // logits
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }
  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }
  [[nodiscard]] const LayoutPtr& layout() const { return layout_; }

 private:
  ModelSpec() = default;
  std::vector<std::uint32_t> input_;
  std::uint32_t input_values_ = 0;
  std::uint32_t outputs_ = 0;
  std::vector<std::string> lines_;
  std::vector<Layer> layers_;
  LayoutPtr layout_;
};

// The layer lines of a preset: softmax, mlp (with `hidden`), 2nn. SKEP-1019 lists the names this
// build has.
[[nodiscard]] Result<std::vector<std::string>> PresetLines(const std::string& architecture,
                                                           const std::vector<std::uint32_t>& hidden,
                                                           std::uint32_t classes);
[[nodiscard]] std::vector<std::string> PresetNames();

// Initial weights, drawn in layout order from one stream (purpose 1 under the run's seed).
// float((2u - 1) b) in double with one rounding; biases are drawn too where the rule draws them.
[[nodiscard]] Params InitialParams(const ModelSpec& spec, Initialiser initialiser,
                                   std::uint64_t run_seed);

}  // namespace skep::model
