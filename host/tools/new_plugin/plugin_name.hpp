// SPDX-License-Identifier: Apache-2.0
//
// Names of new plugins: a name is a component type, a target of CMake and a file name at once.
// Threads: any.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// Returns the reason why `name` cannot name a new plugin, with the remedy; "" if it can.
std::string plugin_name_problem(std::string_view name);

// True for a reverse domain name in lower case such as "com.example.focal", as tenon_add_plugin()
// requires it.
bool is_plugin_id(std::string_view id);

// Returns the name of a class: "FocalLoss" for "focal_loss".
std::string class_name(std::string_view name);

// Returns the prefix of macros: "FOCAL_LOSS" for "focal_loss".
std::string macro_name(std::string_view name);

// True if `name` occurs in source code as a whole identifier.
bool has_identifier(std::string_view code, std::string_view name);

}  // namespace tenon
