#include "shared/model/layer_forms.h"

#include <algorithm>
#include <array>

namespace skep::model {
namespace {

constexpr std::array kForms = std::to_array<LayerForm>({
    {"dense", "dense OUT [nobias]", "y = x W^T + b, of values or of each place; flattens an image"},
    {"conv", "conv OUT KxK [same|valid] [stride S] [groups G] [nobias]",
     "cross-correlation of an image"},
    {"conv1d", "conv1d OUT K [same|valid] [stride S] [nobias]", "the same along a sequence"},
    {"relu", "relu", "max(x, 0)"},
    {"tanh", "tanh", "hyperbolic tangent"},
    {"sigmoid", "sigmoid", "1 / (1 + exp(-x))"},
    {"gelu", "gelu", "x Phi(x), exact"},
    {"maxpool", "maxpool N", "largest of windows NxN of an image"},
    {"maxpool1d", "maxpool1d N", "largest of windows of N of a sequence"},
    {"avgpool", "avgpool N", "means of windows, of an image or a sequence"},
    {"globalpool", "globalpool", "one mean a channel, of an image or a sequence"},
    {"flatten", "flatten", "plain values, channel by channel"},
    {"dropout", "dropout P", "in training 0 with probability P, 0 to 0.999"},
    {"norm", "norm batch|layer|group G", "mean 0 and variance 1 of a batch, an example or groups"},
    {"embedding", "embedding N [symbols S]", "a vector of N for each symbol; the first line"},
    {"positions", "positions", "adds a learned vector to each place"},
    {"lstm", "lstm N", "recurrent, over the whole sequence"},
    {"gru", "gru N", "recurrent, over the whole sequence"},
    {"attention", "attention HEADS [causal]", "self-attention with biases"},
    {"residual", "residual", "keeps what flows here for the matching add"},
    {"add", "add", "adds what flowed in at residual"},
});

}  // namespace

std::span<const LayerForm> LayerForms() {
  return kForms;
}

const LayerForm* FindLayerForm(std::string_view word) {
  const auto* found = std::find_if(kForms.begin(), kForms.end(),
                                   [word](const LayerForm& form) { return form.word == word; });
  return found == kForms.end() ? nullptr : found;
}

std::vector<std::string_view> LayerWords() {
  std::vector<std::string_view> words;
  for (const LayerForm& form : kForms) words.push_back(form.word);
  return words;
}

}  // namespace skep::model
