// SPDX-License-Identifier: Apache-2.0
//
// Source: docs/decisions/0001-block-contract.md describes how memory is freed and allocated again
// under views that stay valid.
#include "host/tensor/flat_group.hpp"

#include "host/error/assert.hpp"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tenon {
namespace {

constexpr int64_t kAlignmentBytes = 64;

int64_t rounded_up(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

// Small gradients are frequent, and the overhead of copy_ exceeds the time of their copy.
void copy_into(at::Tensor& to, const at::Tensor& from) {
  constexpr size_t kSmall = 128 * 1024;  // bytes
  const bool is_plain = from.is_cpu() && to.is_cpu() && from.scalar_type() == to.scalar_type() &&
                        from.is_contiguous() && from.sizes() == to.sizes() && !from.is_neg();
  if (is_plain && from.nbytes() <= kSmall) {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
  } else {
    to.copy_(from);
  }
}

// Frees the memory of a tensor that fills its storage; views keep their offsets.
void free_memory(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, tensor.device()));
  storage->set_nbytes(size_t{0});
}

void allocate_memory(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<size_t>(tensor.numel()) * tensor.element_size();
  storage->set_data_ptr_noswap(c10::GetAllocator(tensor.device().type())->allocate(bytes));
  storage->set_nbytes(bytes);
}

int64_t alignment_of(at::ScalarType stored, at::ScalarType seen, int64_t block) {
  const auto element_bytes =
      static_cast<int64_t>(std::min(c10::elementSize(stored), c10::elementSize(seen)));
  return std::lcm(kAlignmentBytes / element_bytes, block);
}

// Returns the end of each parameter on one rank.
std::vector<int64_t> aligned_ends(const std::vector<int64_t>& numels, int64_t alignment) {
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (const int64_t numel : numels) {
    end += rounded_up(numel, alignment);
    ends.push_back(end);
  }
  // A group is never empty, so that collectives have something to send.
  ends.back() = std::max(end, alignment);
  return ends;
}

int64_t chunk_of(int64_t numel) {
  constexpr int64_t kSmallest = 16;  // 64 bytes of fp32: small groups keep small slices
  constexpr int64_t kLargest = 1024;
  constexpr int64_t kMinChunks = 64;  // bounds the padding of slices
  int64_t chunk = kSmallest;
  while (chunk < kLargest && 2 * chunk * kMinChunks <= numel) {
    chunk *= 2;
  }
  return chunk;
}

}  // namespace

int64_t flat_chunk(const std::vector<int64_t>& numels,
                   at::ScalarType stored,
                   at::ScalarType seen,
                   int64_t block) {
  return chunk_of(aligned_ends(numels, alignment_of(stored, seen, block)).back());
}

std::vector<int64_t> flat_ends(const std::vector<int64_t>& numels,
                               at::ScalarType stored,
                               at::ScalarType seen,
                               int64_t num_slices,
                               int64_t block) {
  const int64_t alignment = alignment_of(stored, seen, block);
  std::vector<int64_t> ends = aligned_ends(numels, alignment);
  if (num_slices > 1) {
    const int64_t unit = std::lcm(alignment, chunk_of(ends.back()));
    ends.back() = rounded_up(ends.back(), unit * num_slices);
  }
  return ends;
}

