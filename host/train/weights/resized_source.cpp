// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/resized_source.hpp"

#include "host/tensor/philox.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Elements of old rows in memory at a time.
constexpr int64_t kChunkOfRows = int64_t{1} << 24;

std::vector<int64_t> with_rows(std::vector<int64_t> shape, int64_t num_rows) {
  shape.front() = num_rows;
  return shape;
}

}  // namespace

ResizedSource::ResizedSource(std::shared_ptr<const TensorSource> from,
                             int64_t num_rows,
                             std::string_view name)
    : TensorSource(from->dtype(), with_rows(from->shape(), num_rows)),
      from_(std::move(from)),
      stream_(stream_of("resize/" + std::string(name))) {}

void ResizedSource::read(int64_t first, const at::Tensor& out) const {
  const at::Tensor flat = out.view(-1);
  const int64_t num_old = std::clamp<int64_t>(from_->numel() - first, 0, flat.numel());
  if (num_old > 0) {
    from_->read(first, flat.narrow(0, 0, num_old));
  }
  if (num_old < flat.numel()) {
    std::call_once(once_, [this] { new_rows_ = new_rows(); });
    const int64_t begin = first + num_old - from_->numel();
    flat.narrow(0, num_old, flat.numel() - num_old)
        .copy_(new_rows_.view(-1).narrow(0, begin, flat.numel() - num_old));
  }
}

// A sum of the centered old rows with independent normal weights has their covariance. So the
// covariance itself, whose square root would take long for wide rows, is never computed.
at::Tensor ResizedSource::new_rows() const {
  const int64_t num_old = from_->shape().front();
  const int64_t num_new = shape().front() - num_old;
  const int64_t width = from_->numel() / num_old;
  const int64_t rows_of_chunk = std::max<int64_t>(kChunkOfRows / std::max<int64_t>(width, 1), 1);
  const auto for_chunks = [&](const auto& body) {
    for (int64_t row = 0; row < num_old; row += rows_of_chunk) {
      const int64_t n = std::min(rows_of_chunk, num_old - row);
      const at::Tensor kept = at::empty({n, width}, from_->dtype());
      from_->read(row * width, kept.view(-1));
      body(row, kept.to(at::kDouble));
    }
  };
  at::Tensor mean = at::zeros({width}, at::kDouble);
  for_chunks([&](int64_t, const at::Tensor& rows) { mean += rows.sum(0); });
  mean /= static_cast<double>(num_old);
  // transformers scales the covariance of rows, and the standard deviation of biases.
  const double scale = (from_->shape().size() > 1 ? std::sqrt(1e-9) : 1e-9) /
                       std::sqrt(static_cast<double>(num_old));
  at::Tensor added = at::zeros({num_new, width}, at::kDouble);
  for_chunks([&](int64_t row, const at::Tensor& rows) {
    const at::Tensor weights = at::empty({num_new, rows.size(0)}, at::kDouble);
    for (int64_t i = 0; i < num_new; ++i) {
      fill_normal(
          0,
          stream_,
          static_cast<uint64_t>(i * num_old + row),
          std::span(weights[i].mutable_data_ptr<double>(), static_cast<size_t>(rows.size(0))));
    }
    added += at::matmul(weights, rows - mean);
  });
  return (mean + added * scale).to(from_->dtype()).contiguous();
}

}  // namespace tenon
