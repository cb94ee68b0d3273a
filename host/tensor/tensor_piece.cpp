// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/tensor_piece.hpp"

#include "host/error/assert.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (const int64_t size : sizes) {
    result *= size;
  }
  return result;
}

bool is_range_of(int64_t start, int64_t size, int64_t whole) {
  return start >= 0 && size >= 0 && size <= whole && start <= whole - size;
}

at::Tensor narrowed(at::Tensor whole, const Box& one) {
  for (int64_t d = 0; d < whole.dim(); ++d) {
    const auto at = static_cast<size_t>(d);
    whole = whole.narrow(d, one.start[at], one.size[at]);
  }
  return whole;
}

// Calls take(place, part) for each range of a box: its elements of the whole, and of the part.
template <class Take>
void each_place(const at::Tensor& whole, const Box& box, const at::Tensor& part, Take take) {
  TENON_ASSERT(part.sizes() == at::IntArrayRef(box.size), "a part has the shape of its box");
  for_each_range(box, [&](const Box& one, int64_t at) {
    take(narrowed(whole, one),
         box.ranges.empty() ? part
                            : part.narrow(static_cast<int64_t>(box.axis), at, one.size[box.axis]));
  });
}

}  // namespace

int64_t Box::place(size_t d, int64_t i) const {
  if (d == axis) {
    for (const IndexRange& range : ranges) {
      if (i < range.size) {
        return range.start + i;
      }
      i -= range.size;
    }
  }
  return start[d] + i;
}

Box box_of_ranges(const std::vector<int64_t>& shape, size_t axis, std::vector<IndexRange> ranges) {
  std::vector<IndexRange> joined;
  int64_t size = 0;
  for (const IndexRange& range : ranges) {
    size += range.size;
    if (!joined.empty() && joined.back().start + joined.back().size == range.start) {
      joined.back().size += range.size;
    } else if (range.size > 0) {
      joined.push_back(range);
    }
  }
  Box box{.start = std::vector<int64_t>(shape.size(), 0), .size = shape};
  box.start[axis] = joined.empty() ? 0 : joined.front().start;
  box.size[axis] = size;
  if (joined.size() > 1) {
    box.axis = axis;
    box.ranges = std::move(joined);
  }
  TENON_ASSERT(is_box_of(box, shape), "ranges are ascending, and lie in their tensor");
  return box;
}

bool is_box_of(const Box& box, const std::vector<int64_t>& shape) {
  bool is_inside = box.start.size() == shape.size() && box.size.size() == shape.size();
  for (size_t d = 0; is_inside && d < shape.size(); ++d) {
    is_inside = is_range_of(box.start[d], box.size[d], shape[d]);
  }
  if (!is_inside || box.ranges.empty()) {
    return is_inside && box.axis == 0;
  }
  if (box.axis >= shape.size() || box.ranges.size() == 1 ||
      box.ranges.front().start != box.start[box.axis]) {
    return false;
  }
  int64_t end = -1;
  int64_t size = 0;
  for (const IndexRange& range : box.ranges) {
    if (!is_range_of(range.start, range.size, shape[box.axis]) || range.size == 0 ||
        range.start <= end) {
      return false;
    }
    end = range.start + range.size;
    size += range.size;
  }
  return size == box.size[box.axis];
}

std::string box_text(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.start.size(); ++d) {
    text += d > 0 ? ", " : "";
    if (box.ranges.empty() || d != box.axis) {
      text += formatted("{}:{}", box.start[d], box.start[d] + box.size[d]);
      continue;
    }
    for (size_t i = 0; i < box.ranges.size(); ++i) {
      const IndexRange& range = box.ranges[i];
      text += formatted("{}{}:{}", i > 0 ? "+" : "", range.start, range.start + range.size);
    }
  }
  return text + "]";
}

TensorPiece::TensorPiece(std::vector<int64_t> shape) : shape_(std::move(shape)) {
  box_numel_ = product(shape_);
  run_ends_ = {box_numel_};
  numel_ = box_numel_;
}

TensorPiece::TensorPiece(std::vector<int64_t> shape, Box box) : TensorPiece(std::move(shape)) {
  TENON_ASSERT(is_box_of(box, shape_), "a box lies in its tensor");
  if (box.size == shape_) {
    return;
  }
  // The innermost dimensions that the box spans, and one more, are consecutive. If that one has
  // several ranges, each is a run.
  int64_t run_numel = 1;
  run_ends_.clear();
  for (size_t d = shape_.size(); d-- > 0 && run_ends_.empty();) {
    if (box.size[d] == shape_[d] && d > 0) {
      run_numel *= box.size[d];
      continue;
    }
    if (box.ranges.empty() || d != box.axis) {
      run_ends_ = {run_numel * box.size[d]};
      continue;
    }
    for (const IndexRange& range : box.ranges) {
      run_ends_.push_back((run_ends_.empty() ? 0 : run_ends_.back()) + run_numel * range.size);
    }
  }
  box_numel_ = product(box.size);
  numel_ = box_numel_;
  box_ = std::move(box);
}