FlatGroup::FlatGroup(std::string name,
                     at::ScalarType dtype,
                     at::Device device,
                     std::vector<FlatParameter> parameters,
                     std::optional<at::ScalarType> seen_dtype,
                     const FlatSharing& sharing)
    : name_(std::move(name)), dtype_(dtype), sharing_(sharing) {
  const bool is_at_home = sharing_.home.value_or(device) == device;
  sharing_.keeps_parameters = sharing_.keeps_parameters && is_at_home;
  sharing_.keeps_gradients = sharing_.keeps_gradients && is_at_home && !sharing_.frees_gradients;
  std::ranges::stable_sort(parameters, {}, &FlatParameter::partition);
  lay_out(std::move(parameters), seen_dtype.value_or(dtype));

  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const auto home_options = options.device(sharing_.home.value_or(device));
  const auto slice_of = [&](const at::Tensor& whole) {
    return whole.narrow(0, sharing_.slice * slice_numel(), slice_numel());
  };
  if (sharing_.is_elsewhere) {
    hold_nothing(seen_dtype.value_or(dtype), device);
    return;
  }
  has_copy_ = seen_dtype.value_or(dtype) != dtype || !sharing_.keeps_parameters;
  seen_ = sharing_.keeps_parameters
              ? at::zeros({numel_}, options.dtype(seen_dtype.value_or(dtype)))
              : at::empty({numel_}, options.dtype(seen_dtype.value_or(dtype)));
  data_ = has_copy_ ? at::zeros({slice_numel()}, home_options) : slice_of(seen_);
  lay_out_views();
  release_whole();
  if (!is_trainable()) {
    grad_ = at::zeros({0}, home_options);
    whole_grad_ = at::zeros({0}, options);
    return;
  }
  if (sharing_.keeps_gradients) {
    move_whole_grad(at::zeros({numel_}, options));
    return;
  }
  whole_grad_ = at::empty({numel_}, options);
  if (sharing_.frees_gradients) {
    TENON_ASSERT(sharing_.num_slices == 1 && is_at_home, "only whole gradients are freed");
    grad_ = whole_grad_.narrow(0, 0, numel_);
  } else {
    grad_ = at::zeros({slice_numel()}, home_options);
  }
  for (const auto& e : entries_) {
    whole_grad_views_.push_back(
        whole_grad_.narrow(0, e.offset, e.numel).view(e.parameter.shape_in_group()));
  }
  release_grads();
}

void FlatGroup::hold_nothing(at::ScalarType seen, at::Device device) {
  const auto options = at::TensorOptions().dtype(dtype_).device(device);
  data_ = at::empty({0}, options.device(sharing_.home.value_or(device)));
  grad_ = at::empty({0}, data_.options());
  seen_ = at::empty({0}, options.dtype(seen));
  whole_grad_ = at::empty({0}, options);
  unsharded_views_.resize(entries_.size());
  block_views_.resize(entries_.size());
  has_whole_ = false;
}

void FlatGroup::lay_out(std::vector<FlatParameter> parameters, at::ScalarType seen) {
  std::vector<int64_t> numels;
  int64_t block = 1;
  for (const FlatParameter& parameter : parameters) {
    numels.push_back(c10::multiply_integers(parameter.shape_in_group()));
    block = std::lcm(block, parameter.block);
  }
  const std::vector<int64_t> ends = flat_ends(numels, dtype_, seen, sharing_.num_slices, block);
  chunk_ = flat_chunk(numels, dtype_, seen, block);
  numel_ = ends.back();
  for (size_t i = 0; i < parameters.size(); ++i) {
    TENON_ASSERT(parameters[i].trainable == parameters.front().trainable,
                 "a group is trainable or frozen as a whole");
    entries_.push_back({.parameter = std::move(parameters[i]),
                        .offset = i == 0 ? 0 : ends[i - 1],
                        .numel = numels[i]});
    parts_.push_back(cut_part(entries_.back()));
  }
}

void FlatGroup::lay_out_views() {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const FlatEntry& e = entries_[i];
    const at::Tensor flat = seen_.narrow(0, e.offset, e.numel);
    unsharded_views_.push_back(flat.view(e.parameter.shape_in_group()));
    if (!e.parameter.seen_box) {
      block_views_.push_back(unsharded_views_.back());
      continue;
    }
    const TensorPiece seen(e.parameter.shape_in_group(), *e.parameter.seen_box);
    if (needs_copy(seen.shape(), *e.parameter.seen_box)) {
      copied_.push_back(i);
      block_views_.push_back(at::zeros(seen.box_shape(), seen_.options()));
    } else {
      block_views_.push_back(
          flat.narrow(0, seen.first_in_tensor(), seen.numel()).view(seen.box_shape()));
    }
  }
}

