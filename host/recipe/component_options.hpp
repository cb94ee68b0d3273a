// SPDX-License-Identifier: Apache-2.0
//
// Reads options of a component that several kinds of components share. The host must not depend on
// other options.
// Threads: every function may be called from any thread.
#pragma once

#include "host/recipe/component_use.hpp"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace tenon {

// Returns the options; an empty object if they are not a JSON object.
nlohmann::json options_of(const ComponentUse& use);

// Returns the metric that a hook decides by: its option "metric". None if it has no such option.
std::optional<std::string> named_metric(const ComponentUse& hook);

}  // namespace tenon
