// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/tensor_piece.hpp"

#include "host/error/assert.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"

#include <ATen/core/Tensor.h>

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

bool is_within(const Box& box, const std::vector<int64_t>& shape) {
  bool is_inside = box.start.size() == shape.size() && box.size.size() == shape.size();
  for (size_t d = 0; is_inside && d < shape.size(); ++d) {
    is_inside = box.start[d] >= 0 && box.size[d] >= 0 && box.start[d] <= shape[d] - box.size[d];
  }
  return is_inside;
}

}  // namespace

std::string box_text(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.start.size(); ++d) {
    text += formatted("{}{}:{}", d > 0 ? ", " : "", box.start[d], box.start[d] + box.size[d]);
  }
  return text + "]";
}

TensorPiece::TensorPiece(std::vector<int64_t> shape) : shape_(std::move(shape)) {
  box_numel_ = product(shape_);
  run_numel_ = box_numel_;
  numel_ = box_numel_;
}

TensorPiece::TensorPiece(std::vector<int64_t> shape, Box box) : TensorPiece(std::move(shape)) {
  TENON_ASSERT(is_within(box, shape_), "a box lies in its tensor");
  if (box.size == shape_) {
    return;
  }
  // The innermost dimensions that the box spans, and one more, are consecutive.
  run_numel_ = 1;
  for (size_t d = shape_.size(); d-- > 0;) {
    run_numel_ *= box.size[d];
    if (box.size[d] != shape_[d]) {
      break;
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

int64_t TensorPiece::num_runs() const {
  return numel_ > 0 ? (first_ + numel_ - 1) / run_numel_ - first_ / run_numel_ + 1 : 0;
}

TensorPiece::Run TensorPiece::run(int64_t index) const {
  const int64_t of_box = first_ / run_numel_ + index;
  const int64_t begin = std::max(first_, of_box * run_numel_);
  const int64_t end = std::min(first_ + numel_, (of_box + 1) * run_numel_);
  if (!box_) {
    return {begin, begin - first_, end - begin};
  }
  int64_t in_tensor = 0;
  int64_t rest = begin;
  int64_t stride = 1;
  for (size_t d = shape_.size(); d-- > 0;) {
    in_tensor += (box_->start[d] + rest % box_->size[d]) * stride;
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

at::Tensor values_of(const TensorPiece& piece, const at::Tensor& whole) {
  at::Tensor values = whole.reshape(piece.shape());
  if (piece.box()) {
    for (int64_t d = 0; d < values.dim(); ++d) {
      const auto at = static_cast<size_t>(d);
      values = values.narrow(d, piece.box()->start[at], piece.box()->size[at]);
    }
  }
  return values.reshape(-1).narrow(0, piece.first(), piece.numel());
}

}  // namespace tenon