void FlatGroup::move_whole_grad(const at::Tensor& memory) {
  TENON_ASSERT(sharing_.keeps_gradients && memory.numel() == numel_,
               "a whole gradient that is kept");
  whole_grad_ = memory;
  grad_ = memory.narrow(0, sharing_.slice * slice_numel(), slice_numel());
  whole_grad_views_.clear();
  for (const auto& e : entries_) {
    whole_grad_views_.push_back(
        whole_grad_.narrow(0, e.offset, e.numel).view(e.parameter.shape_in_group()));
  }
}

// ---- the slice ----

FlatPart FlatGroup::cut_part(const FlatEntry& e) const {
  const TensorPiece whole = e.parameter.box ? TensorPiece(e.parameter.shape, *e.parameter.box)
                                            : TensorPiece(e.parameter.shape);
  const int64_t slice_begin = sharing_.slice * slice_numel();
  const int64_t begin = std::max(e.offset, slice_begin);
  const int64_t end = std::min(e.offset + e.numel, slice_begin + slice_numel());
  if (begin >= end) {
    return {whole.part(0, 0)};
  }
  return {whole.part(begin - e.offset, end - begin), begin - slice_begin};
}

at::Tensor FlatGroup::entry_view(const at::Tensor& slice, size_t entry) const {
  const FlatPart& here = part(entry);
  const at::Tensor flat = slice.narrow(0, here.in_slice, here.length());
  return here.piece.is_box() ? flat.view(here.piece.box_shape()) : flat;
}

at::Tensor FlatGroup::data_view(size_t entry) const {
  return entry_view(data_, entry);
}

at::Tensor FlatGroup::grad_view(size_t entry) const {
  TENON_ASSERT(is_trainable(), "a frozen parameter has no gradient");
  return entry_view(grad_, entry);
}

FlatRange FlatGroup::range(size_t first_entry, size_t last_entry) const {
  const int64_t slice_begin = sharing_.slice * slice_numel();
  const int64_t whole_end =
      last_entry + 1 < entries_.size() ? entries_[last_entry + 1].offset : numel_;
  const auto in_slice = [&](int64_t at) {
    return std::clamp(at - slice_begin, int64_t{0}, slice_numel());
  };
  return {entries_[first_entry].parameter.partition,
          first_entry,
          last_entry,
          in_slice(entries_[first_entry].offset),
          in_slice(whole_end)};
}

std::vector<FlatRange> FlatGroup::ranges() const {
  std::vector<FlatRange> result;
  size_t first = 0;
  const bool has_ranges = is_trainable() && !sharing_.is_elsewhere;
  for (size_t i = 0; has_ranges && i < entries_.size(); ++i) {
    const uint32_t partition = entries_[i].parameter.partition;
    if (i + 1 == entries_.size() || entries_[i + 1].parameter.partition != partition) {
      result.push_back(range(first, i));
      first = i + 1;
    }
  }
  return result;
}

// ---- whole parameters ----

at::Tensor FlatGroup::unsharded_slice() const {
  return seen_.narrow(0, sharing_.slice * slice_numel(), slice_numel());
}

at::Tensor FlatGroup::unsharded_view(size_t entry) const {
  return unsharded_views_[entry];
}

at::Tensor FlatGroup::block_view(size_t entry) const {
  return block_views_[entry];
}

at::Tensor FlatGroup::slice_to_gather() const {
  return sharing_.keeps_parameters ? unsharded_slice()
                                   : data_.to(seen_.device(), seen_.scalar_type());
}

void FlatGroup::publish() {
  if (has_copy_ && sharing_.keeps_parameters) {
    unsharded_slice().copy_(data_);
  }
  if (sharing_.keeps_parameters && sharing_.num_slices == 1) {
    fill_copies();
  }
}

