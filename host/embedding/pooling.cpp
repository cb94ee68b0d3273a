// SPDX-License-Identifier: Apache-2.0
//
// Compiled with OpenMP, for at::parallel_for, and for several vector widths.
#include "host/embedding/pooling.hpp"

#include <tenon/model.h>

#include "host/tensor/vector_clones.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

// Minimum elements of a value per thread. For fewer, another thread does not pay off.
constexpr int64_t kMinPerThread = 1 << 15;

TENON_SIMD void add_scaled(float* sum, const float* row, float scale, int64_t dim) {
  for (int64_t d = 0; d < dim; ++d) {
    sum[d] += scale * row[d];
  }
}

TENON_SIMD void add_row(float* sum, const float* row, int64_t dim) {
  for (int64_t d = 0; d < dim; ++d) {
    sum[d] += row[d];
  }
}

// The range of entries of each sample.
class Segments {
 public:
  explicit Segments(const LookupIds& ids)
      : offsets_(ids.offsets.defined() ? ids.offsets.const_data_ptr<int64_t>() : nullptr),
        per_sample_(ids.per_sample) {}
  int64_t begin(int64_t sample) const {
    return offsets_ != nullptr ? offsets_[sample] : sample * per_sample_;
  }
  int64_t end(int64_t sample) const { return begin(sample + 1); }

 private:
  const int64_t* offsets_;
  int64_t per_sample_;
};

bool is_mean(uint32_t kind) {
  return kind == TENON_POOL_MEAN || kind == TENON_POOL_WEIGHTED_MEAN;
}

void take_maximum(std::span<const uint32_t> positions,
                  const float* rows,
                  int64_t begin,
                  int64_t end,
                  int64_t dim,
                  float* out,
                  int32_t* chosen) {
  std::fill_n(chosen, dim, -1);
  for (int64_t e = begin; e < end; ++e) {
    const float* row = rows + static_cast<int64_t>(positions[static_cast<size_t>(e)]) * dim;
    for (int64_t d = 0; d < dim; ++d) {
      if (chosen[d] < 0 || row[d] > out[d]) {
        out[d] = row[d];
        chosen[d] = static_cast<int32_t>(e);
      }
    }
  }
}

std::vector<int64_t> shape_of(const Pooling& pooling, const LookupIds& ids) {
  if (pooling.kind == TENON_POOL_FIRST_N) {
    return {ids.num_samples, pooling.length, pooling.dim};
  }
  if (pooling.kind == TENON_POOL_NONE && ids.is_matrix) {
    return {ids.num_samples, ids.per_sample, pooling.dim};
  }
  return {ids.num_samples, pooling.dim};
}

}  // namespace

bool is_weighted(uint32_t kind) {
  return kind == TENON_POOL_WEIGHTED_SUM || kind == TENON_POOL_WEIGHTED_MEAN;
}

