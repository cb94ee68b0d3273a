// SPDX-License-Identifier: Apache-2.0
//
// Structs of the ABI that a plugin allocates (abi.h, convention 2). A plugin may have been built
// with older or newer headers, so `struct_size` decides which fields its structs have. The host
// reads and writes such a struct only through read_sized() and write_sized(); tests/tree holds it
// to that.
// Threads: any.
#pragma once

#include <tenon/draft/chat_template.h>
#include <tenon/draft/source_files.h>
#include <tenon/draft/sparse_optimizer.h>
#include <tenon/draft/text_generation.h>
#include <tenon/draft/weights_layout.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

namespace tenon {

// What the host demands of a struct that a plugin allocates: its name, and the end of the last
// field that every supported plugin has. A field added later is optional: `kLeast` stays, and the
// field has the value of `defaults` in read_sized() if a plugin lacks it.
template <class T>
struct SizedStruct;

#define TENON_SIZED_STRUCT(T, last_required)                              \
  template <>                                                             \
  struct SizedStruct<T> {                                                 \
    static constexpr const char* kName = #T;                              \
    static constexpr std::size_t kLeast = TENON_END_OF(T, last_required); \
  }

TENON_SIZED_STRUCT(tenon_block_spec, unit);
TENON_SIZED_STRUCT(tenon_buffer_spec, kind);
TENON_SIZED_STRUCT(tenon_component_ref, self);
TENON_SIZED_STRUCT(tenon_field_spec, pad);
TENON_SIZED_STRUCT(tenon_layout_tensor, index);
TENON_SIZED_STRUCT(tenon_lr_group, rate);
TENON_SIZED_STRUCT(tenon_metric_state_spec, init);
TENON_SIZED_STRUCT(tenon_parameter_spec, split);
TENON_SIZED_STRUCT(tenon_parameter_view, numel);
TENON_SIZED_STRUCT(tenon_port, num_axes);
TENON_SIZED_STRUCT(tenon_render_args, context);
TENON_SIZED_STRUCT(tenon_row_slot_spec, init);
TENON_SIZED_STRUCT(tenon_slot_spec, init);
TENON_SIZED_STRUCT(tenon_source_file, reserved);
TENON_SIZED_STRUCT(tenon_special_token, id);
TENON_SIZED_STRUCT(tenon_split, num_parts);
TENON_SIZED_STRUCT(tenon_tensor_info, requires_grad);
TENON_SIZED_STRUCT(tenon_text_request, seed);
TENON_SIZED_STRUCT(tenon_text_result, reserved);
TENON_SIZED_STRUCT(tenon_value_spec, reserved);

#undef TENON_SIZED_STRUCT

// Returns what is wrong with the size of a struct: "tenon_port has struct_size 24, expected a
// multiple of 8 from 48 to 4096"; "" if nothing is. `struct_size` is all that is read.
std::string size_problem(const char* name, std::size_t struct_size, std::size_t least);

template <class T>
std::string size_problem(const T& theirs) {
  return size_problem(SizedStruct<T>::kName, theirs.struct_size, SizedStruct<T>::kLeast);
}

// Returns what is wrong with element `i` of an array: its size, or that it differs from the
// distance of the elements; "" if nothing is.
std::string element_problem(const char* name,
                            std::size_t i,
                            std::size_t struct_size,
                            std::size_t distance);

// Throws plugin.bad_struct with the problem, unless it is "".
void refuse_size(const std::string& problem);

// Returns a copy of a plugin's struct. Fields beyond its struct_size have their values in
// `defaults`; no memory beyond struct_size is read.
//
// Errors   plugin.bad_struct if struct_size is invalid, or smaller than every supported plugin's
template <class T>
T read_sized(const T& theirs, const T& defaults = T{}) {
  static_assert(std::is_trivially_copyable_v<T>);
  refuse_size(size_problem(theirs));
  T copy = defaults;
  std::memcpy(&copy, &theirs, std::min(theirs.struct_size, sizeof(T)));
  copy.struct_size = sizeof(T);
  return copy;
}

// Copies `values` to a plugin's struct, except for the fields that its struct_size does not cover.
// `theirs.struct_size` stays.
//
// Errors   plugin.bad_struct, as for read_sized(); `theirs` is then unmodified
template <class T>
void write_sized(T& theirs, T values) {
  static_assert(std::is_trivially_copyable_v<T>);
  refuse_size(size_problem(theirs));
  values.struct_size = theirs.struct_size;
  std::memcpy(&theirs, &values, std::min(theirs.struct_size, sizeof(T)));
}

// Returns element `i` of a plugin's array of structs, which are `array->struct_size` bytes apart.
//
// Errors   plugin.bad_struct, also if the elements differ in struct_size
template <class T>
T read_element(const T* array, std::size_t i, const T& defaults = T{}) {
  const std::size_t distance = array->struct_size;
  refuse_size(size_problem(*array));
  const auto& element =
      *reinterpret_cast<const T*>(reinterpret_cast<const char*>(array) + i * distance);
  refuse_size(element_problem(SizedStruct<T>::kName, i, element.struct_size, distance));
  return read_sized(element, defaults);
}

}  // namespace tenon
