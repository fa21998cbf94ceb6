// The lines of the `layers` syntax as people write them: for `explain` and for advice in errors.
//
// Constant; any thread. Source: docs/models.md, "Layers".
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace skep::model {

struct LayerForm {
  std::string_view word;  // that starts the line
  std::string_view form;  // "dense OUT [nobias]"
  std::string_view text;  // what it does
};

[[nodiscard]] std::span<const LayerForm> LayerForms();
// Null if no line starts with `word`.
[[nodiscard]] const LayerForm* FindLayerForm(std::string_view word);
[[nodiscard]] std::vector<std::string_view> LayerWords();

}  // namespace skep::model
