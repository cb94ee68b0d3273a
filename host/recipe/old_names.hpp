// SPDX-License-Identifier: Apache-2.0
//
// Names that keys and values of the recipe had in earlier releases. A recipe of a user must use the
// present ones; a recipe that an earlier release saved with a checkpoint is translated.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tenon {

// Puts present names in place of old ones. What has neither stays.
void replace_old_names(nlohmann::json& recipe);

}  // namespace tenon
