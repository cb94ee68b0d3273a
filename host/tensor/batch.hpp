// SPDX-License-Identifier: Apache-2.0
//
// A batch: tensors that belong together, and the schema that names them. Loaders fill it, blocks,
// losses and hooks read it.
// Invariants: `fields` has one entry for each of the schema's, in its order; it is undefined where
// the dataset left the field out. The schema outlives its batches and is shared by all of a
// dataset.
// Threads: owned by one thread at a time; it moves from a loader thread to the train
// thread.

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

// The index of the field of that name.
std::optional<size_t> find_field(const std::vector<FieldInfo>& schema,
                                 std::string_view name) noexcept;

class Batch {
 public:
  // Shared with the dataset's proxy and with every other batch of the dataset.
  std::shared_ptr<const std::vector<FieldInfo>> schema;
  std::vector<at::Tensor> fields;
  int64_t samples = 0;
  int64_t tokens = 0;  // that are not padding; 0 if that means nothing

  // The field of that name, or null if the schema has none or the dataset left it out.
  const at::Tensor* find(std::string_view name) const noexcept;

  // Bytes of all fields.
  size_t num_bytes() const;
};

}  // namespace tenon
