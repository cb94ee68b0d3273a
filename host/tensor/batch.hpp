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

// The field that the host adds to each batch with an axis "T": the lengths of its samples.
inline constexpr std::string_view kLengthsField = "lengths";

// The field that the host adds to a part of a batch: the positions of its entries in the whole
// sequences, i64 [B, T].
inline constexpr std::string_view kPositionsField = "position_ids";

// Returns the fields that models, losses and metrics can read: those of the schema, and
// kLengthsField if a field has the axis "T" and none has that name.
std::vector<FieldInfo> readable_fields(const std::vector<FieldInfo>& schema);

// A sequence of tokens that attend to each other: entries [first, first + length) of a row along
// the axis "T".
struct BatchSequence {
  int64_t row = 0;
  int64_t first = 0;
  int64_t length = 0;
  uint32_t part = 0;  // number of its source in a mix

  bool operator==(const BatchSequence&) const = default;
};

// Entries [begin, begin + length) along the axis "T".
struct PositionRange {
  int64_t begin = 0;
  int64_t length = 0;

  bool operator==(const PositionRange&) const = default;
};

// A batch of which this rank has only some positions.
struct BatchPositions {
  PositionRange range;
  int64_t whole = 0;                     // size of T before the cut
  std::vector<BatchSequence> sequences;  // those of the whole batch
  at::Tensor position_ids;               // i64 [B, T]: begin, begin + 1, ...
};

class Batch {
 public:
  // Shared with the dataset's proxy and with every other batch of the dataset.
  std::shared_ptr<const std::vector<FieldInfo>> schema;
  std::vector<at::Tensor> fields;
  int64_t samples = 0;  // size of the axis "B"; with packing, the number of rows
  int64_t tokens = 0;   // without padding; 0 if tokens have no meaning
  // Valid entries of each sample along the axis "T", i64 [B]; undefined if no field has that axis,
  // or the dataset counts other tokens than the entries.
  at::Tensor lengths;
  // The sequences of the rows, by row and then by position, without padding. Empty if `lengths` is
  // undefined. With packing, a row has several; otherwise it is one, which may have the length 0.
  std::vector<BatchSequence> sequences;
  // In a mix of map-style sources, without packing: the number of each row's source.
  std::vector<uint32_t> row_parts;
  // With packing: samples of the dataset that begin in the rows.
  std::optional<int64_t> packed_samples = {};
  // Where the positions of a sequence are divided among ranks: the part of this rank.
  std::optional<BatchPositions> positions = {};

  // Returns the number of samples of the dataset.
  int64_t dataset_samples() const noexcept { return packed_samples.value_or(samples); }

  // Returns the field `name`, or null if the schema has none or the field is undefined. `lengths`
  // and the `position_ids` of a part are found by their names, unless the schema has such fields.
  const at::Tensor* find(std::string_view name) const noexcept;

  // Returns the bytes of all fields.
  size_t num_bytes() const;
};

}  // namespace tenon
