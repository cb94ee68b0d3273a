// SPDX-License-Identifier: Apache-2.0
//
// Reads tensors from a safetensors file.
// Threads: one call at a time per object.
#ifndef TENON_AOT_SAFETENSORS_FILE_HPP
#define TENON_AOT_SAFETENSORS_FILE_HPP

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

class SafetensorsFile {
 public:
  // Reads the header.
  //
  // Errors: TENON_NOT_FOUND without the file, TENON_DATA_LOSS if it is corrupt
  explicit SafetensorsFile(std::string path);

  // Returns a new tensor with the values of `name`.
  //
  // Errors: TENON_INVALID if there is no such tensor, or if it has another shape or dtype;
  // TENON_DATA_LOSS if the file is truncated
  at::Tensor read(const std::string& name,
                  const std::vector<int64_t>& shape,
                  at::ScalarType dtype) const;

 private:
  struct Entry {
    std::vector<int64_t> shape;
    std::string dtype;
    uint64_t begin = 0;  // in the file
    uint64_t end = 0;
  };

  std::string path_;
  std::map<std::string, Entry> entries_;
};

#endif
