// SPDX-License-Identifier: Apache-2.0
//
// Writes a state dict for torch.load(weights_only=True), with the serialization of libtorch.
// Invariants: the file is written atomically; at most one tensor is in memory at a time.
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
  size_t source = 0;  // argument of `read`; tensors of one source share their storage
};

// Writes a dict of tensors by name, in the given order. Calls `read(source)` once per source, in
// ascending order, to get the values. Returns the bytes of all values.
//
// Errors   weights.exists if the file exists; export.in_use; storage.io; those of `read`
uint64_t write_torch_file(const std::string& path,
                          const std::vector<TorchTensor>& tensors,
                          const std::function<at::Tensor(size_t source)>& read);

}  // namespace tenon
