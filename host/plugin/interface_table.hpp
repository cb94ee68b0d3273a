// SPDX-License-Identifier: Apache-2.0
//
// Access to the function table of a component, for proxies. A proxy checks the functions that it
// calls once, in its constructor; calls then need no check.

#pragma once

#include <tenon/abi.h>

#include "host/error/error.hpp"
#include "host/plugin/call_checker.hpp"
#include "host/plugin/instance.hpp"
#include "host/tensor/sized_struct.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace tenon {

// Returns the table that the component registered, as the type of its interface.
//
// Errors   plugin.missing_interface if the component has another interface
template <class Table>
const Table* table_of(const ComponentInstance& instance, const char* interface_id) {
  const LoadedComponent& component = instance.identity().component();
  if (std::strcmp(component.interface_id, interface_id) != 0) {
    instance.identity().fail_missing(interface_id, "");
  }
  CallChecker* const checker = call_checker();
  return static_cast<const Table*>(checker != nullptr ? checker->table_of(component)
                                                      : component.table);
}

// Returns element `i` of a plugin's array of structs, as read_element() does, with errors that name
// the component.
//
// Errors   plugin.bad_struct
template <class T>
T element_of(const T* array, std::size_t i, const ComponentIdentity& identity) {
  try {
    return read_element(array, i);
  } catch (const Error& error) {
    identity.fail_as(error);
  }
}

// Calls a function of the component that fills a struct of the host, and returns the struct.
// `given` has the defaults; `call` takes a pointer to the struct and returns the status.
//
// Errors   PluginError; plugin.bad_struct if the component wrote past the end of the struct
template <class T, class Call>
T filled_by(const ComponentInstance& instance, const char* function, Call&& call, T given = T{}) {
  constexpr auto kFill = std::byte{0xA5};
  struct {
    T out;
    std::array<std::byte, 512> beyond;
  } space{.out = given, .beyond = {}};
  space.out.struct_size = sizeof(T);
  space.beyond.fill(kFill);
  // The address of the whole, so that the compiler expects writes to `beyond`.
  instance.call(function, [&] { return call(reinterpret_cast<T*>(&space)); });
  if (std::ranges::any_of(space.beyond, [](std::byte byte) { return byte != kFill; })) {
    instance.identity().fail_as(
        Error("plugin.bad_struct",
              formatted("{} wrote past the {} bytes that struct_size states; write only fields "
                        "that TENON_HAS_FIELD finds",
                        function,
                        sizeof(T))));
  }
  return space.out;
}

}  // namespace tenon

// Throws plugin.missing_interface unless `table` (a const Table*) has the function `field`.
#define TENON_REQUIRE(Table, table, field, interface_id, identity) \
  do {                                                             \
    if (!TENON_HAS(Table, table, field)) {                         \
      (identity).fail_missing(interface_id, #field);               \
    }                                                              \
  } while (false)
