// SPDX-License-Identifier: Apache-2.0
//
// Namespace of the wrapper: tenon::abi_MAJOR_MINOR, inline, so that plugins write tenon::Loss. Each
// plugin compiles the wrapper into its own file. The version in the name keeps the wrappers of
// different SDKs apart. The hidden visibility keeps the wrapper's symbols inside the plugin, even
// if the plugin is built without -fvisibility=hidden and without a version script.
//
// tenon_add_plugin() uses both, which hide the plugin's own symbols and those of the standard
// library as well. Without -fvisibility=hidden, gcc warns (-Wattributes) about a class outside of
// an unnamed namespace that has a base or a member of the wrapper: "declared with greater
// visibility than its base". The warning does not affect the wrapper.
#ifndef TENON_CPP_NAMESPACE_HPP
#define TENON_CPP_NAMESPACE_HPP

#include <tenon/abi.h>

static_assert(TENON_ABI_MAJOR == 0 && TENON_ABI_MINOR == 5,
              "TENON_NAMESPACE_BEGIN names the version: change it with TENON_ABI_MINOR");

/* Open and close the namespace of the wrapper. Only the headers of the wrapper use them. */
#define TENON_NAMESPACE_BEGIN \
  namespace tenon {           \
  inline namespace abi_0_5 __attribute__((visibility("hidden"))) {
#define TENON_NAMESPACE_END \
  }                         \
  }

#endif
