// SPDX-License-Identifier: Apache-2.0
//
// The attention kernels, task after task, on each machine that this one can stand for. The oracle
// is the formula by libtorch's operators and autograd in fp64.
#include "host/kernels/attention_blocks.hpp"
#include "host/kernels/attention_heads.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using namespace tenon;
#define SIMD_KERNELS "host/kernels/attention_kernels.hpp"
#include <tenon/simd/each_machine.hpp>

namespace tenon {
namespace {

struct Kernels {
  std::string name;
  int64_t (*scratch)(const AttentionSizes&);
  void (*forward)(const AttentionInput&, int64_t, const AttentionOutput&, float*);
  void (*backward)(const AttentionInput&, const AttentionPart&, const AttentionGrads&, float*);
};

std::vector<Kernels> kernels_of_this_machine() {
  std::vector<Kernels> all = {{"basic",
                               simd_basic::attention_scratch_floats,
                               simd_basic::attend_queries,
                               simd_basic::attend_keys_backward}};
#if TENON_SIMD_X86
  if (this_machine() != Machine::kBasic) {
    all.push_back({"avx2",
                   simd_avx2::attention_scratch_floats,
                   simd_avx2::attend_queries,
                   simd_avx2::attend_keys_backward});
  }
  if (this_machine() == Machine::kAvx512) {
    all.push_back({"avx512",
                   simd_avx512::attention_scratch_floats,
                   simd_avx512::attend_queries,
                   simd_avx512::attend_keys_backward});
  }
#endif
  return all;
}

template <class Float>
HeadRows<Float> rows_of(const at::Tensor& x) {
  return {x.mutable_data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2)};
}

struct Case {
  AttentionSizes sizes;
  bool has_table = false;
  int64_t window = 0;
  bool is_causal = true;
  float softcap = 0.0f;
  int64_t first = 0;
};

// `table` has a row for each position of x.
at::Tensor rotated(const at::Tensor& x, const at::Tensor& table) {
  if (!table.defined()) {
    return x;
  }
  const std::vector<at::Tensor> half = x.chunk(2, -1);
  return at::cat({half[0] * table[0] - half[1] * table[1], half[1] * table[0] + half[0] * table[1]},
                 -1);
}

at::Tensor by_formula(const Case& c,
                      const at::Tensor& query,
                      const at::Tensor& key,
                      const at::Tensor& value,
                      const at::Tensor& table) {
  const AttentionSizes& s = c.sizes;
  const at::Tensor q =
      rotated(query.transpose(1, 2), c.has_table ? table.narrow(1, c.first, s.T) : table);
  const at::Tensor k = rotated(key.transpose(1, 2), table).repeat_interleave(s.H / s.K, 1);
  const at::Tensor v = value.transpose(1, 2).repeat_interleave(s.H / s.K, 1);
  at::Tensor hidden = at::zeros({s.T, s.S}, at::kBool);
  if (c.is_causal) {
    const at::Tensor ones = at::ones({s.T, s.S}, at::kBool);
    const at::Tensor later = ones.triu(1 + c.first);
    hidden = c.window > 0 ? later.logical_or(ones.tril(c.first - c.window)) : later;
  }
  at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(s.E));
  if (c.softcap > 0.0f) {
    scores = c.softcap * (scores / c.softcap).tanh();
  }
  return at::matmul(scores.masked_fill(hidden, -1e300).softmax(-1), v).transpose(1, 2);
}

double relative_difference(const at::Tensor& got, const at::Tensor& want) {
  return (got.to(at::kDouble) - want).norm().item<double>() / (want.norm().item<double>() + 1e-9);
}

