// SPDX-License-Identifier: Apache-2.0
//
// Access to the function table of a component, for proxies. A proxy checks the functions that it
// calls once, in its constructor; calls then need no check.

#pragma once

#include <tenon/abi.h>

#include "host/plugin/instance.hpp"
#include "host/text/formatted.hpp"

#include <cstddef>
#include <cstring>

namespace tenon {

// Returns the table that the component registered, as the type of its interface.
//
// Errors   plugin.missing_interface if the component has another interface
template <class Table>
const Table* table_of(const ComponentInstance& instance, const char* interface_id) {
  const tenon_component& descriptor = instance.descriptor();
  if (std::strcmp(descriptor.interface_id, interface_id) != 0) {
    instance.identity().fail_missing(interface_id, "");
  }
  return static_cast<const Table*>(descriptor.table);
}

// Returns element `i` of a plugin's array of structs that later ABI versions may extend. Elements
// are struct_size bytes apart, which may exceed sizeof(T).
//
// Errors   plugin.bad_result if struct_size is smaller than sizeof(T)
template <class T>
const T& element_of(const T* array,
                    std::size_t i,
                    const char* what,
                    const ComponentIdentity& identity) {
  if (array->struct_size < sizeof(T)) {
    identity.fail_result(formatted(
        "a {} has a struct_size of {}, and {} is the least", what, array->struct_size, sizeof(T)));
  }
  return *reinterpret_cast<const T*>(reinterpret_cast<const char*>(array) + i * array->struct_size);
}

}  // namespace tenon

// Throws plugin.missing_interface unless `table` (a const Table*) has the function `field`.
#define TENON_REQUIRE(Table, table, field, interface_id, identity) \
  do {                                                             \
    if (!TENON_HAS(Table, table, field)) {                         \
      (identity).fail_missing(interface_id, #field);               \
    }                                                              \
  } while (false)
