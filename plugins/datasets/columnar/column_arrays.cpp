// SPDX-License-Identifier: Apache-2.0
#include "column_arrays.hpp"

#include <tenon/cpp/guard.hpp>

#include <arrow/extension_type.h>
#include <arrow/type.h>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "../../features/byte_hash.hpp"

namespace tenon {
namespace {

using arrow::Type;

// Calls body(begin, end) with the range of entries of each list.
template <class List, class Body>
void for_each_list(const List& list,
                   const ElementRanges& ranges,
                   const OnNull& on_null,
                   const OnBadOffset& on_bad_offset,
                   const Body& body) {
  const int64_t num_entries = list.values()->length();
  for (const ElementRange& range : ranges) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (list.IsNull(i)) {
        on_null(i);
        body(0, 0);
        continue;
      }
      const int64_t begin = list.value_offset(i);
      const int64_t end = begin + list.value_length(i);
      if (begin < 0 || end < begin || end > num_entries) {
        on_bad_offset(i);
      }
      body(begin, end);
    }
  }
}

template <class Body>
void with_list(const arrow::Array& list, const Body& body) {
  switch (list.type_id()) {
    case Type::LIST:
      body(static_cast<const arrow::ListArray&>(list));
      return;
    case Type::LARGE_LIST:
      body(static_cast<const arrow::LargeListArray&>(list));
      return;
    case Type::FIXED_SIZE_LIST:
      body(static_cast<const arrow::FixedSizeListArray&>(list));
      return;
    case Type::MAP:
      body(static_cast<const arrow::MapArray&>(list));
      return;
    default:
      TENON_FAIL(TENON_INTERNAL, "internal", list.type()->ToString(), " is not a list");
  }
}

// Calls body(array) with the array cast to its binary or string class.
template <class Body>
void with_bytes(const arrow::Array& leaf, const Body& body) {
  switch (leaf.type_id()) {
    case Type::STRING:
    case Type::BINARY:
      body(static_cast<const arrow::BinaryArray&>(leaf));
      return;
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      body(static_cast<const arrow::LargeBinaryArray&>(leaf));
      return;
    default:
      TENON_FAIL(TENON_INTERNAL, "internal", leaf.type()->ToString(), " is not a string");
  }
}

template <class Bytes>
std::string_view bytes_at(const Bytes& leaf, int64_t i, const OnBadOffset& on_bad_offset) {
  const int64_t begin = leaf.value_offset(i);
  const int64_t end = leaf.value_offset(i + 1);
  const int64_t size = leaf.value_data() == nullptr ? 0 : leaf.value_data()->size();
  if (begin < 0 || end < begin || end > size) {
    on_bad_offset(i);
  }
  return end == begin
             ? std::string_view()
             : std::string_view(reinterpret_cast<const char*>(leaf.value_data()->data()) + begin,
                                static_cast<size_t>(end - begin));
}

uint64_t hash_of(StringHash hash, std::string_view text) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  switch (hash) {
    case StringHash::kMurmur64:
      return tenon_features::murmur64_hash(bytes, text.size());
    case StringHash::kMurmur3:
      return tenon_features::murmur3_hash(bytes, text.size());
    default:
      return tenon_features::farm_hash(bytes, text.size());
  }
}

template <class T, class Value>
void copy_each(const arrow::Array& leaf,
               const ElementRanges& ranges,
               T fill,
               const OnNull& on_null,
               T* out,
               const Value& value) {
  for (const ElementRange& range : ranges) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (leaf.IsNull(i)) {
        on_null(i);
        *out++ = fill;
      } else {
        *out++ = static_cast<T>(value(i));
      }
    }
  }
}