void check_kernels(const Kernels& kernels, const Case& c) {
  const AttentionSizes& s = c.sizes;
  const at::Generator generator = at::detail::createCPUGenerator(11);
  const at::Tensor q = at::randn({s.B, s.T, s.H, s.E}, generator);
  const at::Tensor k = at::randn({s.B, s.S, s.K, s.E}, generator);
  const at::Tensor v = at::randn({s.B, s.S, s.K, s.E}, generator);
  const at::Tensor grad_y = at::randn({s.B, s.T, s.H, s.E}, generator);
  const at::Tensor angles = at::rand({s.S, s.E / 2}, generator) * 6.3;
  const at::Tensor table = c.has_table ? at::stack({angles.cos(), angles.sin()}) : at::Tensor();
  const at::Tensor starts =
      at::arange(c.first, c.first + s.T, at::kInt).sub(c.window - 1).clamp_min(0);

  const std::vector<at::Tensor> leaves = {q.to(at::kDouble).requires_grad_(),
                                          k.to(at::kDouble).requires_grad_(),
                                          v.to(at::kDouble).requires_grad_()};
  const at::Tensor table64 = c.has_table ? table.to(at::kDouble) : table;
  const at::Tensor want_y = by_formula(c, leaves[0], leaves[1], leaves[2], table64);
  const std::vector<at::Tensor> want =
      torch::autograd::grad({want_y}, leaves, {grad_y.to(at::kDouble)});

  const AttentionInput in{
      .sizes = s,
      .first = c.first,
      .q = rows_of<const float>(q),
      .k = rows_of<const float>(k),
      .v = rows_of<const float>(v),
      .cos = c.has_table ? table.const_data_ptr<float>() : nullptr,
      .sin = c.has_table ? table.const_data_ptr<float>() + table.stride(0) : nullptr,
      .rotated = c.has_table ? s.E : 0,
      .starts = c.window > 0 ? starts.const_data_ptr<int32_t>() : nullptr,
      .is_causal = c.is_causal,
      .scale = 1.0f / std::sqrt(static_cast<float>(s.E)),
      .softcap = c.softcap};
  const at::Tensor y = at::full(q.sizes(), std::nan(""));
  const at::Tensor sums = at::full({s.B, s.H, s.T}, std::nan(""));
  std::vector<float> scratch(static_cast<size_t>(kernels.scratch(s)));
  const AttentionOutput out{rows_of<float>(y), sums.mutable_data_ptr<float>()};
  for (int64_t task = 0; task < attention_tasks(s); ++task) {
    kernels.forward(in, task, out, scratch.data());
  }
  CHECK(relative_difference(y, want_y.detach()) < 1e-6);

  const std::vector<at::Tensor> got = {at::full(q.sizes(), std::nan("")),
                                       at::full(k.sizes(), std::nan("")),
                                       at::full(v.sizes(), std::nan(""))};
  const AttentionGrads grads{.y = rows_of<const float>(y),
                             .sums = sums.const_data_ptr<float>(),
                             .grad_y = rows_of<const float>(grad_y),
                             .grad_q = rows_of<float>(got[0]),
                             .grad_k = rows_of<float>(got[1]),
                             .grad_v = rows_of<float>(got[2])};
  for (int64_t group = s.B * s.K; group-- > 0;) {
    const int64_t head = group % s.K;
    const AttentionPart part{.b = group / s.K,
                             .kv_head = head,
                             .first_head = head * (s.H / s.K),
                             .end_head = (head + 1) * (s.H / s.K),
                             .end_key = s.S,
                             .end_query = s.T};
    kernels.backward(in, part, grads, scratch.data());
  }
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_difference(got[i], want[i]) < 3e-6);
  }
}

}  // namespace

TEST_CASE("attention kernels equal the formula on each machine", "[kernels]") {
  const Case c = GENERATE(Case{{2, 1, 1, 2, 2, 4}},
                          Case{{1, 5, 5, 1, 1, 2}, true},
                          Case{{2, 37, 37, 4, 2, 6}, true},
                          Case{{2, 37, 37, 2, 2, 7}},
                          Case{{1, 32, 32, 3, 1, 16}, true, 7},
                          Case{{1, 65, 65, 2, 2, 40}, true, 0, true, 1.5f},
                          Case{{1, 96, 96, 2, 2, 8}, true, 50},
                          Case{{1, 130, 130, 2, 1, 64}, true},
                          Case{{1, 300, 300, 1, 1, 128}, true, 100},
                          Case{{2, 130, 37, 4, 2, 40}, false, 0, false},
                          Case{{1, 5, 300, 2, 1, 128}, false, 0, false, 2.0f},
                          Case{{2, 5, 130, 2, 1, 16}, true, 0, true, 0.0f, 125},
                          Case{{1, 100, 301, 4, 2, 40}, true, 60, true, 1.5f, 97},
                          Case{{1, 96, 200, 1, 1, 32}, true, 0, true, 0.0f, 0},
                          Case{{1, 40, 200, 2, 2, 24}, true, 0, false, 0.0f, 77});
  const AttentionSizes& s = c.sizes;
  for (const Kernels& kernels : kernels_of_this_machine()) {
    CAPTURE(s.B, s.T, s.S, s.H, s.K, s.E, c.has_table, c.window, c.first, kernels.name);
    check_kernels(kernels, c);
  }
}

}  // namespace tenon
