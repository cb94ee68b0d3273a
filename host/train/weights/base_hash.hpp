// SPDX-License-Identifier: Apache-2.0
//
// A hash of the parameters that adapters were trained for. An exported adapter has it, so that it
// is not loaded into a run with another base. Hashes of parts add up, so that each rank hashes what
// it stores.
// Threads: any.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

// Returns the hash of the elements [first, first + part.numel()) of a parameter, by their values in
// fp32. The hash of several parts is the sum of theirs, modulo 2^64.
// Shapes  part: any, floating point, on the CPU
uint64_t base_hash_of(std::string_view name, int64_t first, const at::Tensor& part);

// Returns the text of a hash: 16 hexadecimal digits.
std::string base_hash_text(uint64_t hash);

}  // namespace tenon
