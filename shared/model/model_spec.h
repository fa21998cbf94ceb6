// ModelSpec: a model as a list of layers, as it stands in the plan, and what follows from it.
//
// A preset ("2nn", "fedavg-cnn") stands for such a list. One parser serves the configuration, the
// plan and the kernels. Source: docs/reference (model.layers) and Skep protocol 1.0, section 4.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/layers.h"
#include "shared/model/layout.h"
#include "shared/model/params.h"

namespace skep::model {

enum class Initialiser { kFanIn, kGlorot, kHe, kZeros };

class ModelSpec {
 public:
  // `input`: [values], [length, features] or [channels, height, width]; before an embedding
  // [length]. `lines` are strings of the `layers` syntax ("dense 200", "relu"). SKEP-1301: they do
  // not fit `input` or each other (the message names the line).
  [[nodiscard]] static Result<ModelSpec> Parse(std::vector<std::uint32_t> input,
                                               std::vector<std::string> lines);

  // The same model, in which weights, biases and running statistics of norm layers stay on the
  // devices (role 2) and start from 1, 0, mean 0 and variance 1. Source: Li et al. 2021 (FedBN).
  // SKEP-1103: it has no norm layer.
  [[nodiscard]] Result<ModelSpec> WithPrivateNorms() const;

  [[nodiscard]] const std::vector<std::uint32_t>& input() const { return input_; }
  [[nodiscard]] std::uint32_t input_values() const { return input_values_; }  // product of `input`
  // Symbols that the inputs are numbers of, if the model starts with an embedding; else 0.
  [[nodiscard]] std::uint32_t input_symbols() const { return input_symbols_; }
  [[nodiscard]] std::uint32_t outputs() const { return output_.channels; }    // of one place
  [[nodiscard]] std::uint32_t positions() const { return output_.Pixels(); }  // answers an example
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }
  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }
  // What flows out of each layer.
  [[nodiscard]] const std::vector<Shape>& shapes() const { return shapes_; }
  [[nodiscard]] const LayoutPtr& layout() const { return layout_; }
  // Needs more than one row in every batch of training.
  [[nodiscard]] bool has_batch_norm() const { return has_batch_norm_; }

 private:
  ModelSpec() = default;
  std::vector<std::uint32_t> input_;
  std::uint32_t input_values_ = 0;
  std::uint32_t input_symbols_ = 0;
  Shape output_;
  std::vector<std::string> lines_;
  std::vector<Layer> layers_;
  std::vector<Shape> shapes_;
  LayoutPtr layout_;
  bool has_batch_norm_ = false;
};

// What a preset's lines depend on.
struct PresetWishes {
  std::vector<std::uint32_t> input;
  std::uint32_t classes = 0;
  std::vector<std::uint32_t> hidden;   // mlp
  std::string activation = "relu";     // mlp and the presets of images and windows
  std::string normalization = "none";  // none, group, batch: likewise; the residual ones have group
};
// The layer lines of a preset. SKEP-1301: the input is not of the kind that the preset takes;
// SKEP-1102: an unknown name (lists those there are).
[[nodiscard]] Result<std::vector<std::string>> PresetLines(const std::string& architecture,
                                                           const PresetWishes& wishes);
// Without aliases.
[[nodiscard]] std::vector<std::string> PresetNames();

// Initial weights, drawn in layout order from one stream (purpose 1 under the run's seed), each
// value in double with one rounding; values that are not drawn take nothing from the stream.
// Source: docs/models.md, "Initial weights".
[[nodiscard]] Params InitialParams(const ModelSpec& spec, Initialiser initialiser,
                                   std::uint64_t run_seed);

}  // namespace skep::model
