// SPDX-License-Identifier: Apache-2.0

#include "host/data/batch_rows.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>

namespace tenon {
namespace {

// Returns the size of an axis in the result: the largest size in any part. Axes of one name have
// equal sizes in all fields of a part, and so in the result.
int64_t size_of_axis(std::size_t field, std::size_t axis, std::span<const BatchPart> parts) {
  int64_t size = 0;
  for (const BatchPart& part : parts) {
    size = std::max(size, part.batch.fields[part.fields[field]].size(static_cast<int64_t>(axis)));
  }
  return size;
}

void copy_rows(const at::Tensor& from, const std::vector<int64_t>& rows, at::Tensor& to) {
  const bool is_as_wide = from.sizes().slice(1) == to.sizes().slice(1);
  if (is_as_wide) {
    const std::size_t row_bytes =
        static_cast<std::size_t>(to.numel() / to.size(0)) * to.element_size();
    const auto* const source = static_cast<const std::byte*>(from.const_data_ptr());
    auto* const target = static_cast<std::byte*>(to.mutable_data_ptr());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::memcpy(target + static_cast<std::size_t>(rows[i]) * row_bytes,
                  source + i * row_bytes,
                  row_bytes);
    }
    return;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const at::Tensor row = from[static_cast<int64_t>(i)];
    at::Tensor target = to[rows[i]];
    for (int64_t axis = 0; axis < row.dim(); ++axis) {
      target = target.narrow(axis, 0, row.size(axis));
    }
    target.copy_(row);
  }
}

// Writes the lengths of all rows, unless a part has none, or counts other tokens.
void write_lengths(std::span<const BatchPart> parts,
                   int64_t samples,
                   int64_t tokens,
                   tenon_batch_writer& writer) {
  std::vector<int64_t> lengths(static_cast<std::size_t>(samples));
  for (const BatchPart& part : parts) {
    if (!part.batch.lengths.defined()) {
      return;
    }
    const auto* const own = part.batch.lengths.const_data_ptr<int64_t>();
    for (std::size_t i = 0; i < part.rows.size(); ++i) {
      lengths[static_cast<std::size_t>(part.rows[i])] = own[i];
    }
  }
  if (samples > 0 && std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) == tokens) {
    throw_if_failed(writer.set_lengths(&writer, lengths.data(), lengths.size()));
  }
}

}  // namespace

void write_rows(const std::vector<FieldInfo>& schema,
                std::span<const BatchPart> parts,
                tenon_batch_writer& writer) {
  int64_t samples = 0;
  int64_t tokens = 0;
  for (const BatchPart& part : parts) {
    TENON_ASSERT(part.rows.size() == static_cast<std::size_t>(part.batch.samples),
                 "each row of a part has its place");
    samples += part.batch.samples;
    tokens += part.batch.tokens;
  }
  for (std::size_t f = 0; f < schema.size() && samples > 0; ++f) {
    std::vector<int64_t> shape = {samples};
    for (std::size_t axis = 1; axis < schema[f].axes.size(); ++axis) {
      shape.push_back(size_of_axis(f, axis, parts));
    }
    void* data = nullptr;
    throw_if_failed(writer.add(&writer,
                               static_cast<uint32_t>(f),
                               static_cast<uint32_t>(shape.size()),
                               shape.data(),
                               &data));
    const at::ScalarType dtype = parts.front().batch.fields[parts.front().fields[f]].scalar_type();
    at::Tensor whole = at::from_blob(data, shape, at::TensorOptions().dtype(dtype));
    const bool is_padded = std::ranges::any_of(parts, [&](const BatchPart& part) {
      return part.batch.fields[part.fields[f]].sizes().slice(1) != whole.sizes().slice(1);
    });
    if (is_padded) {
      whole.fill_(schema[f].pad);
    }
    for (const BatchPart& part : parts) {
      copy_rows(part.batch.fields[part.fields[f]], part.rows, whole);
    }
  }
  throw_if_failed(writer.set_counts(&writer, samples, tokens));
  write_lengths(parts, samples, tokens, writer);
}

std::optional<std::string> why_not_rows(const FieldInfo& field) {
  if (field.axes.empty() || field.axes.front().name != "B") {
    return "its first axis is not B, the samples";
  }
  const auto is_samples = [](const Axis& axis) { return axis.name == "B"; };
  if (std::any_of(field.axes.begin() + 1, field.axes.end(), is_samples)) {
    return "it has the axis B twice";
  }
  return std::nullopt;
}

}  // namespace tenon
