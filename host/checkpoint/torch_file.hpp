// SPDX-License-Identifier: Apache-2.0
//
// A state dict that torch.load(weights_only=True) reads, written by libtorch's own serialisation.
// Invariants: the file is there wholly or not at all; no more than one tensor is in memory for it.
// Threads: any.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

struct TorchTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  size_t source = 0;  // which `read` gives it: tensors of one source share their storage
};

// Writes a dict of tensors by name, in the order given. `read(source)` gives the values, once for
// each source, in ascending order. Returns their bytes.
//
// Errors   weights.exists if there is a file; storage.io; those of `read`
uint64_t write_torch_file(const std::string& path,
                          const std::vector<TorchTensor>& tensors,
                          const std::function<at::Tensor(size_t source)>& read);

}  // namespace tenon
