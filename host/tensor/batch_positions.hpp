// SPDX-License-Identifier: Apache-2.0
//
// Parts of batches along the axis "T": chunks of a loss, and the parts of ranks that divide the
// positions of sequences.
// Threads: any.
#pragma once

#include "host/tensor/batch.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace tenon {

// Returns which of the axes is "T"; nothing if none is.
std::optional<int64_t> position_axis(const std::vector<Axis>& axes);

// Returns the size of the axis "T"; nothing if no field that the batch has is declared with it.
std::optional<int64_t> num_positions(const Batch& batch);

// Returns the positions of one of `count` ranks that divide `whole` positions as evenly as
// possible, the longer parts first. Parts may be empty.
PositionRange positions_of_rank(int64_t whole, uint32_t index, uint32_t count);

// Returns what the part of one of `count` ranks says of its positions, on the CPU. `samples` is the
// number of rows, and `sequences` are those of the whole batch.
BatchPositions positions_of_part(int64_t whole,
                                 uint32_t index,
                                 uint32_t count,
                                 int64_t samples,
                                 std::vector<BatchSequence> sequences);

// Returns a part of a batch. Fields with an axis "T" are views; lengths and sequences are those
// inside of the part, and the numbers of samples and tokens those of the whole batch.
Batch narrow_positions(const Batch& batch, PositionRange range);

// Returns the numbers of the positions in a range, for each sample.
// Shapes  the result [samples, range.length] i64, on the CPU
at::Tensor position_ids(PositionRange range, int64_t samples);

// Returns the part of a batch in CPU memory that one of `count` ranks computes, with its
// `position_ids`. Its fields are contiguous. Fields without an axis "T" are whole, and so are the
// lengths. A batch without samples stays as it is.
// Errors  data.no_positions if no field has an axis "T"
Batch part_of_rank(const Batch& batch, uint32_t index, uint32_t count);

}  // namespace tenon
