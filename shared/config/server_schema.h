// The second half of the rows of server.toml. Only for schema construction.
#pragma once

#include <vector>

#include "shared/config/schema.h"

namespace skep::config {

[[nodiscard]] std::vector<Section> ServiceSections();

}  // namespace skep::config
