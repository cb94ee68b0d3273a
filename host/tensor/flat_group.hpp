// SPDX-License-Identifier: Apache-2.0
//
// A flat group: the parameters of one block that have one dtype, contiguous in one buffer, with
// their gradients in another. Groups are gathered, reduced, clipped and updated as a unit. A group
// knows no model, no optimizer and no other rank.
//
// Each buffer exists twice, whole (unsharded) and as this rank's slice:
//
//   seen        whole parameters, as blocks see them       data  the slice, as stored
//   whole_grad  whole gradient, which backward adds to     grad  the slice, as optimizers see it
//
// On one rank the slice is the whole, and the two share their memory unless blocks see a narrower
// dtype than is stored. In a sharded group, the slice is one of n equal parts. A whole buffer that
// is not kept has memory only between `acquire_whole` and `release_whole`; the caller fills it.
//
// A group that other ranks store (FlatSharing::is_elsewhere) has the layout of theirs, and no
// element: its slice and all parts are empty, it has no whole, and no gradient is added to it.
//
// Invariants: each parameter and each slice starts on a 64-byte boundary and at a multiple of the
// blocks of the group's parameters; each slice also starts at a multiple of the group's chunk; the
// gaps between parameters are always zero, in data and in gradients; entries of one partition (one
// optimizer) are adjacent; views of a whole buffer stay valid when its memory is freed and
// allocated again. Threads: owned and driven by the train thread.
#pragma once

#include "host/tensor/tensor_piece.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// A parameter of a flat group. Either all parameters of a group are trainable, or none.
struct FlatParameter {
  uint32_t id = 0;         // index of the parameter in the model
  uint32_t partition = 0;  // parameters of one partition share an optimizer
  bool trainable = true;
  std::vector<int64_t> shape;
  std::string name = {};  // for the state tree
  int64_t block = 1;      // elements that a cut must not separate
  // The part of the parameter that the group has; absent: all of it.
  std::optional<Box> box = {};
  // The part of what the group has that blocks see; absent: all of it.
  std::optional<Box> seen_box = {};

  // The shape of what the group has, which optimizers see.
  const std::vector<int64_t>& shape_in_group() const { return box ? box->size : shape; }
  // The shape of what blocks see, and of their gradients.
  const std::vector<int64_t>& shape_in_block() const {
    return seen_box ? seen_box->size : shape_in_group();
  }
};

// True if blocks get a copy of this box of a tensor, because its elements are not consecutive.
inline bool needs_copy(const std::vector<int64_t>& shape, const Box& box) {
  return TensorPiece(shape, box).num_runs() > 1;
}

// How a group is sharded, and which buffers this rank keeps.
struct FlatSharing {
  int64_t num_slices = 1;
  int64_t slice = 0;            // index of this rank's slice
  bool keeps_gradients = true;  // keep the whole gradient between backward passes
  bool keeps_parameters = true;
  // On a single rank: the gradient has memory only between its first `add_grad` and
  // `release_grads`, which the caller calls once it has used the gradient.
  bool frees_gradients = false;
  // Device of data and grad; absent: the device on which blocks run. On any other device, no whole
  // buffer is kept.
  std::optional<at::Device> home = {};
  // True on one of the ranks that keep the same slice: the rank that counts it in sums over ranks.
  bool is_counted = true;
  // Tensor ranks, with adjacent numbers, that have the same parameters in the group, or the same
  // boxes of them.
  uint32_t num_copies = 1;
  bool is_copy = false;       // another pipeline rank counts and saves the group
  bool is_elsewhere = false;  // other ranks store the group, and this one stores nothing of it
};

struct FlatEntry {
  FlatParameter parameter;
  int64_t offset = 0;     // in elements, from the start of the whole
  int64_t numel = 0;      // of the parameter's part in the group
  bool has_grad = false;  // has received a gradient in this step, on a rank that stores it
  // Content of the whole gradient in the place of this entry.
  enum class Held : uint8_t { kZero, kOld, kCurrent } held = Held::kZero;
};

// The part of a parameter in this rank's slice; length 0 if there is none.
struct FlatPart {
  TensorPiece piece;  // of the parameter
  int64_t in_slice = 0;
  int64_t length() const { return piece.numel(); }
};

// A range of entries of one partition, and its part [begin, end) of this rank's slice, gaps
// included.
struct FlatRange {
  uint32_t partition = 0;
  size_t first_entry = 0;
  size_t last_entry = 0;  // inclusive
  int64_t begin = 0;
  int64_t end = 0;
};

// Returns the elements of a chunk of the whole buffer of a group: the unit in which squares of
// gradients are summed. A power of 2 from 16 to 1024, at most a 64th of the parameters, and the
// same for any number of slices.
int64_t flat_chunk(const std::vector<int64_t>& numels,
                   at::ScalarType stored,
                   at::ScalarType seen,
                   int64_t block = 1);

// Returns the end of each parameter in the whole buffer of a group, gaps included. The last end is
// the size of the buffer. All ends are multiples of `block` elements. With several slices, each
// starts at a multiple of the group's chunk.
std::vector<int64_t> flat_ends(const std::vector<int64_t>& numels,
                               at::ScalarType stored,
                               at::ScalarType seen,
                               int64_t num_slices,
                               int64_t block = 1);

