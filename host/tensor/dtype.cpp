// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/dtype.hpp"

#include "host/error/assert.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <array>

namespace tenon {
namespace {

enum class Kind { kInteger, kBool, kFloating };

struct Row {
  uint32_t dtype;
  Kind kind;
  size_t size;
  const char* name;
};

constexpr std::array kRows = {
    Row{TENON_U8, Kind::kInteger, 1, "u8"},
    Row{TENON_I8, Kind::kInteger, 1, "i8"},
    Row{TENON_I16, Kind::kInteger, 2, "i16"},
    Row{TENON_I32, Kind::kInteger, 4, "i32"},
    Row{TENON_I64, Kind::kInteger, 8, "i64"},
    Row{TENON_F16, Kind::kFloating, 2, "f16"},
    Row{TENON_F32, Kind::kFloating, 4, "f32"},
    Row{TENON_F64, Kind::kFloating, 8, "f64"},
    Row{TENON_BOOL, Kind::kBool, 1, "bool"},
    Row{TENON_BF16, Kind::kFloating, 2, "bf16"},
    Row{TENON_F8_E5M2, Kind::kFloating, 1, "f8_e5m2"},
    Row{TENON_F8_E4M3, Kind::kFloating, 1, "f8_e4m3"},
};

const Row* find_row(uint32_t dtype) noexcept {
  const auto* const row = std::ranges::find(kRows, dtype, &Row::dtype);
  return row != kRows.end() ? row : nullptr;
}

}  // namespace

bool is_dtype(uint32_t dtype) noexcept {
  return find_row(dtype) != nullptr;
}

bool is_floating_dtype(uint32_t dtype) noexcept {
  const Row* const row = find_row(dtype);
  return row != nullptr && row->kind == Kind::kFloating;
}

bool is_integer_dtype(uint32_t dtype) noexcept {
  const Row* const row = find_row(dtype);
  return row != nullptr && row->kind == Kind::kInteger;
}

size_t dtype_size(uint32_t dtype) {
  const Row* const row = find_row(dtype);
  TENON_ASSERT(row != nullptr, "the size of something that is no dtype");
  return row->size;
}

std::string dtype_name(uint32_t dtype_or_class) {
  if (const Row* const row = find_row(dtype_or_class)) {
    return row->name;
  }
  switch (dtype_or_class) {
    case TENON_CLASS_COMPUTE:
      return "compute dtype";
    case TENON_CLASS_PARAM:
      return "parameter dtype";
    case TENON_CLASS_FLOAT:
      return "any floating point";
    case TENON_CLASS_INTEGER:
      return "any integer";
    case TENON_CLASS_ANY:
      return "any dtype";
    default:
      return formatted("dtype {}", dtype_or_class);
  }
}

bool satisfies_dtype(uint32_t dtype, uint32_t wanted, const RunDtypes& run) noexcept {
  switch (wanted) {
    case TENON_CLASS_COMPUTE:
      return dtype == run.compute;
    case TENON_CLASS_PARAM:
      return dtype == run.param;
    case TENON_CLASS_FLOAT:
      return is_floating_dtype(dtype);
    case TENON_CLASS_INTEGER:
      return is_integer_dtype(dtype);
    case TENON_CLASS_ANY:
      return is_dtype(dtype);
    default:
      return is_dtype(dtype) && dtype == wanted;
  }
}

}  // namespace tenon
