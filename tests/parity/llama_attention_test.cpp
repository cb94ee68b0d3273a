// SPDX-License-Identifier: Apache-2.0
//
// The fused attention of the llama plugin, one group of heads after the other, on each machine that
// this one can stand for. The oracle is the formula by libtorch's operators and autograd in fp64.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/models/llama/cpu/attention_heads.hpp"
#include "tests/support/catch.hpp"

inline constexpr int64_t kAttentionRows = 32;
#define SIMD_KERNELS "../models/llama/cpu/attention_kernels.hpp"
#include "plugins/simd/each_machine.hpp"

namespace tenon {
namespace {

struct Kernels {
  std::string name;
  int64_t (*scratch)(const AttentionSizes&);
  void (*forward)(const AttentionInput&, int64_t, float*, float*, float*);
  void (*backward)(const AttentionInput&, int64_t, const float*, const float*, float*, float*);
};

std::vector<Kernels> kernels_of_this_machine() {
  std::vector<Kernels> all = {
      {"basic", simd_basic::scratch_floats, simd_basic::run_forward, simd_basic::run_backward}};
#if TENON_SIMD_X86
  if (this_machine() != Machine::kBasic) {
    all.push_back(
        {"avx2", simd_avx2::scratch_floats, simd_avx2::run_forward, simd_avx2::run_backward});
  }
  if (this_machine() == Machine::kAvx512) {
    all.push_back({"avx512",
                   simd_avx512::scratch_floats,
                   simd_avx512::run_forward,
                   simd_avx512::run_backward});
  }
#endif
  return all;
}

// [B, T, heads E] to [B, heads, T, E], turned where there is a table.
at::Tensor heads_of(const at::Tensor& x, int64_t heads, const at::Tensor& table) {
  const at::Tensor split = x.unflatten(-1, {heads, -1}).transpose(1, 2);
  if (!table.defined()) {
    return split;
  }
  const std::vector<at::Tensor> half = split.chunk(2, -1);
  return at::cat({half[0] * table[0] - half[1] * table[1], half[1] * table[0] + half[0] * table[1]},
                 -1);
}

at::Tensor by_formula(const AttentionSizes& s, const at::Tensor& qkv, const at::Tensor& table) {
  const std::vector<at::Tensor> parts = qkv.split_with_sizes({s.H * s.E, s.K * s.E, s.K * s.E}, -1);
  const at::Tensor q = heads_of(parts[0], s.H, table);
  const at::Tensor k = heads_of(parts[1], s.K, table).repeat_interleave(s.H / s.K, 1);
  const at::Tensor v = heads_of(parts[2], s.K, {}).repeat_interleave(s.H / s.K, 1);
  const at::Tensor future = at::ones({s.T, s.T}, at::kBool).triu(1);
  const at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(s.E));
  const at::Tensor weights = scores.masked_fill(future, -1e300).softmax(-1);
  return at::matmul(weights, v).transpose(1, 2).flatten(2);
}

double relative_difference(const at::Tensor& got, const at::Tensor& want) {
  return (got.to(at::kDouble) - want).norm().item<double>() / (want.norm().item<double>() + 1e-9);
}

}  // namespace

TEST_CASE("llama's fused attention equals the formula on each machine", "[parity]") {
  const AttentionSizes s = GENERATE(AttentionSizes{2, 1, 2, 2, 4},
                                    AttentionSizes{1, 5, 1, 1, 2},
                                    AttentionSizes{2, 37, 4, 2, 6},
                                    AttentionSizes{1, 32, 3, 1, 16},
                                    AttentionSizes{1, 65, 2, 2, 40},
                                    AttentionSizes{1, 130, 2, 1, 64});
  CAPTURE(s.B, s.T, s.H, s.K, s.E);
  at::Generator generator = at::detail::createCPUGenerator(11);
  const at::Tensor qkv = at::randn({s.B, s.T, (s.H + 2 * s.K) * s.E}, generator);
  const at::Tensor angles = at::rand({s.T, s.E / 2}, generator) * 6.3;
  const at::Tensor table = at::stack({angles.cos(), angles.sin()});
  const at::Tensor grad_y = at::randn({s.B, s.T, s.H * s.E}, generator);
  const AttentionInput in{s, qkv.const_data_ptr<float>(), table.const_data_ptr<float>()};

  const at::Tensor leaf = qkv.to(at::kDouble).requires_grad_();
  const at::Tensor want_y = by_formula(s, leaf, table.to(at::kDouble));
  const at::Tensor want = torch::autograd::grad({want_y}, {leaf}, {grad_y.to(at::kDouble)})[0];
  for (const Kernels& kernels : kernels_of_this_machine()) {
    CAPTURE(kernels.name);
    at::Tensor y = at::full({s.B, s.T, s.H * s.E}, std::nan(""));
    at::Tensor sums = at::full({s.B, s.H, s.T}, std::nan(""));
    at::Tensor got = at::full_like(qkv, std::nan(""));
    std::vector<float> scratch(static_cast<size_t>(kernels.scratch(s)));
    for (int64_t group = 0; group < s.B * s.K; ++group) {
      kernels.forward(
          in, group, y.mutable_data_ptr<float>(), sums.mutable_data_ptr<float>(), scratch.data());
    }
    CHECK(relative_difference(y, want_y.detach()) < 1e-6);
    for (int64_t group = s.B * s.K; group-- > 0;) {
      kernels.backward(in,
                       group,
                       sums.const_data_ptr<float>(),
                       grad_y.const_data_ptr<float>(),
                       got.mutable_data_ptr<float>(),
                       scratch.data());
    }
    CHECK(relative_difference(got, want) < 2e-6);
  }
}

}  // namespace tenon