template <class C, class T>
void copy_primitive(const arrow::Array& leaf,
                    const C* values,
                    const ElementRanges& ranges,
                    T fill,
                    const OnNull& on_null,
                    T* out) {
  if (leaf.null_count() > 0) {
    copy_each(leaf, ranges, fill, on_null, out, [&](int64_t i) { return values[i]; });
    return;
  }
  for (const ElementRange& range : ranges) {
    if constexpr (std::is_same_v<C, T>) {
      if (range.end > range.begin) {
        std::memcpy(
            out, values + range.begin, static_cast<size_t>(range.end - range.begin) * sizeof(T));
      }
      out += range.end - range.begin;
    } else {
      for (int64_t i = range.begin; i < range.end; ++i) {
        *out++ = static_cast<T>(values[i]);
      }
    }
  }
}

// Dictionary index of element i; none if the element or its word is null.
std::optional<int64_t> word_at(const arrow::DictionaryArray& leaf,
                               const arrow::Array& words,
                               int64_t i,
                               const OnBadOffset& on_bad_offset) {
  if (leaf.IsNull(i)) {
    return std::nullopt;
  }
  const int64_t word = leaf.GetValueIndex(i);
  if (word < 0 || word >= words.length()) {
    on_bad_offset(i);
  }
  return words.IsNull(word) ? std::nullopt : std::optional<int64_t>(word);
}

// Converts each dictionary word once, then looks up each element.
template <class T>
void copy_dictionary(const arrow::DictionaryArray& leaf,
                     const ElementRanges& ranges,
                     StringHash hash,
                     T fill,
                     const OnNull& on_null,
                     const OnBadOffset& on_bad_offset,
                     T* out) {
  const arrow::Array& words = *leaf.dictionary();
  std::vector<T> values(static_cast<size_t>(words.length()));
  copy_values<T>(
      words, {{0, words.length()}}, hash, fill, [](int64_t) {}, on_bad_offset, values.data());
  for (const ElementRange& range : ranges) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const std::optional<int64_t> word = word_at(leaf, words, i, on_bad_offset);
      if (!word.has_value()) {
        on_null(i);
      }
      *out++ = word.has_value() ? values[static_cast<size_t>(*word)] : fill;
    }
  }
}

}  // namespace

int64_t num_elements(const ElementRanges& ranges) {
  int64_t n = 0;
  for (const ElementRange& range : ranges) {
    n += range.end - range.begin;
  }
  return n;
}

ArrayShape shape_of(const std::shared_ptr<arrow::DataType>& type) {
  ArrayShape shape;
  std::shared_ptr<arrow::DataType> at = type;
  while (true) {
    switch (at->id()) {
      case Type::FIXED_SIZE_LIST:
        shape.list_size = shape.levels == 0
                              ? std::optional<int64_t>(
                                    static_cast<const arrow::FixedSizeListType&>(*at).list_size())
                              : std::nullopt;
        at = static_cast<const arrow::FixedSizeListType&>(*at).value_type();
        break;
      case Type::LIST:
      case Type::LARGE_LIST:
      case Type::LIST_VIEW:
      case Type::LARGE_LIST_VIEW:
        shape.list_size.reset();
        at = static_cast<const arrow::BaseListType&>(*at).value_type();
        break;
      case Type::MAP:
        shape.list_size.reset();
        shape.is_map = true;
        at = static_cast<const arrow::MapType&>(*at).key_type();
        break;
      default:
        if (at->id() == Type::EXTENSION) {
          at = static_cast<const arrow::ExtensionType&>(*at).storage_type();
          continue;
        }
        shape.leaf = at;
        return shape;
    }
    ++shape.levels;
    if (shape.levels > 1) {
      shape.list_size.reset();
    }
  }
}

ElementRanges open_lists(const arrow::Array& list,
                         const ElementRanges& ranges,
                         std::vector<int64_t>& offsets,
                         const OnNull& on_null,
                         const OnBadOffset& on_bad_offset) {
  ElementRanges entries;
  int64_t total = offsets.back();
  offsets.reserve(offsets.size() + static_cast<size_t>(num_elements(ranges)));
  const auto take = [&](int64_t begin, int64_t end) {
    total += end - begin;
    offsets.push_back(total);
    if (begin == end) {
      return;
    }
    if (!entries.empty() && entries.back().end == begin) {
      entries.back().end = end;
    } else {
      entries.push_back({begin, end});
    }
  };
  with_list(list,
            [&](const auto& lists) { for_each_list(lists, ranges, on_null, on_bad_offset, take); });
  return entries;
}