at::Tensor pool(const Pooling& pooling,
                const LookupIds& ids,
                std::span<const uint32_t> positions,
                const float* rows,
                std::vector<int32_t>* chosen) {
  const int64_t dim = pooling.dim;
  const bool copies = pooling.kind == TENON_POOL_NONE;
  const at::Tensor value = copies ? at::empty(shape_of(pooling, ids), at::kFloat)
                                  : at::zeros(shape_of(pooling, ids), at::kFloat);
  auto* const out = value.data_ptr<float>();
  const auto row = [&](int64_t entry) {
    return rows + static_cast<int64_t>(positions[static_cast<size_t>(entry)]) * dim;
  };
  if (copies) {
    at::parallel_for(
        0, ids.num_entries(), kMinPerThread / dim + 1, [&](int64_t begin, int64_t end) {
          for (int64_t e = begin; e < end; ++e) {
            std::memcpy(out + e * dim, row(e), static_cast<size_t>(dim) * sizeof(float));
          }
        });
    return value;
  }
  const Segments segments(ids);
  const float* const weights =
      is_weighted(pooling.kind) ? ids.weights.const_data_ptr<float>() : nullptr;
  if (pooling.kind == TENON_POOL_MAX) {
    chosen->resize(static_cast<size_t>(ids.num_samples * dim));
  }
  at::parallel_for(0, ids.num_samples, kMinPerThread / dim + 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const int64_t first = segments.begin(s);
      const int64_t last = segments.end(s);
      if (pooling.kind == TENON_POOL_FIRST_N) {
        const int64_t n = std::min(last - first, pooling.length);
        for (int64_t i = 0; i < n; ++i) {
          std::memcpy(out + (s * pooling.length + i) * dim,
                      row(first + i),
                      static_cast<size_t>(dim) * sizeof(float));
        }
        continue;
      }
      float* const sum = out + s * dim;
      if (pooling.kind == TENON_POOL_MAX) {
        take_maximum(positions, rows, first, last, dim, sum, chosen->data() + s * dim);
        continue;
      }
      for (int64_t e = first; e < last; ++e) {
        if (weights != nullptr) {
          add_scaled(sum, row(e), weights[e], dim);
        } else {
          add_row(sum, row(e), dim);
        }
      }
      if (is_mean(pooling.kind) && last - first > 1) {
        const auto n = static_cast<float>(last - first);
        for (int64_t d = 0; d < dim; ++d) {
          sum[d] /= n;
        }
      }
    }
  });
  return value;
}

void add_pooled_grad(const Pooling& pooling,
                     const LookupIds& ids,
                     std::span<const uint32_t> positions,
                     std::span<const uint8_t> has_row,
                     const at::Tensor& grad,
                     std::span<const int32_t> chosen,
                     float* row_grads,
                     int64_t* num_used) {
  const int64_t dim = pooling.dim;
  const auto* const in = grad.const_data_ptr<float>();
  const auto add = [&](int64_t entry, const float* of_entry, float scale) {
    const uint32_t position = positions[static_cast<size_t>(entry)];
    if (has_row[position] == 0) {
      return;
    }
    float* const sum = row_grads + static_cast<int64_t>(position) * dim;
    if (scale == 1.0F) {
      add_row(sum, of_entry, dim);
    } else {
      add_scaled(sum, of_entry, scale, dim);
    }
    ++num_used[position];
  };
  if (pooling.kind == TENON_POOL_NONE) {
    for (int64_t e = 0; e < ids.num_entries(); ++e) {
      add(e, in + e * dim, 1.0F);
    }
    return;
  }
  const Segments segments(ids);
  const float* const weights =
      is_weighted(pooling.kind) ? ids.weights.const_data_ptr<float>() : nullptr;
  for (int64_t s = 0; s < ids.num_samples; ++s) {
    const int64_t first = segments.begin(s);
    const int64_t last = segments.end(s);
    if (pooling.kind == TENON_POOL_FIRST_N) {
      const int64_t n = std::min(last - first, pooling.length);
      for (int64_t i = 0; i < n; ++i) {
        add(first + i, in + (s * pooling.length + i) * dim, 1.0F);
      }
      continue;
    }
    const float* const of_sample = in + s * dim;
    if (pooling.kind == TENON_POOL_MAX) {
      const int32_t* const entries = chosen.data() + s * dim;
      for (int64_t d = 0; d < dim && last > first; ++d) {
        const uint32_t position = positions[static_cast<size_t>(entries[d])];
        if (has_row[position] != 0) {
          row_grads[static_cast<int64_t>(position) * dim + d] += of_sample[d];
        }
      }
      for (int64_t e = first; e < last; ++e) {
        num_used[positions[static_cast<size_t>(e)]] +=
            has_row[positions[static_cast<size_t>(e)]] != 0 ? 1 : 0;
      }
      continue;
    }
    const float share = is_mean(pooling.kind) ? 1.0F / static_cast<float>(last - first) : 1.0F;
    for (int64_t e = first; e < last; ++e) {
      add(e, of_sample, weights != nullptr ? weights[e] * share : share);
    }
  }
}

}  // namespace tenon
