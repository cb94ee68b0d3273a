// SPDX-License-Identifier: Apache-2.0
//
// Element types as the ABI numbers them (tensor.h), and the classes of them that a port may ask for
// (ports.h): names, sizes, and which satisfies which. Needs no libtorch; handle.hpp maps to its
// types.
// Threads: every function may be called from any thread.

#pragma once

#include <tenon/ports.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenon {

// True for a number of tensor.h's list of element types; false for classes and anything else.
bool is_dtype(uint32_t dtype) noexcept;
bool is_floating_dtype(uint32_t dtype) noexcept;
bool is_integer_dtype(uint32_t dtype) noexcept;  // bool is none

// Bytes of one element. The dtype must be one.
size_t dtype_size(uint32_t dtype);

// "f32", "bf16", "i64", "bool"; for classes "compute dtype", "any integer"; "dtype 77" for others.
std::string dtype_name(uint32_t dtype_or_class);

// The dtypes that a run's precision chooses.
struct RunDtypes {
  uint32_t compute = TENON_F32;
  uint32_t param = TENON_F32;
};

// True if a tensor of `dtype` may go into a port that declares `wanted`, a dtype or a class.
bool satisfies_dtype(uint32_t dtype, uint32_t wanted, const RunDtypes& run) noexcept;

}  // namespace tenon
