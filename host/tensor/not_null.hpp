// SPDX-License-Identifier: Apache-2.0
//
// Checks pointers that plugins pass to functions of the host. Threads: any.
#pragma once

#include "host/error/error.hpp"

#include <string>

namespace tenon {

// Returns the object that an argument points to.
// Errors: tensor.bad_argument if the pointer is null
template <class T>
T& not_null(T* pointer, const char* name) {
  if (pointer == nullptr) {
    throw Error("tensor.bad_argument", std::string("argument '") + name + "' is null");
  }
  return *pointer;
}

}  // namespace tenon
