// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/sequence_exchange.hpp"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <cstddef>

namespace tenon {
namespace {

constexpr size_t kMaxExchanged = 4;  // positions and segments of two kinds of layers

std::vector<std::vector<int64_t>> shapes_at(const std::vector<at::Tensor>& tensors, int64_t T) {
  std::vector<std::vector<int64_t>> shapes;
  for (const at::Tensor& x : tensors) {
    shapes.push_back(x.sizes().vec());
    shapes.back()[1] = T;
  }
  return shapes;
}

int64_t numel_of(const std::vector<std::vector<int64_t>>& shapes) {
  int64_t numel = 0;
  for (const std::vector<int64_t>& shape : shapes) {
    numel += c10::multiply_integers(shape);
  }
  return numel;
}

}  // namespace

RankTensors exchange_tensors(const SequenceParts& parts,
                             const RankTensors& send,
                             const RankShapes& shapes,
                             const at::TensorOptions& like,
                             std::string_view what) {
  const uint32_t size = parts.ranks->size();
  const uint32_t here = parts.ranks->rank();
  RankTensors got(size);
  got[here] = send[here];
  if (size == 1) {
    return got;
  }
  std::vector<int64_t> send_counts(size);
  std::vector<int64_t> receive_counts(size);
  std::vector<at::Tensor> flat = {at::empty({0}, like)};
  for (uint32_t r = 0; r < size; ++r) {
    if (r != here) {
      receive_counts[r] = numel_of(shapes[r]);
      for (const at::Tensor& x : send[r]) {
        send_counts[r] += x.numel();
        flat.push_back(x.reshape({-1}));
      }
    }
  }
  const at::Tensor sent = at::cat(flat);
  flat.clear();
  at::Tensor received = at::empty({c10::sum_integers(receive_counts)}, like);
  parts.ranks->exchange(received, receive_counts, sent, send_counts, what);
  int64_t next = 0;
  for (uint32_t r = 0; r < size; ++r) {
    if (r != here) {
      for (const std::vector<int64_t>& shape : shapes[r]) {
        const int64_t numel = c10::multiply_integers(shape);
        got[r].push_back(received.narrow(0, next, numel).view(shape));
        next += numel;
      }
    }
  }
  return got;
}

at::Tensor positions_of(const at::Tensor& x_BS, const SequenceParts& parts, uint32_t rank) {
  return x_BS.narrow(1, parts.begin_of(rank), parts.lengths[rank]);
}

std::vector<at::Tensor> gather_positions(const std::vector<at::Tensor>& parts_BT,
                                         const SequenceParts& parts,
                                         std::string_view what) {
  const uint32_t size = parts.ranks->size();
  const RankTensors send(size, parts_BT);
  RankShapes shapes(size);
  for (uint32_t r = 0; r < size; ++r) {
    shapes[r] = shapes_at(parts_BT, parts.lengths[r]);
  }
  const RankTensors got = exchange_tensors(parts, send, shapes, parts_BT.front().options(), what);
  std::vector<at::Tensor> whole;
  for (size_t i = 0; i < parts_BT.size(); ++i) {
    std::vector<at::Tensor> of_ranks;
    for (uint32_t r = 0; r < size; ++r) {
      of_ranks.push_back(got[r][i]);
    }
    whole.push_back(at::cat(of_ranks, 1));
  }
  return whole;
}

std::vector<at::Tensor> sum_positions(const std::vector<at::Tensor>& terms_BS,
                                      const SequenceParts& parts,
                                      std::string_view what) {
  const uint32_t size = parts.ranks->size();
  RankTensors send(size);
  RankShapes shapes(size);
  for (uint32_t r = 0; r < size; ++r) {
    if (parts.length() > 0) {
      for (const at::Tensor& x : terms_BS) {
        send[r].push_back(positions_of(x, parts, r));
      }
    }
    if (parts.lengths[r] > 0) {
      shapes[r] = shapes_at(terms_BS, parts.length());
    }
  }
  const RankTensors got = exchange_tensors(parts, send, shapes, terms_BS.front().options(), what);
  std::vector<at::Tensor> sums;
  for (size_t i = 0; i < terms_BS.size(); ++i) {
    std::vector<at::Tensor> terms = {};
    for (uint32_t r = 0; r < size; ++r) {
      if (parts.lengths[r] > 0) {
        terms.push_back(got[r][i]);
      }
    }
    // Without any positions, the terms are empty.
    sums.push_back(terms.empty() ? terms_BS[i] : sum_in_order(terms));
  }
  return sums;
}

at::Tensor sum_in_order(const std::vector<at::Tensor>& terms) {
  const at::ScalarType dtype = terms.front().scalar_type();
  const bool is_narrow = dtype == at::kBFloat16 || dtype == at::kHalf;
  at::Tensor sum = terms.front();
  for (size_t i = 1; i < terms.size(); ++i) {
    if (i == 1) {
      sum = sum.to(is_narrow ? at::kFloat : dtype, /*non_blocking=*/false, /*copy=*/true);
    }
    sum.add_(terms[i]);
  }
  return sum.to(dtype).contiguous();
}

at::Tensor whole_integers(const at::Tensor& part_BT,
                          const SequenceParts& parts,
                          std::string_view what) {
  const auto version = [](const at::Tensor& x) {
    return x.is_inference() ? 0 : x.unsafeGetTensorImpl()->version_counter().current_version();
  };
  SequenceScope* const scope = SequenceScope::current();
  // Tensors of inference mode count no versions.
  const bool can_keep = scope != nullptr && scope->parts() == &parts && !part_BT.is_inference();
  if (can_keep) {
    for (const WholeIntegers& kept : scope->exchanged()) {
      if (kept.part_BT.is_same(part_BT) && kept.version == version(part_BT)) {
        return kept.whole_BS;
      }
    }
  }
  const at::Tensor whole = gather_positions({part_BT.to(at::kLong)}, parts, what).front();
  if (can_keep) {
    std::vector<WholeIntegers>& kept = scope->exchanged();
    if (kept.size() == kMaxExchanged) {
      kept.erase(kept.begin());
    }
    kept.push_back({.part_BT = part_BT, .version = version(part_BT), .whole_BS = whole});
  }
  return whole;
}

}  // namespace tenon
