// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/batch_positions.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

namespace tenon {
std::optional<int64_t> position_axis(const std::vector<Axis>& axes) {
  const auto found = std::ranges::find(axes, "T", &Axis::name);
  return found != axes.end() ? std::optional<int64_t>(found - axes.begin()) : std::nullopt;
}

std::optional<int64_t> num_positions(const Batch& batch) {
  for (size_t i = 0; i < batch.fields.size(); ++i) {
    const auto axis = position_axis((*batch.schema)[i].axes);
    if (axis.has_value() && batch.fields[i].defined()) {
      return batch.fields[i].size(*axis);
    }
  }
  return std::nullopt;
}

PositionRange positions_of_rank(int64_t whole, uint32_t index, uint32_t count) {
  const int64_t least = whole / count;
  const int64_t num_longer = whole % count;
  return {.begin = index * least + std::min<int64_t>(index, num_longer),
          .length = least + (index < num_longer ? 1 : 0)};
}

Batch narrow_positions(const Batch& batch, PositionRange range) {
  Batch part = batch;
  part.sequences.clear();
  for (BatchSequence sequence : batch.sequences) {
    const int64_t end = std::min(sequence.first + sequence.length, range.begin + range.length);
    sequence.first = std::max(sequence.first, range.begin);
    sequence.length = end - sequence.first;
    if (sequence.length > 0) {
      sequence.first -= range.begin;
      part.sequences.push_back(sequence);
    }
  }
  if (batch.lengths.defined()) {
    part.lengths = (batch.lengths - range.begin).clamp(0, range.length);
  }
  for (size_t i = 0; i < part.fields.size(); ++i) {
    const auto axis = position_axis((*batch.schema)[i].axes);
    if (axis.has_value() && part.fields[i].defined()) {
      part.fields[i] = part.fields[i].narrow(*axis, range.begin, range.length);
    }
  }
  return part;
}

at::Tensor position_ids(PositionRange range, int64_t samples) {
  return at::arange(range.begin, range.begin + range.length, at::kLong)
      .expand({samples, range.length})
      .contiguous();
}

BatchPositions positions_of_part(int64_t whole,
                                 uint32_t index,
                                 uint32_t count,
                                 int64_t samples,
                                 std::vector<BatchSequence> sequences) {
  const PositionRange range = positions_of_rank(whole, index, count);
  return {.range = range,
          .whole = whole,
          .sequences = std::move(sequences),
          .position_ids = position_ids(range, samples)};
}

Batch part_of_rank(const Batch& batch, uint32_t index, uint32_t count) {
  if (batch.samples == 0) {
    return batch;
  }
  const std::optional<int64_t> whole = num_positions(batch);
  if (!whole.has_value()) {
    throw Error(
        "data.no_positions",
        "/parallel/context: no field of the batch has an axis \"T\", so it cannot be divided "
        "by positions; set it to 1");
  }
  BatchPositions positions =
      positions_of_part(*whole, index, count, batch.samples, batch.sequences);
  Batch part = narrow_positions(batch, positions.range);
  part.lengths = batch.lengths;
  for (at::Tensor& field : part.fields) {
    if (field.defined()) {
      field = field.contiguous();
    }
  }
  part.positions = std::move(positions);
  return part;
}

}  // namespace tenon
