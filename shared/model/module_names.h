// The order of modules of a foreign model, from their names.
//
// For foreign_model.cc alone; pure functions. Source: docs/models.md, "Weights from PyTorch".
#pragma once

#include <string_view>

namespace skep::model {

enum class Order { kBefore, kAfter, kOpen };

// Names are compared part by part ("layer1.0.conv2" has three). The first parts that differ decide:
// one word with two numbers by the numbers; two words by the table of usual ones (stem, blocks,
// head). Anything else is open.
[[nodiscard]] Order CompareModules(std::string_view a, std::string_view b);

}  // namespace skep::model
