// SPDX-License-Identifier: Apache-2.0
//
// A flat group: the parameters of one block that have one dtype, side by side in one buffer, with
// their gradients in another. It is the unit that is gathered, reduced, clipped and updated; it
// knows no model, no optimizer and no other rank.
//
// Each buffer is there twice, as a whole and as this rank's slice:
//
//   seen    the whole, as blocks are given it         data  the slice, as it is stored
//   whole gradient, which backward adds to            grad  the slice, as optimizers are given it
//
// On one rank the slice is the whole, and the two share their memory unless blocks see a narrower
// dtype than is stored. Shared out, the slice is one of n equal pieces; a whole that is not kept
// has memory only between `acquire` and `release`. Who fills it in is the caller.
//
// Invariants: each parameter and each slice starts on a 64-byte boundary; the gaps between
// parameters are zero in data and in gradients, always; entries of one partition (one optimizer)
// lie next to each other; views of a whole stay valid when its memory comes and goes. Threads:
// owned and driven by the train thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// What a flat group receives about one parameter. All of a group are trainable, or none.
struct FlatParameter {
  uint32_t id = 0;         // the model's number of the parameter
  uint32_t partition = 0;  // parameters of one partition are updated together
  bool trainable = true;
  std::vector<int64_t> shape;
  std::string name = {};  // for the state tree
};

// How a group is sharded, and what of it this rank keeps.
struct FlatSharing {
  int64_t num_slices = 1;
  int64_t slice = 0;            // this rank's
  bool keeps_gradients = true;  // the whole gradient, from backward to backward
  bool keeps_parameters = true;
  // Where data and grad are kept; where blocks run, unless it is given. Elsewhere, no whole is
  // kept.
  std::optional<at::Device> home = {};
  // Of the ranks that keep the same slice, one counts it in what is added up over ranks.
  bool is_counted = true;
};

struct FlatEntry {
  FlatParameter parameter;
  int64_t offset = 0;  // in elements, from the start of the whole
  int64_t numel = 0;
  bool has_grad = false;  // has received a gradient in this step
  // What the whole gradient has in this place.
  enum class Held : uint8_t { kZero, kOld, kCurrent } held = Held::kZero;
};

// The part of a parameter that lies in this rank's slice; of length 0 if none does.
struct FlatPart {
  int64_t in_parameter = 0;  // of its first element
  int64_t in_slice = 0;
  int64_t length = 0;
};

// A run of entries of one partition, and what of it lies in this rank's slice: [begin, end) of the
// slice, gaps included.
struct FlatRange {
  uint32_t partition = 0;
  size_t first_entry = 0;
  size_t last_entry = 0;  // inclusive
  int64_t begin = 0;
  int64_t end = 0;
};

// Where the place of each of several parameters ends in a group's whole, gaps included; the last
// end is the size of the whole.
std::vector<int64_t> flat_ends(const std::vector<int64_t>& numels,
                               at::ScalarType stored,
                               at::ScalarType seen,
                               int64_t num_slices);

class FlatGroup {
 public:
  // Lays the parameters out and allocates zeroed buffers. The order is (partition, given order).
  // Blocks run on `device`, and see `seen_dtype`: the stored one where it is absent.
  FlatGroup(std::string name,
            at::ScalarType dtype,
            at::Device device,
            std::vector<FlatParameter> parameters,
            std::optional<at::ScalarType> seen_dtype = std::nullopt,
            const FlatSharing& sharing = {});

  const std::string& name() const { return name_; }
  at::ScalarType dtype() const { return dtype_; }
  bool is_trainable() const { return entries_.front().parameter.trainable; }
  const FlatSharing& sharing() const { return sharing_; }
  std::vector<FlatEntry>& entries() { return entries_; }
  const std::vector<FlatEntry>& entries() const { return entries_; }
  int64_t numel() const { return numel_; }  // of the whole
  int64_t slice_numel() const { return numel_ / sharing_.num_slices; }

  // ---- this rank's slice ----

  at::Tensor& data() { return data_; }
  const at::Tensor& data() const { return data_; }
  // Without elements where the group is frozen.
  at::Tensor& grad() { return grad_; }
  const at::Tensor& grad() const { return grad_; }

  FlatPart part(size_t entry) const;
  // Views of one entry: in its shape where all of it is here, else its part, flat.
  at::Tensor data_view(size_t entry) const;
  at::Tensor grad_view(size_t entry) const;  // trainable groups only

  // Maximal ranges of entries of one partition; none in a frozen group.
  std::vector<FlatRange> ranges() const;
  // What of entries [first, last] lies in the slice, the gap after the last one included.
  FlatRange range(size_t first_entry, size_t last_entry) const;

  // ---- the whole parameters ----

  // As blocks see them.
  // Shapes  [numel()]
  at::Tensor& seen() { return seen_; }
  // This rank's place in it.
  at::Tensor unsharded_slice() const;
  // One entry, in its shape.
  at::Tensor unsharded_view(size_t entry) const;
  // True if blocks see another memory than `data`.
  bool has_copy() const { return has_copy_; }
  // The slice as blocks see it, on their device. Where the whole is kept it is unsharded_slice(),
  // as `publish` left it.
  at::Tensor slice_to_gather() const;
  // Where the whole is kept: brings this rank's place in it up to date with `data`.
  void publish();

  bool has_whole() const { return has_whole_; }
  // Gives the whole memory, without values, where it has none.
  void acquire_whole();
  // Frees it, unless it is kept.
  void release_whole();

  // ---- the whole gradients ----

  // Shapes  [numel()]; none in a frozen group
  at::Tensor& whole_grad() { return whole_grad_; }
  // Lets the whole gradient, which must be kept, lie in `memory`, so that neighbors can be reduced
  // at once. Before the first gradient.
  // Shapes  memory [numel()], zero
  void move_whole_grad(const at::Tensor& memory);
  // Adds a gradient to an entry; the first one since the last `release_grads` or `clear_grads`
  // replaces what is there.
  // Shapes  grad has the entry's shape; any float dtype
  void add_grad(size_t entry, const at::Tensor& grad);
  // After the last gradient: zeroes the entries that received none. Until then the whole gradient
  // is not to be read.
  void resolve_grads();
  // Others write to the whole gradient: zeroes may not be taken for granted any more.
  void expect_sums();
  // Where the whole gradient is not kept: frees it. Its values are to be in the slice by then.
  void release_grads();
  // Adds to the slice; the first time since `clear_grads` replaces what is there.
  // Shapes  grad [slice_numel()], on any device
  void add_to_slice(const at::Tensor& grad);
  // After the last gradient of a step: the slice is what it is, zero where it was given nothing.
  void resolve_slice();

  // Forgets the gradients. A pass over memory is saved: the next ones overwrite them.
  void clear_grads();
  bool any_has_grad() const;

 private:
  at::Tensor entry_view(const at::Tensor& slice, size_t entry) const;

  std::string name_;
  at::ScalarType dtype_;
  FlatSharing sharing_;
  std::vector<FlatEntry> entries_;
  int64_t numel_ = 0;
  bool has_copy_ = false;
  bool has_whole_ = true;
  bool has_whole_grad_ = true;
  bool has_sum_ = false;  // the slice holds gradients of this step
  at::Tensor data_;
  at::Tensor grad_;
  at::Tensor seen_;
  at::Tensor whole_grad_;
  std::vector<at::Tensor> unsharded_views_;
  std::vector<at::Tensor> whole_grad_views_;
};

}  // namespace tenon
