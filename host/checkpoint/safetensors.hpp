// SPDX-License-Identifier: Apache-2.0
//
// The format that tensors are kept in: a header of JSON that says dtype, shape and place of each,
// and then their bytes, little-endian, without gaps. Many programs read it.
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

// A tensor in a file: [begin, end) are bytes from the beginning of the file.
struct SafeTensor {
  std::string name;
  at::ScalarType dtype = at::ScalarType::Float;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// "F32"; none for types that the format has no name for.
std::optional<std::string_view> safetensors_dtype(at::ScalarType dtype);
std::optional<at::ScalarType> scalar_type_of_safetensors(std::string_view dtype);

// Gives each tensor its place, in the order given, and returns the bytes that stand before the
// first: begin and end are set. `metadata` is text that readers may show.
// Errors  checkpoint.bad_tensor for a type that the format does not have
std::string safetensors_header(std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata);

// What a file holds. `read(offset, out)` fills `out` from there; `size` is that of the file.
// Errors  checkpoint.damaged with `address` where it is no such file, or tensors lie outside of it,
//         over each other or with gaps; those of `read`
struct SafetensorsContent {
  std::vector<SafeTensor> tensors;  // in the order of their places
  std::map<std::string, std::string> metadata;
};
SafetensorsContent read_safetensors_header(
    uint64_t size,
    const std::function<void(uint64_t offset, std::span<std::byte> out)>& read,
    const std::string& address);

}  // namespace tenon