class FlatGroup {
 public:
  // Lays out the parameters and allocates zeroed buffers. The order is (partition, given order).
  // Blocks run on `device`, and see `seen_dtype`; absent: the stored dtype.
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
  int64_t slice_numel() const { return sharing_.is_elsewhere ? 0 : numel_ / sharing_.num_slices; }
  int64_t chunk() const { return chunk_; }  // flat_chunk()

  // ---- this rank's slice ----

  at::Tensor& data() { return data_; }
  const at::Tensor& data() const { return data_; }
  // Without elements if the group is frozen or elsewhere.
  at::Tensor& grad() { return grad_; }
  const at::Tensor& grad() const { return grad_; }

  const FlatPart& part(size_t entry) const { return parts_[entry]; }
  // Views of one entry: in its shape if all of it is in the slice, else its part, flat.
  at::Tensor data_view(size_t entry) const;
  at::Tensor grad_view(size_t entry) const;  // trainable groups only

  // Returns the maximal ranges of entries of one partition; none in a group that is frozen or
  // elsewhere.
  std::vector<FlatRange> ranges() const;
  // Returns the part of entries [first, last] in the slice, with the gap after the last one.
  FlatRange range(size_t first_entry, size_t last_entry) const;

  // ---- the whole parameters ----

  // The whole parameters, as blocks see them. A group that is elsewhere has none: its views are
  // undefined.
  // Shapes  [numel()]; [0] elsewhere
  at::Tensor& seen() { return seen_; }
  // Returns this rank's slice of `seen`.
  at::Tensor unsharded_slice() const;
  // Returns one entry of `seen`, in its shape.
  at::Tensor unsharded_view(size_t entry) const;
  // Returns what blocks see of an entry: a part of `seen`, or a copy of it if the elements are not
  // consecutive. publish() and fill_copies() update the copies.
  at::Tensor block_view(size_t entry) const;
  // True if blocks see memory other than `data`.
  bool has_copy() const { return has_copy_; }
  // Returns the slice as blocks see it, on their device. If the whole is kept, the result is
  // unsharded_slice(), as `publish` left it.
  at::Tensor slice_to_gather() const;
  // Updates unsharded_slice() from `data`, if the whole is kept, and what blocks see if the slice
  // is the whole.
  void publish();
  // Updates the copies of block_view() from `seen`. Call it when a gather has changed `seen`.
  void fill_copies();

  bool has_whole() const { return has_whole_; }
  // Allocates the whole, without values, if it has no memory.
  void acquire_whole();
  // Frees the whole, unless it is kept.
  void release_whole();

  // ---- the whole gradients ----

  // Shapes  [numel()]; [0] in a group that is frozen or elsewhere
  at::Tensor& whole_grad() { return whole_grad_; }
  // Moves the whole gradient, which must be kept, to `memory`, so that neighbors can be reduced
  // together. Call it before the first gradient.
  // Shapes  memory [numel()], zero
  void move_whole_grad(const at::Tensor& memory);
  // Adds a gradient to an entry, or to the part of it that blocks see. The first one since the last
  // `release_grads` or `clear_grads` replaces the previous content of the whole entry.
  // Shapes  grad has the shape of block_view(); any float dtype
  void add_grad(size_t entry, const at::Tensor& grad);
  // Zeroes the entries that received no gradient. Call it after the last gradient; until then the
  // whole gradient must not be read.
  void resolve_grads();
  // Declares that a reduction writes to the whole gradient: no entry counts as zero any more.
  void expect_sums();
  // Frees the whole gradient, unless it is kept. The caller has reduced its values by then.
  void release_grads();
  // Adds to the slice. The first call since `clear_grads` replaces the previous content.
  // Shapes  grad [slice_numel()], on any device
  void add_to_slice(const at::Tensor& grad);
  // Zeroes the slice if nothing was added to it. Call it after the last gradient of a step.
  void resolve_slice();

  // Discards the gradients without a pass over memory: the next gradients overwrite them.
  void clear_grads();
  bool any_has_grad() const;

 private:
  void lay_out(std::vector<FlatParameter> parameters, at::ScalarType seen);
  void lay_out_views();
  void hold_nothing(at::ScalarType seen, at::Device device);
  FlatPart cut_part(const FlatEntry& entry) const;
  at::Tensor entry_view(const at::Tensor& slice, size_t entry) const;

  std::string name_;
  at::ScalarType dtype_;
  FlatSharing sharing_;
  std::vector<FlatEntry> entries_;
  std::vector<FlatPart> parts_;  // of the entries
  int64_t numel_ = 0;
  int64_t chunk_ = 0;
  bool has_copy_ = false;
  bool has_whole_ = true;
  bool has_whole_grad_ = true;
  bool has_sum_ = false;  // the slice holds gradients of this step
  at::Tensor data_;
  at::Tensor grad_;
  at::Tensor seen_;
  at::Tensor whole_grad_;
  std::vector<at::Tensor> unsharded_views_;
  std::vector<at::Tensor> block_views_;
  std::vector<size_t> copied_;  // entries whose block_view() is a copy
  std::vector<at::Tensor> whole_grad_views_;
};

}  // namespace tenon
