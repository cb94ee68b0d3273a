// SPDX-License-Identifier: Apache-2.0
//
// A flat group: the parameters of one block that have one dtype, side by side in one buffer, with
// their gradients in another. It is the unit that is gathered, reduced, clipped and updated; it
// knows no model and no optimizer. Invariants: each parameter starts on a 64-byte boundary; the
// gaps between parameters are zero in both buffers, always; entries of one partition (one
// optimizer) lie next to each other. Where blocks see a narrower dtype than is stored, a group has
// a third buffer with a copy in that dtype, which `publish` brings up to date. Threads: owned and
// driven by the train thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// What a flat group is told of one parameter.
struct FlatParameter {
  uint32_t id = 0;         // the model's number of the parameter
  uint32_t partition = 0;  // parameters of one partition are updated together
  bool trainable = true;
  std::vector<int64_t> shape;
};

struct FlatEntry {
  FlatParameter parameter;
  int64_t offset = 0;  // in elements, from the start of the buffer
  int64_t numel = 0;
  bool touched = false;   // has received a gradient in this step
  bool is_stale = false;  // the buffer still holds the gradient of an earlier step
};

// A run of entries of one partition, [begin, end) of the buffer, gaps included.
struct FlatRange {
  uint32_t partition = 0;
  size_t first_entry = 0;
  size_t last_entry = 0;  // inclusive
  int64_t begin = 0;
  int64_t end = 0;
};

class FlatGroup {
 public:
  // Lays the parameters out and allocates zeroed buffers. The order is (partition, given order);
  // frozen parameters come last. The gradient buffer covers trainable parameters only.
  // `seen_dtype` is what blocks see; the stored one where it is absent.
  FlatGroup(std::string name,
            at::ScalarType dtype,
            at::Device device,
            std::vector<FlatParameter> parameters,
            std::optional<at::ScalarType> seen_dtype = std::nullopt);

  const std::string& name() const { return name_; }
  at::ScalarType dtype() const { return dtype_; }
  std::vector<FlatEntry>& entries() { return entries_; }
  const std::vector<FlatEntry>& entries() const { return entries_; }

  at::Tensor& data() { return data_; }
  const at::Tensor& data() const { return data_; }
  at::Tensor& grad() { return grad_; }
  const at::Tensor& grad() const { return grad_; }

  // Views of one entry, in its shape: as it is stored, as blocks see it, its gradient.
  at::Tensor data_view(size_t entry) const;
  at::Tensor seen_view(size_t entry) const;
  at::Tensor grad_view(size_t entry) const;  // trainable entries only

  // Adds a gradient to an entry; the first one of a step replaces what the buffer holds.
  // Shapes  grad has the entry's shape; any float dtype
  void add_grad(size_t entry, const at::Tensor& grad);
  // After the last gradient of a step: zeroes the entries that received none. Until then the buffer
  // as a whole is not to be read.
  void settle_grads();
  // True where blocks see a copy.
  bool has_copy() const { return copy_.defined(); }
  // Rounds what is stored into the copy that blocks see; nothing where there is none.
  void publish();
  // Forgets the gradients. A pass over memory is saved: the next ones overwrite them.
  void clear_grads();
  bool any_touched() const;

  // Maximal ranges of trainable entries of one partition.
  std::vector<FlatRange> ranges() const;

 private:
  std::string name_;
  at::ScalarType dtype_;
  std::vector<FlatEntry> entries_;
  std::vector<at::Tensor> grad_views_;
  at::Tensor data_;
  at::Tensor grad_;
  at::Tensor copy_;  // undefined where blocks see data_ itself
};

}  // namespace tenon
