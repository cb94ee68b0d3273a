// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/sized_struct.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

namespace tenon {

std::string size_problem(const char* name, std::size_t struct_size, std::size_t least) {
  if (struct_size >= least && struct_size <= TENON_MAX_STRUCT_SIZE &&
      struct_size % sizeof(void*) == 0) {
    return "";
  }
  return formatted(
      "{} has struct_size {}, expected a multiple of {} from {} to {}; set it to sizeof({})",
      name,
      struct_size,
      sizeof(void*),
      least,
      TENON_MAX_STRUCT_SIZE,
      name);
}

std::string element_problem(const char* name,
                            std::size_t i,
                            std::size_t struct_size,
                            std::size_t distance) {
  if (struct_size == distance) {
    return "";
  }
  return formatted(
      "{} {} of an array has struct_size {}, but the first one has {}; set it to "
      "sizeof({}) in each element",
      name,
      i,
      struct_size,
      distance,
      name);
}

void refuse_size(const std::string& problem) {
  if (!problem.empty()) {
    throw Error("plugin.bad_struct", problem);
  }
}

}  // namespace tenon
