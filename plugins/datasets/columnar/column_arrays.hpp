// SPDX-License-Identifier: Apache-2.0
//
// Extracts values from Arrow arrays: numbers converted to another type, strings as hashes or bytes,
// lists as offsets. This file knows arrays and element ranges only; column.hpp gives columns their
// meaning.
// Invariant: never reads outside an array, even if the file's offsets are corrupt.
// Threads: pure functions, from any thread.
#pragma once

#include <arrow/array.h>
#include <arrow/util/float16.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Hash functions that convert strings to ids; see ../../features/byte_hash.hpp.
enum class StringHash { kNone, kFarm, kMurmur64, kMurmur3 };

// Elements [begin, end) of an array.
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
};
using ElementRanges = std::vector<ElementRange>;

// Total number of elements in all ranges.
int64_t num_elements(const ElementRanges& ranges);

// Nested structure of a type: `levels` of lists around values of type `leaf`. For a map, the values
// are its keys.
struct ArrayShape {
  int levels = 0;
  std::optional<int64_t> list_size;  // entries of a fixed-size list, if that is the only level
  bool is_map = false;
  std::shared_ptr<arrow::DataType> leaf;
};
ArrayShape shape_of(const std::shared_ptr<arrow::DataType>& type);

// Called with the index of a null element. Throws to reject it, or returns to accept the fill
// value.
using OnNull = std::function<void(int64_t element)>;
// Called with the index of an element with corrupt offsets. Must throw.
using OnBadOffset = std::function<void(int64_t element)>;

// Descends one level. Appends to `offsets`, which is not empty, the end of each list of `ranges`,
// in entries. Returns the ranges of these entries in entries_of(list). A null list has no entries.
ElementRanges open_lists(const arrow::Array& list,
                         const ElementRanges& ranges,
                         std::vector<int64_t>& offsets,
                         const OnNull& on_null,
                         const OnBadOffset& on_bad_offset);
// The child array that a list's offsets index; for a map, the keys.
std::shared_ptr<arrow::Array> entries_of(const arrow::Array& list);
// The list with other entries, and the type of such a list: `type` is that of the list.
std::shared_ptr<arrow::Array> with_entries(const arrow::Array& list,
                                           const std::shared_ptr<arrow::Array>& entries);
std::shared_ptr<arrow::DataType> with_entries(const arrow::DataType& type,
                                              const std::shared_ptr<arrow::DataType>& entry);
// The values of a map.
std::shared_ptr<arrow::Array> map_values_of(const arrow::Array& map);

// Calls body(values) with a pointer to the integers of an array, times included.
template <class Body>
void with_integers(const arrow::Array& array, const Body& body) {
  switch (array.type_id()) {
    case arrow::Type::INT8:
      return body(array.data()->GetValues<int8_t>(1));
    case arrow::Type::INT16:
      return body(array.data()->GetValues<int16_t>(1));
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
      return body(array.data()->GetValues<int32_t>(1));
    case arrow::Type::UINT8:
      return body(array.data()->GetValues<uint8_t>(1));
    case arrow::Type::UINT16:
      return body(array.data()->GetValues<uint16_t>(1));
    case arrow::Type::UINT32:
      return body(array.data()->GetValues<uint32_t>(1));
    case arrow::Type::UINT64:
      return body(array.data()->GetValues<uint64_t>(1));
    default:
      return body(array.data()->GetValues<int64_t>(1));
  }
}

// Calls body(value_at) with a function from an element of an array of f16, f32 or f64 to its value.
template <class Body>
void with_reals(const arrow::Array& array, const Body& body) {
  switch (array.type_id()) {
    case arrow::Type::HALF_FLOAT: {
      const auto* const bits = array.data()->GetValues<uint16_t>(1);
      return body([bits](int64_t i) { return arrow::util::Float16::FromBits(bits[i]).ToDouble(); });
    }
    case arrow::Type::FLOAT: {
      const auto* const values = array.data()->GetValues<float>(1);
      return body([values](int64_t i) { return static_cast<double>(values[i]); });
    }
    default: {
      const auto* const values = array.data()->GetValues<double>(1);
      return body([values](int64_t i) { return values[i]; });
    }
  }
}

// Pointer into the array if its values can be used in place: the type is T and the range has no
// null. Otherwise null.
template <class T>
const T* plain_values(const arrow::Array& leaf, const ElementRange& range);

// Copies numbers, or hashes of strings, as T: int64_t, float or double. Null elements become
// `fill`.
template <class T>
void copy_values(const arrow::Array& leaf,
                 const ElementRanges& ranges,
                 StringHash hash,
                 T fill,
                 const OnNull& on_null,
                 const OnBadOffset& on_bad_offset,
                 T* out);

// Concatenates the bytes of strings. Appends the end of each string to `offsets`, which is not
// empty. A null string has no bytes.
std::string copy_text(const arrow::Array& leaf,
                      const ElementRanges& ranges,
                      std::vector<int64_t>& offsets,
                      const OnNull& on_null,
                      const OnBadOffset& on_bad_offset);

// True if an element, or any value inside it, is null. The values of maps count as their keys do.
bool has_null(const arrow::Array& array, int64_t element);

// Index of the element of `list` that contains entry `entry` of entries_of(list). For messages.
int64_t list_of_entry(const arrow::Array& list, int64_t entry);

}  // namespace tenon
