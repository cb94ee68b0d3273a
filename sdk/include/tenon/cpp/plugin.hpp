// SPDX-License-Identifier: Apache-2.0
//
// Defines the entry point of a plugin, from a list of classes:
//
//     TENON_PLUGIN(Focal, LabelSmoothing)
#ifndef TENON_CPP_PLUGIN_HPP
#define TENON_CPP_PLUGIN_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/plugin.h>

#include <algorithm>
#include <cstdint>
#include <string>

TENON_NAMESPACE_BEGIN

/* Returns the descriptor of a class, which lives as long as the process.
 *
 * Threads  [load] */
template <class T>
const tenon_component& descriptor_of() {
  static const std::string schema = binder_of<T>().schema();
  static const tenon_component descriptor{sizeof(tenon_component),
                                          T::kKind,
                                          T::kType,
                                          T::kInterfaceId,
                                          T::template table<T>(),
                                          T::kSummary,
                                          schema.c_str(),
                                          ComponentCalls<T>::create,
                                          ComponentCalls<T>::destroy,
                                          ComponentCalls<T>::get_extension,
                                          ComponentCalls<T>::table_lookup()};
  return descriptor;
}

/* The oldest ABI minor version of hosts that the plugin runs with; tenon_add_plugin(MIN_ABI) sets
 * it. */
#ifdef TENON_PLUGIN_MIN_MINOR
constexpr uint32_t kMinMinor = TENON_PLUGIN_MIN_MINOR;
#else
constexpr uint32_t kMinMinor = TENON_ABI_MINOR;
#endif

/* Checks the ABI version and registers the classes. If there is no host to report an error to, it
 * registers nothing.
 *
 * Errors   TENON_UNSUPPORTED if the host does not support the ABI version of this library; errors
 *          of the registration
 * Threads  [load] */
template <class... Classes>
tenon_status* register_plugin(tenon_entry_args* args) noexcept {
  if (!TENON_HAS(tenon_entry_args, args, register_component) || status_api(args->host) == nullptr) {
    return nullptr;
  }
  PluginHost::get() = args->host;
  return guard(args->host, [&] {
    if (args->abi_major != TENON_ABI_MAJOR || args->abi_minor_min > TENON_ABI_MINOR ||
        args->abi_minor_max < kMinMinor) {
      TENON_FAIL(TENON_UNSUPPORTED,
                 "abi_mismatch",
                 "the plugin uses ABI ",
                 TENON_ABI_STRING,
                 ", the host supports ",
                 args->abi_major,
                 ".",
                 args->abi_minor_min,
                 " to ",
                 args->abi_major,
                 ".",
                 args->abi_minor_max,
                 "; rebuild the plugin with the host's SDK");
    }
    args->out_abi_minor = std::min(args->abi_minor_max, TENON_ABI_MINOR);
    (check(args->host, args->register_component(args->registrar, &descriptor_of<Classes>())), ...);
  });
}

TENON_NAMESPACE_END

// NOLINTBEGIN(bugprone-macro-parentheses): it is a definition, not an expression
/* Defines the entry point. Use it once per plugin, outside of any namespace. */
#define TENON_PLUGIN(...)                                                            \
  extern "C" TENON_EXPORT tenon_status* tenon_plugin_entry(tenon_entry_args* args) { \
    return ::tenon::register_plugin<__VA_ARGS__>(args);                              \
  }
// NOLINTEND(bugprone-macro-parentheses)

#endif
