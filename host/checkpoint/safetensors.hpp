// SPDX-License-Identifier: Apache-2.0
//
// The safetensors format: a JSON header with dtype, shape and position of each tensor, then the
// bytes of the tensors, little-endian and without gaps.
// Source: huggingface.co/docs/safetensors.
// Threads: any.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// A tensor in a file, as bytes [begin, end) from the start of the file.
struct SafeTensor {
  std::string name;
  at::ScalarType dtype = at::ScalarType::Float;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The name of a dtype, such as "F32"; null if the format does not support the dtype.
std::optional<std::string_view> safetensors_dtype(at::ScalarType dtype);
std::optional<at::ScalarType> scalar_type_of_safetensors(std::string_view dtype);

// Sets begin and end of each tensor, in the given order, and returns the bytes before the first
// tensor. Readers may show the text of `metadata`.
// Errors  checkpoint.bad_tensor for a dtype that the format does not support
std::string safetensors_header(std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata);

// The header of a file.
struct SafetensorsContent {
  std::vector<SafeTensor> tensors;  // in the order of their positions
  std::map<std::string, std::string> metadata;
};
// Reads the header of a file of `size` bytes. `read(offset, out)` fills `out` from that offset.
// Limits, as in the reference implementation: a header of at most 100 MB that is nested at most 128
// deep, and each name once.
// Errors  checkpoint.damaged with `address` if it is not a safetensors file, or if tensors overlap,
//         have gaps or exceed the file; those of `read`
SafetensorsContent read_safetensors_header(
    uint64_t size,
    const std::function<void(uint64_t offset, std::span<std::byte> out)>& read,
    const std::string& address);

}  // namespace tenon
