// SPDX-License-Identifier: Apache-2.0
#include "arrow_json.hpp"

#include <tenon/cpp/guard.hpp>

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <memory>
#include <string_view>

#include "../../tokenizers/engine/utf8.hpp"

namespace tenon {
namespace {

using arrow::Type;

constexpr int kMaxDepth = 64;

[[noreturn]] void fail_offsets() {
  TENON_FAIL(TENON_INVALID, "chat.bad_parquet", "a list or a text has corrupt offsets");
}

Json text_of(std::string_view text) {
  if (const size_t at = invalid_utf8(text); at != kNoOffset) {
    TENON_FAIL(TENON_INVALID,
               "chat.not_utf8",
               "not UTF-8 at byte ",
               at + 1,
               " of a text of ",
               text.size(),
               " bytes; convert the texts of the file to UTF-8");
  }
  return Json(std::string(text));
}

bool holds_text(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::STRING:
    case Type::BINARY:
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      return true;
    case Type::DICTIONARY:
      return holds_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
    default:
      return false;
  }
}

void check_type(const arrow::DataType& type,
                const std::string& file,
                const std::string& column,
                int depth) {
  if (depth > kMaxDepth) {
    TENON_FAIL(TENON_INVALID,
               "chat.bad_parquet",
               file,
               ": the column ",
               json_string(column),
               " is nested more than ",
               kMaxDepth,
               " deep");
  }
  switch (type.id()) {
    case Type::NA:
    case Type::BOOL:
    case Type::INT8:
    case Type::INT16:
    case Type::INT32:
    case Type::INT64:
    case Type::UINT8:
    case Type::UINT16:
    case Type::UINT32:
    case Type::UINT64:
    case Type::FLOAT:
    case Type::DOUBLE:
      return;
    case Type::LIST:
    case Type::LARGE_LIST:
    case Type::FIXED_SIZE_LIST:
    case Type::STRUCT:
      for (const auto& field : type.fields()) {
        check_type(*field->type(), file, column, depth + 1);
      }
      return;
    case Type::MAP: {
      const auto& map = static_cast<const arrow::MapType&>(type);
      if (holds_text(*map.key_type())) {
        check_type(*map.item_type(), file, column, depth + 1);
        return;
      }
      break;
    }
    case Type::EXTENSION:
      check_type(
          *static_cast<const arrow::ExtensionType&>(type).storage_type(), file, column, depth + 1);
      return;
    default:
      if (holds_text(type)) {
        return;
      }
  }
  TENON_FAIL(TENON_INVALID,
             "chat.bad_parquet",
             file,
             ": the column ",
             json_string(column),
             " has the type ",
             type.ToString(),
             ", which has no form in JSON; remove it, or convert it to text");
}

Json value_of(const arrow::Array& array, int64_t i);

// Elements [begin, begin + size) of an array.
Json list_of(const arrow::Array& values, int64_t begin, int64_t size) {
  if (begin < 0 || size < 0 || begin > values.length() || size > values.length() - begin) {
    fail_offsets();
  }
  Json list = Json::array();
  for (int64_t i = begin; i < begin + size; ++i) {
    list.push_back(value_of(values, i));
  }
  return list;
}

Json object_of(const arrow::StructArray& array, int64_t i) {
  Json object = Json::object();
  for (int k = 0; k < array.num_fields(); ++k) {
    const std::shared_ptr<arrow::Array> field = array.field(k);
    if (i >= field->length()) {
      fail_offsets();
    }
    if (Json value = value_of(*field, i); !value.is_null()) {
      object[array.type()->field(k)->name()] = std::move(value);
    }
  }
  return object;
}

Json object_of(const arrow::MapArray& array, int64_t i) {
  const int64_t begin = array.value_offset(i);
  const Json keys = list_of(*array.keys(), begin, array.value_length(i));
  Json values = list_of(*array.items(), begin, array.value_length(i));
  Json object = Json::object();
  for (size_t k = 0; k < keys.size(); ++k) {
    if (keys[k].is_string() && !values[k].is_null()) {
      object[keys[k].get<std::string>()] = std::move(values[k]);
    }
  }
  return object;
}

template <class Strings>
Json string_of(const arrow::Array& array, int64_t i) {
  const auto& strings = static_cast<const Strings&>(array);
  const int64_t begin = strings.value_offset(i);
  const int64_t size = strings.value_length(i);
  const int64_t end = strings.value_data() == nullptr ? 0 : strings.value_data()->size();
  if (begin < 0 || size < 0 || begin > end || size > end - begin) {
    fail_offsets();
  }
  return text_of(strings.GetView(i));
}

template <class List>
Json elements_of(const arrow::Array& array, int64_t i) {
  const auto& lists = static_cast<const List&>(array);
  return list_of(*lists.values(), lists.value_offset(i), lists.value_length(i));
}

template <class Numbers>
Json number_of(const arrow::Array& array, int64_t i) {
  return Json(static_cast<const Numbers&>(array).Value(i));
}

Json word_of(const arrow::DictionaryArray& array, int64_t i) {
  const std::shared_ptr<arrow::Array> words = array.dictionary();
  const int64_t word = array.GetValueIndex(i);
  if (word < 0 || word >= words->length()) {
    fail_offsets();
  }
  return value_of(*words, word);
}

Json nested_of(const arrow::Array& array, int64_t i) {
  switch (array.type_id()) {
    case Type::LIST:
      return elements_of<arrow::ListArray>(array, i);
    case Type::LARGE_LIST:
      return elements_of<arrow::LargeListArray>(array, i);
    case Type::FIXED_SIZE_LIST:
      return elements_of<arrow::FixedSizeListArray>(array, i);
    case Type::STRUCT:
      return object_of(static_cast<const arrow::StructArray&>(array), i);
    case Type::MAP:
      return object_of(static_cast<const arrow::MapArray&>(array), i);
    case Type::DICTIONARY:
      return word_of(static_cast<const arrow::DictionaryArray&>(array), i);
    case Type::EXTENSION:
      return value_of(*static_cast<const arrow::ExtensionArray&>(array).storage(), i);
    default:
      TENON_FAIL(TENON_INVALID, "chat.bad_parquet", "the type ", array.type()->ToString());
  }
}

Json value_of(const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) {
    return nullptr;
  }
  switch (array.type_id()) {
    case Type::BOOL:
      return number_of<arrow::BooleanArray>(array, i);
    case Type::INT8:
      return number_of<arrow::Int8Array>(array, i);
    case Type::INT16:
      return number_of<arrow::Int16Array>(array, i);
    case Type::INT32:
      return number_of<arrow::Int32Array>(array, i);
    case Type::INT64:
      return number_of<arrow::Int64Array>(array, i);
    case Type::UINT8:
      return number_of<arrow::UInt8Array>(array, i);
    case Type::UINT16:
      return number_of<arrow::UInt16Array>(array, i);
    case Type::UINT32:
      return number_of<arrow::UInt32Array>(array, i);
    case Type::UINT64:
      return number_of<arrow::UInt64Array>(array, i);
    case Type::FLOAT:
      return number_of<arrow::FloatArray>(array, i);
    case Type::DOUBLE:
      return number_of<arrow::DoubleArray>(array, i);
    case Type::STRING:
    case Type::BINARY:
      return string_of<arrow::BinaryArray>(array, i);
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return string_of<arrow::LargeBinaryArray>(array, i);
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      return text_of(static_cast<const arrow::BinaryViewArray&>(array).GetView(i));
    default:
      return nested_of(array, i);
  }
}

}  // namespace

void check_has_json_form(const arrow::DataType& type,
                         const std::string& file,
                         const std::string& column) {
  check_type(type, file, column, 0);
}

Json json_of_row(const arrow::RecordBatch& batch, int64_t row) {
  Json object = Json::object();
  for (int k = 0; k < batch.num_columns(); ++k) {
    const std::string& name = batch.schema()->field(k)->name();
    try {
      if (Json value = value_of(*batch.column(k), row); !value.is_null()) {
        object[name] = std::move(value);
      }
    } catch (const Error& error) {
      throw Error(error.code(), error.id(), concat("\"", name, "\": ", error.what()));
    }
  }
  return object;
}

}  // namespace tenon
