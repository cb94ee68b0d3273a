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
void fill_elements(const Source& source, const TensorPiece& piece, T* data) {
  constexpr int64_t kChunk = 1024;
  const int64_t chunks = (piece.numel() + kChunk - 1) / kChunk;
  at::parallel_for(0, chunks, 8, [&](int64_t begin, int64_t end) {
    std::array<double, kChunk> values;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kChunk;
      const int64_t n = std::min(kChunk, piece.numel() - first);
      for_each_run(piece.part(first, n), [&](const TensorPiece::Run& run) {
        source.fill(static_cast<uint64_t>(run.in_tensor),
                    std::span(values).subspan(static_cast<size_t>(run.in_piece),
                                              static_cast<size_t>(run.numel)));
      });
      for (int64_t k = 0; k < n; ++k) {
        if constexpr (std::is_same_v<T, double>) {
          data[first + k] = values[static_cast<size_t>(k)];
        } else {
          data[first + k] = static_cast<T>(static_cast<float>(values[static_cast<size_t>(k)]));
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
               const TensorPiece& piece,
               const at::Tensor& values) {
  const auto refuse = [&](const std::string& why) {
    throw Error("tensor.bad_argument", "cannot initialize '" + std::string(name) + "': " + why);
  };
  if (!is_legal_init(kind, a, b)) {
    refuse("initializer " + std::to_string(kind) + " with a = " + std::to_string(a) +
           " and b = " + std::to_string(b) + " is invalid");
  }
  if (values.numel() != piece.numel() || !values.is_contiguous()) {
    refuse("the values are not contiguous, or are not as many as those of the piece");
  }
  if (!values.is_cpu()) {
    const at::Tensor on_host = at::empty(values.sizes(), values.options().device(at::kCPU));
    fill_init(kind, a, b, seed, name, piece, on_host);
    values.detach().copy_(on_host);
    return;
  }
  const Source source{kind, a, b, seed, stream_of(name)};
  const auto fill = [&]<class T>(T* data) { fill_elements(source, piece, data); };
  switch (values.scalar_type()) {
    case at::kFloat:
      return fill(values.mutable_data_ptr<float>());
    case at::kDouble:
      return fill(values.mutable_data_ptr<double>());
    case at::kBFloat16:
      return fill(values.mutable_data_ptr<at::BFloat16>());
    case at::kHalf:
      return fill(values.mutable_data_ptr<at::Half>());
    default:
      refuse("initial values are f64, f32, bf16 or f16, not " + dtype_name(dtype_of(values)));
  }
}

}  // namespace tenon
