// SPDX-License-Identifier: Apache-2.0
//
// Runs autograd over a graph that a plugin recorded. Nodes of the graph may run plugin code outside
// any call across the ABI, so exceptions are converted here, as in `guard`. Only the
// std::exception part of a plugin's exception is used: its type is unreliable, because a plugin has
// its own class with the name of the host's Error.
#pragma once

#include "host/plugin/instance.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace tenon {

// Returns the gradients of `outputs`, times `seeds`, with respect to each tensor in `wrt`; a tensor
// without a gradient gets an undefined tensor. The watchdog sees the call as "backward".
//
// Errors   plugin.failed, run.out_of_memory, naming the component
// Threads  [step]
std::vector<at::Tensor> plugin_gradients(const ComponentIdentity& identity,
                                         const std::vector<at::Tensor>& outputs,
                                         const std::vector<at::Tensor>& wrt,
                                         const std::vector<at::Tensor>& seeds);

}  // namespace tenon