TensorPiece TensorPiece::part(int64_t first, int64_t numel) const {
  TENON_ASSERT(first >= 0 && numel >= 0 && first <= numel_ - numel, "a part lies in its piece");
  TensorPiece result = *this;
  result.first_ += first;
  result.numel_ = numel;
  return result;
}

int64_t TensorPiece::end_of_run(int64_t index) const {
  const auto n = static_cast<int64_t>(run_ends_.size());
  return index < 0 ? 0 : index / n * run_ends_.back() + run_ends_[static_cast<size_t>(index % n)];
}

int64_t TensorPiece::runs_before(int64_t in_box) const {
  const auto n = static_cast<int64_t>(run_ends_.size());
  const int64_t rest = in_box % run_ends_.back();
  return in_box / run_ends_.back() * n +
         (std::ranges::upper_bound(run_ends_, rest) - run_ends_.begin());
}

int64_t TensorPiece::num_runs() const {
  return numel_ > 0 ? runs_before(first_ + numel_ - 1) - runs_before(first_) + 1 : 0;
}

TensorPiece::Run TensorPiece::run(int64_t index) const {
  const int64_t of_box = runs_before(first_) + index;
  const int64_t begin = std::max(first_, end_of_run(of_box - 1));
  const int64_t end = std::min(first_ + numel_, end_of_run(of_box));
  if (!box_) {
    return {begin, begin - first_, end - begin};
  }
  int64_t in_tensor = 0;
  int64_t rest = begin;
  int64_t stride = 1;
  for (size_t d = shape_.size(); d-- > 0;) {
    in_tensor += box_->place(d, rest % box_->size[d]) * stride;
    rest /= box_->size[d];
    stride *= shape_[d];
  }
  return {in_tensor, begin - first_, end - begin};
}

int64_t TensorPiece::run_after(int64_t in_tensor) const {
  int64_t low = 0;
  int64_t high = num_runs();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (run(middle).end() > in_tensor) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

std::string TensorPiece::text() const {
  const std::string of =
      box_ ? "the box " + box_text(*box_) + " of " + shape_text(shape_) : shape_text(shape_);
  if (is_box()) {
    return box_ ? "in " + of : "whole";
  }
  return formatted("from element {} of {}", first_, of);
}

std::optional<TensorPiece> blocks_of(const TensorPiece& piece, int64_t block) {
  const int64_t numel = product(piece.shape());
  const auto num_blocks = [block](int64_t n) { return (n + block - 1) / block; };
  const auto is_border = [&](int64_t at) { return at % block == 0 || at == numel; };
  const TensorPiece all = piece.all_of_box();
  const size_t num_ranges = piece.box() ? std::max<size_t>(piece.box()->ranges.size(), 1) : 1;
  const bool has_runs = all.num_runs() <= static_cast<int64_t>(num_ranges);
  bool is_cut = !has_runs || piece.first() % block != 0;
  std::vector<IndexRange> ranges;
  for (int64_t r = 0; has_runs && r < all.num_runs(); ++r) {
    const TensorPiece::Run run = all.run(r);
    is_cut = is_cut || !is_border(run.in_tensor) || !is_border(run.end());
    ranges.push_back({run.in_tensor / block, num_blocks(run.numel)});
  }
  const int64_t end = piece.first() + piece.numel();
  is_cut = is_cut || (end % block != 0 && end != all.numel());
  if (is_cut) {
    return std::nullopt;
  }
  const std::vector<int64_t> shape = {num_blocks(numel)};
  return TensorPiece(shape, box_of_ranges(shape, 0, std::move(ranges)))
      .part(piece.first() / block, num_blocks(piece.numel()));
}

at::Tensor values_of(const TensorPiece& piece, const at::Tensor& whole) {
  at::Tensor values = whole.reshape(piece.shape());
  if (piece.box()) {
    values = part_of(values, *piece.box());
  }
  return values.reshape(-1).narrow(0, piece.first(), piece.numel());
}

at::Tensor part_of(const at::Tensor& whole, const Box& box) {
  std::vector<at::Tensor> parts;
  for_each_range(box, [&](const Box& one, int64_t) { parts.push_back(narrowed(whole, one)); });
  return parts.size() == 1 ? parts.front() : at::cat(parts, static_cast<int64_t>(box.axis));
}

void put_part(const at::Tensor& whole, const Box& box, const at::Tensor& part) {
  each_place(
      whole, box, part, [](const at::Tensor& to, const at::Tensor& from) { to.copy_(from); });
}

void add_part(const at::Tensor& whole, const Box& box, const at::Tensor& part) {
  each_place(whole, box, part, [](const at::Tensor& to, const at::Tensor& from) { to.add_(from); });
}

}  // namespace tenon
