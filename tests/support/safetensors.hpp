// SPDX-License-Identifier: Apache-2.0
//
// Reads golden data: a safetensors file of fp32 and int64 tensors, whole into memory. It trusts the
// file, which lies in this tree; it is no reader for files of strangers.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace tenon {

struct GoldenData {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;

  // Errors  std::out_of_range if there is none of that name
  const at::Tensor& at(const std::string& name) const { return tensors.at(name); }
};

// Errors  std::runtime_error, with the path
// Source  the format's own description: 8 bytes of length, a JSON header, the data
GoldenData read_safetensors(const std::filesystem::path& path);

}  // namespace tenon
