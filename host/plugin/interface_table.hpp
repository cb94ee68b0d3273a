// SPDX-License-Identifier: Apache-2.0
//
// How a proxy gets at the table of its component: once, at its construction, with every function
// checked that it is going to call. After that a call costs no check.

#pragma once

#include <tenon/abi.h>

#include "host/plugin/instance.hpp"
#include "host/text/formatted.hpp"

#include <cstddef>
#include <cstring>

namespace tenon {

// The table that a component registered, as the interface its proxy speaks.
//
// Errors   plugin.missing_interface if the component speaks another one
template <class Table>
const Table* table_of(const ComponentInstance& instance, const char* interface_id) {
  const tenon_component& descriptor = instance.descriptor();
  if (std::strcmp(descriptor.interface_id, interface_id) != 0) {
    instance.identity().fail_missing(interface_id, "");
  }
  return static_cast<const Table*>(descriptor.table);
}

// Element `i` of an array of growing structs that a plugin made. Its elements lie struct_size
// apart, whatever the sizeof of this header is.
//
// Errors   plugin.bad_result if struct_size is smaller than what 0.1 has of the struct
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