void FlatGroup::fill_copies() {
  for (const size_t i : copied_) {
    const Box& box = *entries_[i].parameter.seen_box;
    const auto axis = static_cast<int64_t>(box.axis);
    for_each_range(box, [&](const Box& one, int64_t at) {
      block_views_[i].narrow(axis, at, one.size[box.axis]).copy_(part_of(unsharded_views_[i], one));
    });
  }
}

void FlatGroup::acquire_whole() {
  TENON_ASSERT(!sharing_.is_elsewhere, "this rank stores the group");
  if (!has_whole_) {
    allocate_memory(seen_);
    for (const size_t i : copied_) {
      allocate_memory(block_views_[i]);
    }
    has_whole_ = true;
  }
}

void FlatGroup::release_whole() {
  if (has_whole_ && !sharing_.keeps_parameters) {
    free_memory(seen_);
    for (const size_t i : copied_) {
      free_memory(block_views_[i]);
    }
    has_whole_ = false;
  }
}

// ---- whole gradients ----

void FlatGroup::add_grad(size_t entry, const at::Tensor& grad) {
  TENON_ASSERT(!sharing_.is_elsewhere, "this rank stores the group");
  auto& e = entries_[entry];
  if (!has_whole_grad_) {
    allocate_memory(whole_grad_);
    has_whole_grad_ = true;
  }
  at::Tensor& whole = whole_grad_views_[entry];
  const std::optional<Box>& box = e.parameter.seen_box;
  if (e.held == FlatEntry::Held::kCurrent) {
    box ? add_part(whole, *box, grad) : void(whole.add_(grad));
    return;
  }
  if (!box) {
    copy_into(whole, grad);
  } else {
    if (e.held == FlatEntry::Held::kOld) {
      whole.zero_();
    }
    put_part(whole, *box, grad);
  }
  e.has_grad = true;
  e.held = FlatEntry::Held::kCurrent;
}

void FlatGroup::resolve_grads() {
  if (!is_trainable() || sharing_.is_elsewhere) {
    return;
  }
  if (!has_whole_grad_) {
    allocate_memory(whole_grad_);
    has_whole_grad_ = true;
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    auto& e = entries_[i];
    if (e.held == FlatEntry::Held::kOld) {
      whole_grad_views_[i].zero_();
      e.held = FlatEntry::Held::kZero;
    }
    if (!sharing_.keeps_gradients) {  // new memory: gaps are uninitialized
      const int64_t gap = e.offset + e.numel;
      const int64_t next = i + 1 < entries_.size() ? entries_[i + 1].offset : numel_;
      whole_grad_.narrow(0, gap, next - gap).zero_();
    }
  }
}

void FlatGroup::expect_sums() {
  for (auto& entry : entries_) {
    entry.held = FlatEntry::Held::kOld;
  }
}

void FlatGroup::release_grads() {
  if (sharing_.keeps_gradients || sharing_.is_elsewhere || !has_whole_grad_) {
    return;
  }
  free_memory(whole_grad_);
  has_whole_grad_ = false;
  expect_sums();  // new memory is uninitialized
}

void FlatGroup::add_to_slice(const at::Tensor& grad) {
  if (has_sum_) {
    grad_.add_(grad.to(grad_.device()));
  } else {
    grad_.copy_(grad);
    has_sum_ = true;
  }
}

void FlatGroup::resolve_slice() {
  if (is_trainable() && !sharing_.keeps_gradients && !has_sum_) {
    grad_.zero_();
    has_sum_ = true;
  }
}

void FlatGroup::clear_grads() {
  has_sum_ = false;
  for (auto& entry : entries_) {
    entry.has_grad = false;
    if (entry.held == FlatEntry::Held::kCurrent) {
      entry.held = FlatEntry::Held::kOld;
    }
  }
}

bool FlatGroup::any_has_grad() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& e) { return e.has_grad; });
}

}  // namespace tenon
