// SPDX-License-Identifier: Apache-2.0
//
// What vetting gets from its caller: the plugins to vet, and how one is tried.
// Threads: any.

#pragma once

#include "host/trust/plugin_file.hpp"
#include "host/trust/verdict.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

// A plugin to vet.
struct VetSubject {
  std::string file;                     // "build/plugins/llama.so"
  std::string described;                // in messages: "a.so (org.tenon.a 0.1.0)"
  std::optional<FileStamp> stamp = {};  // the file when its manifest was read; null: not cached
  std::string hash = {};                // content_hash() of the file that is trusted; "" for any
};

// Takes the name of a call into a plugin before the call is made: "create of loss \"mse\"".
using ReportCall = std::function<void(std::string_view call)>;

// Loads and tries a plugin, by its index among the subjects. Runs in the child, and reports
// each call. Returns the verdict on what the plugin reports itself, with the hash of the file that
// was loaded.
//
// Errors   none: an exception that leaves it ends the child, as a crash of the plugin
using VetTrial = std::function<Verdict(std::size_t index, const ReportCall& report)>;

}  // namespace tenon
