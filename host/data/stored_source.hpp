// SPDX-License-Identifier: Apache-2.0
//
// A source whose batches have a field in addition to those of another source: a value for each
// position of each sample, which was computed before.
// Invariant: order, lengths and positions are those of the source, which is map style, without
// windows and no mix.
// Threads: as in DataSource.

#pragma once

#include "host/data/outer_source.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// The values of all samples. One value for each position; the same dtype for all.
class SampleValues {
 public:
  virtual ~SampleValues() = default;
  // Copies the values of a sample to the start of `row`; the rest of the row stays as it is. Values
  // beyond the row belong to padding. Returns how many values the sample has.
  //
  // Shapes   row [T]
  // Errors   those of the file
  // Threads  [any]
  virtual int64_t read(int64_t sample, const at::Tensor& row) const = 0;
};

class StoredSource final : public OuterSource {
 public:
  // `source` is borrowed. The fields have the axes of the first field with the axes B and T.
  //
  // Errors   data.cannot_store if the source has no such field, has windows, or is a stream or a mix
  StoredSource(DataSource& source, std::vector<std::string> fields, at::ScalarType dtype);

  // The source without the additional fields.
  DataSource& inner() { return source_; }
  // Sets the values of an additional field. Without them, all are 0.
  void set_values(const std::string& field, std::shared_ptr<const SampleValues> values);

  // Errors   also outputs.corrupt for a sample with another number of values than its length
  void read(const Window* window,
            std::span<const int64_t> indices,
            tenon_batch_writer& writer) override;
  bool next(const Window* window,
            uint32_t shard,
            int64_t max_samples,
            tenon_batch_writer& writer) override;

 private:
  at::ScalarType dtype_;
  size_t like_ = 0;                  // field of the source with the same axes
  std::vector<std::string> fields_;  // the additional ones
  std::vector<std::shared_ptr<const SampleValues>> values_;  // by additional field
};

}  // namespace tenon
