// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/converted_source.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// Elements converted at a time.
constexpr int64_t kChunk = int64_t{1} << 20;

}  // namespace

ConvertedSource::ConvertedSource(at::ScalarType dtype,
                                 const std::vector<int64_t>& shape,
                                 std::shared_ptr<const TensorSource> from,
                                 int64_t first_element,
                                 bool is_transposed)
    : TensorSource(dtype, shape),
      from_(std::move(from)),
      first_(first_element),
      is_transposed_(is_transposed) {}

void ConvertedSource::read(int64_t first, const at::Tensor& out) const {
  if (is_transposed_) {
    read_piece(TensorPiece(shape()).part(first, out.numel()), out);
    return;
  }
  if (from_->dtype() == dtype()) {
    from_->read(first_ + first, out);
    return;
  }
  const at::Tensor flat = out.view(-1);
  for (int64_t at = 0; at < flat.numel(); at += kChunk) {
    const int64_t n = std::min(kChunk, flat.numel() - at);
    const at::Tensor kept = at::empty({n}, from_->dtype());
    from_->read(first_ + first + at, kept);
    flat.narrow(0, at, n).copy_(kept);
  }
}

void ConvertedSource::read_piece(const TensorPiece& piece, const at::Tensor& out) const {
  if (is_transposed_) {
    const at::Tensor whole = at::empty({shape()[1], shape()[0]}, from_->dtype());
    from_->read(first_, whole.view(-1));
    out.view(-1).copy_(values_of(piece, whole.t()));
    return;
  }
  if (from_->dtype() == dtype() && from_->shape() == shape()) {
    from_->read_piece(piece, out);
    return;
  }
  TensorSource::read_piece(piece, out);
}

}  // namespace tenon
