// SPDX-License-Identifier: Apache-2.0
//
// Where the things are that tests look at. An environment variable of the same name overrides each
// (TENON_SOURCE_DIR, TENON_BUILD_DIR).
#pragma once

#include <filesystem>

namespace tenon {

// The root of the source tree.
std::filesystem::path source_dir();

// The root of the build tree that the test was built in.
std::filesystem::path build_dir();

// The host's executable and the folder of the first-party plugins, in that build tree.
std::filesystem::path host_program();
std::filesystem::path plugin_dir();

// The folder of the plugins that tests build for themselves.
std::filesystem::path test_plugin_dir();

}  // namespace tenon