std::shared_ptr<arrow::Array> entries_of(const arrow::Array& list) {
  if (list.type_id() == Type::MAP) {
    return static_cast<const arrow::MapArray&>(list).keys();
  }
  std::shared_ptr<arrow::Array> entries;
  with_list(list, [&](const auto& lists) { entries = lists.values(); });
  return entries;
}

std::shared_ptr<arrow::DataType> with_entries(const arrow::DataType& type,
                                              const std::shared_ptr<arrow::DataType>& entry) {
  switch (type.id()) {
    case Type::LARGE_LIST:
      return arrow::large_list(entry);
    case Type::FIXED_SIZE_LIST:
      return arrow::fixed_size_list(entry,
                                    static_cast<const arrow::FixedSizeListType&>(type).list_size());
    default:
      return arrow::list(entry);
  }
}

std::shared_ptr<arrow::Array> with_entries(const arrow::Array& list,
                                           const std::shared_ptr<arrow::Array>& entries) {
  const std::shared_ptr<arrow::ArrayData> data = list.data()->Copy();
  data->child_data[0] = entries->data();
  data->type = with_entries(*list.type(), entries->type());
  return arrow::MakeArray(data);
}

std::shared_ptr<arrow::Array> map_values_of(const arrow::Array& map) {
  return static_cast<const arrow::MapArray&>(map).items();
}

template <class T>
const T* plain_values(const arrow::Array& leaf, const ElementRange& range) {
  constexpr Type::type kOwn = std::is_same_v<T, int64_t> ? Type::INT64
                              : std::is_same_v<T, float> ? Type::FLOAT
                                                         : Type::DOUBLE;
  const bool is_same = leaf.type_id() == kOwn ||
                       (std::is_same_v<T, int64_t> && leaf.type_id() == Type::UINT64) ||
                       (std::is_same_v<T, int64_t> && leaf.type_id() == Type::TIMESTAMP);
  return is_same && leaf.null_count() == 0 && range.end <= leaf.length()
             ? leaf.data()->GetValues<T>(1) + range.begin
             : nullptr;
}

template <class T>
void copy_values(const arrow::Array& leaf,
                 const ElementRanges& ranges,
                 StringHash hash,
                 T fill,
                 const OnNull& on_null,
                 const OnBadOffset& on_bad_offset,
                 T* out) {
  switch (leaf.type_id()) {
    case Type::BOOL: {
      const auto& values = static_cast<const arrow::BooleanArray&>(leaf);
      copy_each(
          leaf, ranges, fill, on_null, out, [&](int64_t i) { return values.Value(i) ? 1 : 0; });
      return;
    }
    case Type::INT8:
    case Type::INT16:
    case Type::INT32:
    case Type::INT64:
    case Type::UINT8:
    case Type::UINT16:
    case Type::UINT32:
    case Type::UINT64:
    case Type::DATE32:
    case Type::DATE64:
    case Type::TIME32:
    case Type::TIME64:
    case Type::TIMESTAMP:
    case Type::DURATION:
      return with_integers(leaf, [&](const auto* values) {
        copy_primitive(leaf, values, ranges, fill, on_null, out);
      });
    case Type::FLOAT:
      return copy_primitive(leaf, leaf.data()->GetValues<float>(1), ranges, fill, on_null, out);
    case Type::DOUBLE:
      return copy_primitive(leaf, leaf.data()->GetValues<double>(1), ranges, fill, on_null, out);
    case Type::HALF_FLOAT:
      return with_reals(
          leaf, [&](const auto& real_at) { copy_each(leaf, ranges, fill, on_null, out, real_at); });
    case Type::NA:
      copy_each(leaf, ranges, fill, on_null, out, [](int64_t) { return 0; });
      return;
    case Type::DICTIONARY:
      copy_dictionary(static_cast<const arrow::DictionaryArray&>(leaf),
                      ranges,
                      hash,
                      fill,
                      on_null,
                      on_bad_offset,
                      out);
      return;
    default:
      with_bytes(leaf, [&](const auto& strings) {
        copy_each(leaf, ranges, fill, on_null, out, [&](int64_t i) {
          return static_cast<int64_t>(hash_of(hash, bytes_at(strings, i, on_bad_offset)));
        });
      });
  }
}

