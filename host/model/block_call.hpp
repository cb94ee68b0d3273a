// SPDX-License-Identifier: Apache-2.0
//
// The context of errors in calls of a model's blocks. Threads: any.
#pragma once

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/plugin/instance.hpp"

#include <string>

namespace tenon {

// Throws the error with "context: " before its message. An error of the plugin keeps its code.
[[noreturn]] inline void throw_with_context(const std::string& context, const Error& error) {
  if (const auto* const failed = dynamic_cast<const PluginError*>(&error)) {
    throw PluginError(
        failed->code(), failed->id(), context + ": " + failed->message(), failed->status_id());
  }
  throw error.with_context(context);
}

}  // namespace tenon
