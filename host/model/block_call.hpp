// SPDX-License-Identifier: Apache-2.0
//
// What calls of a model's blocks share: handles of their arguments, and the context of their
// errors. Threads: any.
#pragma once

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/plugin/instance.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace tenon {

// Returns handles of tensors that outlive them; null for an undefined tensor.
inline std::vector<const tenon_tensor*> borrow_all(const std::vector<at::Tensor>& tensors) {
  std::vector<const tenon_tensor*> handles;
  handles.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    handles.push_back(tensor.defined() ? borrow(tensor) : nullptr);
  }
  return handles;
}

// Throws the error with "context: " before its message. An error of the plugin keeps its code.
[[noreturn]] inline void throw_with_context(const std::string& context, const Error& error) {
  if (const auto* const failed = dynamic_cast<const PluginError*>(&error)) {
    throw PluginError(
        failed->code(), failed->id(), context + ": " + failed->message(), failed->status_id());
  }
  throw error.with_context(context);
}

}  // namespace tenon
