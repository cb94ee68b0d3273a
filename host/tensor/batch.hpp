// SPDX-License-Identifier: Apache-2.0
//
// A batch: tensors that belong together, and the schema that names them. Loaders fill batches;
// blocks, losses and hooks read them.
// Invariants: `fields` has one entry for each field of the schema, in its order; entries of a batch
// without samples may be undefined. The schema outlives its batches, and all batches of a dataset
// share it.
// Threads: owned by one thread at a time; it moves from a loader thread to the train thread.

#pragma once

#include "host/tensor/axis.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct FieldInfo {
  std::string name;
  uint32_t dtype = 0;  // TENON_F32, ...
  uint32_t flags = 0;  // TENON_FIELD_*
  std::vector<Axis> axes;
  double pad = 0.0;

  bool operator==(const FieldInfo&) const = default;
};

// Returns the index of the field `name`, or nothing.
std::optional<size_t> find_field(const std::vector<FieldInfo>& schema,
                                 std::string_view name) noexcept;

class Batch {
 public:
  // Shared with the dataset's proxy and with every other batch of the dataset.
  std::shared_ptr<const std::vector<FieldInfo>> schema;
  std::vector<at::Tensor> fields;
  int64_t samples = 0;
  int64_t tokens = 0;  // without padding; 0 if tokens have no meaning

  // Returns the field `name`, or null if the schema has none or the field is undefined.
  const at::Tensor* find(std::string_view name) const noexcept;

  // Returns the bytes of all fields.
  size_t num_bytes() const;
};

}  // namespace tenon
