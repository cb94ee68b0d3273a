// SPDX-License-Identifier: Apache-2.0
//
// Compiled with OpenMP, like libtorch. Without OpenMP, the template at::parallel_for runs serially.

#include "host/tensor/parallel_service.hpp"

#include "host/tensor/torch_guard.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <mutex>

namespace tenon {
namespace {

// Keeps the failure of the piece with the lowest begin, and releases all others.
class LowestFailure {
 public:
  LowestFailure() = default;
  LowestFailure(const LowestFailure&) = delete;
  LowestFailure& operator=(const LowestFailure&) = delete;
  ~LowestFailure() { release(status_); }

  void add(size_t begin, tenon_status* status_own) {
    const std::lock_guard lock(mutex_);
    if (status_ == nullptr || begin < begin_) {
      begin_ = begin;
      std::swap(status_, status_own);
    }
    release(status_own);
  }
  tenon_status* take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(status_, nullptr);
  }

 private:
  std::mutex mutex_;
  size_t begin_ = 0;
  tenon_status* status_ = nullptr;
};

tenon_status* run(const tenon_host* host,
                  size_t n,
                  size_t grain,
                  tenon_status* (*body)(void* context, size_t begin, size_t end),
                  void* context) {
  return torch_guard(host, "parallel: ", [&]() -> tenon_status* {
    if (body == nullptr) {
      return make_status(host, TENON_INVALID, "tensor.bad_argument", "argument 'body' is null");
    }
    if (n == 0) {
      return nullptr;
    }
    // at::parallel_for rounds up the number of pieces, so pieces may be smaller than the grain.
    const size_t threads = static_cast<size_t>(std::max(1, at::get_num_threads()));
    const size_t pieces = std::clamp<size_t>(n / std::max<size_t>(grain, 1), 1, threads);
    const size_t each = n / pieces;
    const size_t longer = n % pieces;  // the first pieces, with one more element each
    const auto begin_of = [&](size_t piece) { return piece * each + std::min(piece, longer); };

    LowestFailure failure;
    at::parallel_for(0, static_cast<int64_t>(pieces), 1, [&](int64_t first, int64_t last) {
      for (auto piece = static_cast<size_t>(first); piece < static_cast<size_t>(last); ++piece) {
        const size_t begin = begin_of(piece);
        tenon_status* const status =
            guard(host, [&] { return body(context, begin, begin_of(piece + 1)); });
        if (status != nullptr) {
          failure.add(begin, status);
        }
      }
    });
    return failure.take();
  });
}

uint32_t num_threads(const tenon_host* /*host*/) {
  return static_cast<uint32_t>(std::max(1, at::get_num_threads()));
}

}  // namespace

const tenon_parallel_api* parallel_service() noexcept {
  static constexpr tenon_parallel_api kApi = {
      .struct_size = sizeof(tenon_parallel_api),
      .run = run,
      .num_threads = num_threads,
  };
  return &kApi;
}

}  // namespace tenon
