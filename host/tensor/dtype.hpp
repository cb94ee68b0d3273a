// SPDX-License-Identifier: Apache-2.0
//
// Element types as the ABI numbers them (tensor.h), and the dtype classes that a port may declare
// (ports.h): names, sizes and compatibility. Needs no libtorch; handle.hpp maps to its types.
// Threads: every function may be called from any thread.

#pragma once

#include <tenon/ports.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenon {

// True for the element types of tensor.h; false for classes and all other numbers.
bool is_dtype(uint32_t dtype) noexcept;
bool is_floating_dtype(uint32_t dtype) noexcept;
bool is_integer_dtype(uint32_t dtype) noexcept;  // false for bool

// Returns the bytes of one element. Requires is_dtype(dtype).
size_t dtype_size(uint32_t dtype);

// "f32", "bf16", "i64", "bool"; for classes "compute dtype", "any integer"; "dtype 77" for others.
std::string dtype_name(uint32_t dtype_or_class);

// Dtypes that the precision of a run chooses.
struct RunDtypes {
  uint32_t compute = TENON_F32;
  uint32_t param = TENON_F32;
};

// True if a port that declares `wanted`, a dtype or a class, accepts a tensor of `dtype`.
bool satisfies_dtype(uint32_t dtype, uint32_t wanted, const RunDtypes& run) noexcept;

}  // namespace tenon
