// SPDX-License-Identifier: Apache-2.0

#include "host/cli/version_text.hpp"

#include <tenon/abi.h>

#include <string_view>
#include <tenon_build.hpp>

namespace tenon {
namespace {

#if defined(__clang__)
constexpr char kCompiler[] = "clang " __clang_version__;
#else
constexpr char kCompiler[] = "g++ " __VERSION__;
#endif

#if defined(__x86_64__)
constexpr char kMachine[] = "x86_64";
#elif defined(__aarch64__)
constexpr char kMachine[] = "aarch64";
#else
constexpr char kMachine[] = "another machine";
#endif

// The full build name, with which the fingerprint starts: "2.11.0+cu130".
std::string torch_build() {
  constexpr std::string_view kKey = "version=";
  const std::string_view fingerprint = kTorchFingerprint;
  return std::string(fingerprint.starts_with(kKey)
                         ? fingerprint.substr(kKey.size(), fingerprint.find(';') - kKey.size())
                         : std::string_view(kTorchVersion));
}

}  // namespace

std::string version_text() {
  return std::string("tenon ") + kVersion + " (ABI " TENON_ABI_STRING ", libtorch " +
         torch_build() + ", " + kCompiler + ", " + kMachine + ")";
}

}  // namespace tenon
