// SPDX-License-Identifier: Apache-2.0
//
// A hash of the parameters that adapters were trained for. An exported adapter has it, so that it
// is not loaded into a run with another base. Hashes of parts add up, so that each rank hashes what
// it stores.
// Threads: any.
#pragma once

#include "host/tensor/tensor_piece.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

// Returns the hash of the elements of a piece of a parameter, by their positions in the parameter
// and their values in fp32. The hash of several pieces is the sum of theirs, modulo 2^64.
// Shapes  values: any of the piece's numel(), floating point, on the CPU
uint64_t base_hash_of(std::string_view name, const TensorPiece& piece, const at::Tensor& values);

// Returns the text of a hash: 16 hexadecimal digits.
std::string base_hash_text(uint64_t hash);

}  // namespace tenon
