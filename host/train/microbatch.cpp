// SPDX-License-Identifier: Apache-2.0
#include "host/train/microbatch.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace tenon {

at::Tensor seed_of(double weight, const at::Tensor& total) {
  if (total.is_cpu()) {
    const double count = total.item<double>();
    return at::scalar_tensor(count != 0 ? weight / count : 0.0, at::kDouble);
  }
  return at::where(total != 0, weight / total, at::zeros_like(total));
}

at::Tensor count_of(const std::vector<Microbatch>& microbatches, size_t loss) {
  at::Tensor total;
  for (const Microbatch& microbatch : microbatches) {
    if (loss < microbatch.counts.size()) {
      total = total.defined() ? total + microbatch.counts[loss] : microbatch.counts[loss];
    }
  }
  return total;
}

at::Tensor mean_loss(const std::vector<Microbatch>& microbatches, const LossSet& losses) {
  at::Tensor mean;
  for (size_t l = 0; l < losses.size(); ++l) {
    at::Tensor sum;
    at::Tensor count;
    for (const Microbatch& microbatch : microbatches) {
      if (!microbatch.sums.empty()) {
        const at::Tensor part = microbatch.sums[l].to(at::kDouble);
        sum = sum.defined() ? sum + part : part;
        count = count.defined() ? count + microbatch.counts[l] : microbatch.counts[l];
      }
    }
    if (sum.defined()) {
      const at::Tensor weighted = sum * seed_of(losses.weight(l), count);
      mean = mean.defined() ? mean + weighted : weighted;
    }
  }
  return mean;
}

}  // namespace tenon
