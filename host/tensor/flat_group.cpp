// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/flat_group.hpp"

#include "host/error/assert.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tenon {
namespace {

constexpr int64_t kAlignmentBytes = 64;

int64_t numel_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Small gradients are many: what copy_ does before it copies would take longer than the copy.
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

}  // namespace

FlatGroup::FlatGroup(std::string name,
                     at::ScalarType dtype,
                     at::Device device,
                     std::vector<FlatParameter> parameters,
                     std::optional<at::ScalarType> seen_dtype)
    : name_(std::move(name)), dtype_(dtype) {
  std::stable_sort(parameters.begin(), parameters.end(), [](const auto& a, const auto& b) {
    if (a.trainable != b.trainable) {
      return a.trainable;
    }
    return a.partition < b.partition;
  });
  const auto element_bytes = static_cast<int64_t>(
      std::min(c10::elementSize(dtype), c10::elementSize(seen_dtype.value_or(dtype))));
  const int64_t alignment = kAlignmentBytes / element_bytes;
  int64_t end = 0;
  int64_t trainable_end = 0;
  for (auto& parameter : parameters) {
    FlatEntry entry;
    entry.offset = end;
    entry.numel = numel_of(parameter.shape);
    entry.parameter = std::move(parameter);
    end += (entry.numel + alignment - 1) / alignment * alignment;
    if (entry.parameter.trainable) {
      trainable_end = end;
    }
    entries_.push_back(std::move(entry));
  }
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  data_ = at::zeros({end}, options);
  grad_ = at::zeros({trainable_end}, options);
  if (seen_dtype.has_value() && *seen_dtype != dtype) {
    copy_ = at::zeros({end}, options.dtype(*seen_dtype));
  }
  for (const auto& entry : entries_) {
    if (entry.parameter.trainable) {
      grad_views_.push_back(grad_.narrow(0, entry.offset, entry.numel).view(entry.parameter.shape));
    }
  }
}

at::Tensor FlatGroup::data_view(size_t entry) const {
  const auto& e = entries_[entry];
  return data_.narrow(0, e.offset, e.numel).view(e.parameter.shape);
}

at::Tensor FlatGroup::seen_view(size_t entry) const {
  const auto& e = entries_[entry];
  return (has_copy() ? copy_ : data_).narrow(0, e.offset, e.numel).view(e.parameter.shape);
}

at::Tensor FlatGroup::grad_view(size_t entry) const {
  TENON_ASSERT(entry < grad_views_.size(), "a frozen parameter has no gradient");
  return grad_views_[entry];
}

void FlatGroup::add_grad(size_t entry, const at::Tensor& grad) {
  auto& e = entries_[entry];
  if (e.touched) {
    grad_views_[entry].add_(grad);
  } else {
    copy_into(grad_views_[entry], grad);
    e.touched = true;
    e.is_stale = false;
  }
}

void FlatGroup::settle_grads() {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].is_stale) {
      grad_views_[i].zero_();
      entries_[i].is_stale = false;
    }
  }
}

void FlatGroup::publish() {
  if (has_copy()) {
    copy_.copy_(data_);
  }
}

void FlatGroup::clear_grads() {
  for (auto& entry : entries_) {
    entry.is_stale = entry.is_stale || entry.touched;
    entry.touched = false;
  }
}

bool FlatGroup::any_touched() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& e) { return e.touched; });
}

std::vector<FlatRange> FlatGroup::ranges() const {
  std::vector<FlatRange> result;
  for (size_t i = 0; i < entries_.size() && entries_[i].parameter.trainable; ++i) {
    const auto& e = entries_[i];
    const bool is_last = i + 1 == entries_.size();
    const int64_t end = is_last ? data_.numel() : entries_[i + 1].offset;
    if (!result.empty() && result.back().partition == e.parameter.partition) {
      result.back().last_entry = i;
      result.back().end = end;
    } else {
      result.push_back({e.parameter.partition, i, i, e.offset, end});
    }
  }
  return result;
}

}  // namespace tenon