std::string copy_text(const arrow::Array& leaf,
                      const ElementRanges& ranges,
                      std::vector<int64_t>& offsets,
                      const OnNull& on_null,
                      const OnBadOffset& on_bad_offset) {
  std::string bytes;
  const auto base = offsets.back();
  const auto append = [&](const arrow::Array& words, int64_t i) {
    with_bytes(words, [&](const auto& strings) { bytes += bytes_at(strings, i, on_bad_offset); });
  };
  for (const ElementRange& range : ranges) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (leaf.type_id() == Type::DICTIONARY) {
        const auto& dictionary = static_cast<const arrow::DictionaryArray&>(leaf);
        const arrow::Array& words = *dictionary.dictionary();
        if (const std::optional<int64_t> word = word_at(dictionary, words, i, on_bad_offset)) {
          append(words, *word);
        } else {
          on_null(i);
        }
      } else if (leaf.IsNull(i)) {
        on_null(i);
      } else {
        append(leaf, i);
      }
      offsets.push_back(base + static_cast<int64_t>(bytes.size()));
    }
  }
  return bytes;
}

bool has_null(const arrow::Array& array, int64_t element) {
  if (array.IsNull(element)) {
    return true;
  }
  switch (array.type_id()) {
    case Type::LIST:
    case Type::LARGE_LIST:
    case Type::FIXED_SIZE_LIST:
    case Type::MAP: {
      bool found = false;
      with_list(array, [&](const auto& lists) {
        const int64_t begin = lists.value_offset(element);
        const int64_t end = begin + lists.value_length(element);
        const auto search = [&](const arrow::Array& entries) {
          for (int64_t i = begin; i < end && i < entries.length() && begin >= 0 && !found; ++i) {
            found = has_null(entries, i);
          }
        };
        search(*entries_of(array));
        if (array.type_id() == Type::MAP) {
          search(*map_values_of(array));
        }
      });
      return found;
    }
    case Type::DICTIONARY: {
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
      const int64_t word = dictionary.GetValueIndex(element);
      return word >= 0 && word < dictionary.dictionary()->length() &&
             dictionary.dictionary()->IsNull(word);
    }
    default:
      return false;
  }
}

int64_t list_of_entry(const arrow::Array& list, int64_t entry) {
  int64_t found = 0;
  with_list(list, [&](const auto& lists) {
    for (int64_t i = 0; i < list.length(); ++i) {
      const int64_t begin = lists.value_offset(i);
      if (list.IsValid(i) && begin <= entry && entry < begin + lists.value_length(i)) {
        found = i;
        return;
      }
    }
  });
  return found;
}

template const int64_t* plain_values<int64_t>(const arrow::Array&, const ElementRange&);
template const float* plain_values<float>(const arrow::Array&, const ElementRange&);
template const double* plain_values<double>(const arrow::Array&, const ElementRange&);
template void copy_values<int64_t>(const arrow::Array&,
                                   const ElementRanges&,
                                   StringHash,
                                   int64_t,
                                   const OnNull&,
                                   const OnBadOffset&,
                                   int64_t*);
template void copy_values<float>(const arrow::Array&,
                                 const ElementRanges&,
                                 StringHash,
                                 float,
                                 const OnNull&,
                                 const OnBadOffset&,
                                 float*);
template void copy_values<double>(const arrow::Array&,
                                  const ElementRanges&,
                                  StringHash,
                                  double,
                                  const OnNull&,
                                  const OnBadOffset&,
                                  double*);

}  // namespace tenon
