// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/rank_sum.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace tenon {
namespace {

// Fits a core's private cache, and is too small for libtorch to wake other threads, which belong to
// the train thread.
constexpr int64_t kChunk = 32'768;

}  // namespace

void sum_of_ranks(const at::Tensor& sum, std::span<const at::Tensor> pieces) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::ScalarType dtype = sum.scalar_type();
  const bool is_narrow = dtype == at::kBFloat16 || dtype == at::kHalf;
  const at::ScalarType wide = is_narrow ? at::kFloat : dtype;
  const bool is_plain = pieces[0].scalar_type() == wide;
  const int64_t k = sum.numel();
  const bool needs_room = !is_plain || pieces.size() > 2;
  const at::Tensor room =
      at::empty({needs_room ? std::min(k, kChunk) : 0}, sum.options().dtype(wide));
  for (int64_t begin = 0; begin < k; begin += kChunk) {
    const int64_t length = std::min(kChunk, k - begin);
    const auto piece = [&](size_t i) { return pieces[i].narrow(0, begin, length); };
    at::Tensor to = sum.narrow(0, begin, length);
    const size_t last = pieces.size() - 1;
    if (!needs_room) {
      at::add_out(to, piece(0), piece(1));
      continue;
    }
    // Only the last addition writes to `sum`, which may be a piece that is still to be read.
    at::Tensor so_far = room.narrow(0, 0, length);
    if (is_plain) {
      at::add_out(so_far, piece(0), piece(1));
    } else {
      so_far.copy_(piece(0));
      so_far.add_(piece(1));
    }
    for (size_t i = 2; i < last; ++i) {
      so_far.add_(piece(i));
    }
    if (last >= 2 && !is_narrow) {
      at::add_out(to, so_far, piece(last));
      continue;
    }
    if (last >= 2) {
      so_far.add_(piece(last));
    }
    to.copy_(so_far);
  }
}

}  // namespace tenon
