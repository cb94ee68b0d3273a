// SPDX-License-Identifier: Apache-2.0
//
// Parts of a frozen recipe, to compare them with those of another start of the same run.
// Threads: every function may be called from any thread.
#pragma once

#include <string>

namespace tenon {

// Each returns a text that is equal for equal values. A recipe that is not JSON is its own text.

// What decides when a run ends: its length and its hooks, with their options.
std::string end_settings(const std::string& frozen);

// The losses, with their options.
std::string loss_settings(const std::string& frozen);

// What an evaluation depends on, besides the parameters: evaluation and test sets, losses and
// metrics.
std::string evaluation_settings(const std::string& frozen);

}  // namespace tenon
