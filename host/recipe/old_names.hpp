// SPDX-License-Identifier: Apache-2.0
//
// Names that keys and values of the recipe had in earlier releases. Users' recipes must use the
// present names. A recipe that an earlier release saved with a checkpoint is translated.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tenon {

// Replaces old names with present names. Leaves all other keys and values unchanged.
void replace_old_names(nlohmann::json& recipe);

}  // namespace tenon
