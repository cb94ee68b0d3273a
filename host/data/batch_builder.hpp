// SPDX-License-Identifier: Apache-2.0
//
// Receives one batch from a dataset's read and validates it against the schema: the host's side of
// tenon_batch_writer. Allocates fields; neither moves them to a device nor converts them.
// Invariant: a batch that finish() returns has every field, with the dtype and axes of the schema.
// Axes of equal names have equal sizes. The number of samples matches its count. Lengths are within
// the axis "T", and add up to the number of tokens.
// Threads: owned by the thread that makes the read.

#pragma once

#include <tenon/dataset.h>

#include "host/data/data_source.hpp"
#include "host/tensor/batch.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class BatchBuilder {
 public:
  // For one read of `samples` samples: exactly `samples` in map style, at most `samples` in stream
  // style.
  BatchBuilder(const DataSource& source, int64_t samples);
  BatchBuilder(const BatchBuilder&) = delete;
  BatchBuilder& operator=(const BatchBuilder&) = delete;

  // Returns the writer for the read. An invalid call gets a TENON_INVALID status with id
  // data.bad_batch. If the dataset ignores it, finish() reports it again.
  tenon_batch_writer& writer() { return writer_; }

  // Returns the batch. Call it after the read has returned. In stream style the batch may have no
  // samples; all its fields are then undefined.
  //
  // Errors   data.bad_batch, naming dataset and field, with what was expected and found
  Batch finish();

  // Stream style: the position that the read set, if any.
  const std::optional<std::string>& position() const { return position_; }

 private:
  struct AxisSize {
    std::string_view name;
    int64_t size;
    size_t field;  // first field with this axis
  };

  static BatchBuilder* of(tenon_batch_writer* writer);
  template <class Body>
  static tenon_status* checked(tenon_batch_writer* writer, Body&& body) noexcept;
  [[noreturn]] void fail(const std::string& problem);
  const FieldInfo& begin_field(uint32_t field);
  void check_shape(uint32_t field, at::IntArrayRef shape);
  void check_counts();
  void* add(uint32_t field, uint32_t ndim, const int64_t* shape);
  void add_tensor(uint32_t field, const at::Tensor& tensor);
  void set_counts(int64_t samples, int64_t tokens);
  void set_position(const void* data, size_t size);
  void set_lengths(const int64_t* lengths, size_t n);
  std::optional<int64_t> size_of_axis(std::string_view name) const;
  void check_lengths();
  void finish_lengths();
  void add_lengths();

  const DataSource& source_;
  const std::vector<FieldInfo>& schema_;
  int64_t asked_;
  tenon_batch_writer writer_;
  Batch batch_;
  bool has_counts_ = false;
  std::optional<std::string> position_;
  std::optional<std::vector<int64_t>> lengths_;  // as the dataset set them
  std::vector<AxisSize> axis_sizes_;
  std::string first_problem_;  // empty if there is none
};

// Returns a batch without samples, for a rank that has none.
Batch empty_batch(const BatchSchema& schema);

}  // namespace tenon
