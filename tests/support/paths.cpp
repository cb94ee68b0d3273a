// SPDX-License-Identifier: Apache-2.0
#include "tests/support/paths.hpp"

#include <cstdlib>

namespace tenon {
namespace {

std::filesystem::path from_environment(const char* name, const char* built_in) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : built_in;
}

}  // namespace

std::filesystem::path source_dir() {
  return from_environment("TENON_SOURCE_DIR", TENON_SOURCE_DIR);
}

std::filesystem::path build_dir() {
  return from_environment("TENON_BUILD_DIR", TENON_BUILD_DIR);
}

std::filesystem::path host_program() {
  return build_dir() / "bin" / "host";
}

std::filesystem::path plugin_dir() {
  return build_dir() / "plugins";
}

std::filesystem::path test_plugin_dir() {
  return build_dir() / "tests" / "plugins";
}

}  // namespace tenon
