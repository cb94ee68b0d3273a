// SPDX-License-Identifier: Apache-2.0
//
// The function tables of components in the checking mode. Each function lends its tensors and
// objects for the time of the call, calls the plugin's function, and checks the results.
// Threads: those of the functions.
#pragma once

#include <tenon/state.h>

namespace tenon {

struct LoadedComponent;

// Returns the table through which the host calls the component, or the component's own if its kind
// passes neither tensors nor objects.
const void* checked_table(const LoadedComponent& component);

// The same for the state of an instance.
const tenon_stateful* checked_stateful(const LoadedComponent& component,
                                       void* self,
                                       const tenon_stateful* table);

}  // namespace tenon
