// SPDX-License-Identifier: Apache-2.0
//
// Autograd over what a plugin recorded. Its nodes may run code of the plugin's, outside of any call
// across the ABI, so that this is a border like `guard`: an exception of the plugin's is read as
// the std::exception that it is, or not at all. Its type says nothing here, since a plugin has an
// Error of its own by the same name as the host's.
#pragma once

#include "host/plugin/instance.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace tenon {

// The gradients of `outputs`, times `seeds`, by each of `wrt`; undefined if there is none. In
// sight of the watchdog, as "backward".
//
// Errors   plugin.failed, run.out_of_memory, naming the component
// Threads  [step]
std::vector<at::Tensor> plugin_gradients(const ComponentIdentity& identity,
                                         const std::vector<at::Tensor>& outputs,
                                         const std::vector<at::Tensor>& wrt,
                                         const std::vector<at::Tensor>& seeds);

}  // namespace tenon
