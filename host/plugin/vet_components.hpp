// SPDX-License-Identifier: Apache-2.0
//
// The second half of vetting a plugin: makes an instance of each of its components with the default
// options, describes it, and destroys it. Errors that the components report are no reason to refuse
// them, because options or data may be missing; only what ends the process is.
// Threads: that of the vetting child.
#pragma once

#include "host/plugin/instance.hpp"
#include "host/plugin/loaded_plugin.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

// The mesh of a run of one rank.
const tenon_mesh& lone_mesh();

// Returns the default options as JSON text, or none if an option has no default.
std::optional<std::string> default_options(const LoadedComponent& component);

// Calls `describe` of an instance, and destroys it. Does nothing else for kinds without `describe`.
//
// Errors   those of the proxy of its kind
void describe_instance(ComponentInstance instance);

// Calls `before_call` with the next call, "create of loss \"mse\"".
void vet_components(const LoadedPlugin& plugin,
                    const std::function<void(std::string_view call)>& before_call);

}  // namespace tenon
