// SPDX-License-Identifier: Apache-2.0
//
// Compiled with OpenMP, like libtorch. Without OpenMP, the template at::parallel_for runs serially.

#include "host/tensor/initializer.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/philox.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>

namespace tenon {
namespace {

struct Source {
  uint32_t kind;
  double a;
  double b;
  uint64_t seed;
  uint64_t stream;

  // out[k] = element first + k.
  void fill(uint64_t first, std::span<double> out) const {
    switch (kind) {
      case TENON_INIT_NORMAL:
        fill_normal(seed, stream, first, out);
        scale(out, a, b);
        break;
      case TENON_INIT_UNIFORM:
        fill_uniform(seed, stream, first, out);
        scale(out, a, b - a);
        break;
      case TENON_INIT_TRUNC_NORMAL:
        fill_trunc_normal(seed, stream, first, out);
        scale(out, a, b);
        break;
      default:
        std::ranges::fill(out,
                          kind == TENON_INIT_ONES       ? 1.0
                          : kind == TENON_INIT_CONSTANT ? a
                                                        : 0.0);
    }
  }

  static void scale(std::span<double> out, double offset, double factor) {
    for (double& x : out) {
      x = offset + factor * x;
    }
  }
};

template <class T>
void fill_elements(const Source& source, uint64_t first, T* data, int64_t n) {
  constexpr int64_t kChunk = 1024;
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  at::parallel_for(0, chunks, 8, [&](int64_t begin, int64_t end) {
    std::array<double, kChunk> values;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t offset = chunk * kChunk;
      const std::span<double> piece(values.data(),
                                    static_cast<size_t>(std::min(kChunk, n - offset)));
      source.fill(first + static_cast<uint64_t>(offset), piece);
      for (size_t k = 0; k < piece.size(); ++k) {
        if constexpr (std::is_same_v<T, double>) {
          data[offset + static_cast<int64_t>(k)] = piece[k];
        } else {
          data[offset + static_cast<int64_t>(k)] = static_cast<T>(static_cast<float>(piece[k]));
        }
      }
    }
  });
}

}  // namespace

bool is_legal_init(uint32_t kind, double a, double b) noexcept {
  switch (kind) {
    case TENON_INIT_ZEROS:
    case TENON_INIT_ONES:
      return true;
    case TENON_INIT_CONSTANT:
      return std::isfinite(a);
    case TENON_INIT_NORMAL:
    case TENON_INIT_TRUNC_NORMAL:
      return std::isfinite(a) && std::isfinite(b) && b >= 0.0;
    case TENON_INIT_UNIFORM:
      return std::isfinite(a) && std::isfinite(b) && a <= b;
    default:
      return false;
  }
}

void fill_init(uint32_t kind,
               double a,
               double b,
               uint64_t seed,
               std::string_view name,
               int64_t first,
               const at::Tensor& slice) {
  const auto refuse = [&](const std::string& why) {
    throw Error("tensor.bad_argument", "cannot initialize '" + std::string(name) + "': " + why);
  };
  if (!is_legal_init(kind, a, b)) {
    refuse("initializer " + std::to_string(kind) + " with a = " + std::to_string(a) +
           " and b = " + std::to_string(b) + " is invalid");
  }
  if (first < 0 || !slice.is_contiguous()) {
    refuse("the slice is not contiguous, or starts before the parameter");
  }
  if (!slice.is_cpu()) {
    const at::Tensor values = at::empty(slice.sizes(), slice.options().device(at::kCPU));
    fill_init(kind, a, b, seed, name, first, values);
    slice.detach().copy_(values);
    return;
  }
  const Source source{kind, a, b, seed, stream_of(name)};
  const auto fill = [&]<class T>(T* data) {
    fill_elements(source, static_cast<uint64_t>(first), data, slice.numel());
  };
  switch (slice.scalar_type()) {
    case at::kFloat:
      return fill(slice.mutable_data_ptr<float>());
    case at::kDouble:
      return fill(slice.mutable_data_ptr<double>());
    case at::kBFloat16:
      return fill(slice.mutable_data_ptr<at::BFloat16>());
    case at::kHalf:
      return fill(slice.mutable_data_ptr<at::Half>());
    default:
      refuse("initial values are f64, f32, bf16 or f16, not " + dtype_name(dtype_of(slice)));
  }
}

}  // namespace tenon
