// SPDX-License-Identifier: Apache-2.0
//
// A tensor with more rows than its source: the rows of an embedding for new tokens. The old rows
// stay as they are. New rows are drawn from a normal distribution with the mean of the old rows and
// 1e-9 times their covariance, so that a new token is about as likely as the average one.
// Invariant: all ranks read the same values, whatever parts they read.
// Threads: any, concurrently, if the underlying source allows that.
//
// Source: Hewitt, Initializing New Word Embeddings for Pretrained Language Models (2021), as
// resize_token_embeddings of transformers implements it.
#pragma once

#include "host/tensor/state/tensor_source.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

namespace tenon {

class ResizedSource final : public TensorSource {
 public:
  // `name` selects the random numbers. Requires floating point, at least one row in `from`, and
  // more than that in the result.
  ResizedSource(std::shared_ptr<const TensorSource> from, int64_t num_rows, std::string_view name);

  // Errors  those of the underlying source
  void read(int64_t first, const at::Tensor& out) const override;

 private:
  at::Tensor new_rows() const;

  std::shared_ptr<const TensorSource> from_;
  uint64_t stream_;
  mutable std::once_flag once_;
  mutable at::Tensor new_rows_;  // [new rows, ...], made by the first read of them
};

}  // namespace tenon
