// SPDX-License-Identifier: Apache-2.0
//
// tenon::attention and tenon::packed_attention with their options. The oracle is the formula with
// an explicit mask by libtorch's operators and autograd in fp64.
#include "host/kernels/attention.hpp"
#include "host/kernels/kernel_choice.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

struct Shape {
  int64_t B, T, H, K, E;
};

at::Generator generator_of(uint64_t seed) {
  return at::detail::createCPUGenerator(seed);
}

at::Tensor table_of(int64_t positions, int64_t E) {
  const at::Tensor angles = at::rand({positions, E / 2}, generator_of(5)) * 6.3;
  return at::stack({angles.cos(), angles.sin()});
}

// Runs of equal numbers, of lengths that repeat; a number may come back after another.
at::Tensor segments_of(int64_t B, int64_t T) {
  at::Tensor segments = at::empty({B, T}, at::kLong);
  const std::vector<int64_t> lengths = {3, 1, 50, 7, 120, 20};
  for (int64_t b = 0; b < B; ++b) {
    size_t run = static_cast<size_t>(b);
    int64_t left = lengths[run % lengths.size()];
    for (int64_t t = 0; t < T; ++t, --left) {
      if (left == 0) {
        left = lengths[++run % lengths.size()];
      }
      segments.index_put_({at::tensor(b), at::tensor(t)},
                          at::tensor(static_cast<int64_t>(run % 2)));
    }
  }
  return segments;
}

// Row by row, as the contract says it.
at::Tensor mask_of(int64_t B, int64_t T, int64_t S, const AttentionOptions& o) {
  at::Tensor mask = at::zeros({B, 1, T, S}, at::kBool);
  auto sees = mask.accessor<bool, 4>();
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t < T; ++t) {
      if (!o.is_causal) {
        std::fill_n(&sees[b][0][t][0], S, true);
        continue;
      }
      const int64_t last = o.window > 0 ? std::max<int64_t>(0, t - o.window + 1) : 0;
      for (int64_t s = t; s >= last; --s) {
        if (o.segments && s < t &&
            (*o.segments)[b][s].item<int64_t>() != (*o.segments)[b][s + 1].item<int64_t>()) {
          break;
        }
        sees[b][0][t][s] = true;
      }
    }
  }
  return mask;
}

at::Tensor rotated(const at::Tensor& x_BHTE, const std::optional<at::Tensor>& table) {
  if (!table) {
    return x_BHTE;
  }
  const at::Tensor turn = table->narrow(1, 0, x_BHTE.size(2)).to(x_BHTE.scalar_type());
  const std::vector<at::Tensor> half = x_BHTE.chunk(2, -1);
  return at::cat({half[0] * turn[0] - half[1] * turn[1], half[1] * turn[0] + half[0] * turn[1]},
                 -1);
}

at::Tensor by_formula(const at::Tensor& query,
                      const at::Tensor& key,
                      const at::Tensor& value,
                      const AttentionOptions& o) {
  const int64_t shared = query.size(2) / key.size(2);
  const at::Tensor q = rotated(query.transpose(1, 2), o.rotary);
  const at::Tensor k = rotated(key.transpose(1, 2), o.rotary).repeat_interleave(shared, 1);
  const at::Tensor v = value.transpose(1, 2).repeat_interleave(shared, 1);
  at::Tensor scores = at::matmul(q, k.transpose(2, 3)) *
                      o.scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(3))));
  if (o.softcap > 0) {
    scores = o.softcap * (scores / o.softcap).tanh();
  }
  const at::Tensor mask = mask_of(query.size(0), query.size(1), key.size(1), o);
  return at::matmul(scores.masked_fill(mask.logical_not(), -1e300).softmax(-1), v).transpose(1, 2);
}

double relative_difference(const at::Tensor& got, const at::Tensor& want) {
  REQUIRE(got.sizes() == want.sizes());
  return (got.to(at::kDouble) - want).norm().item<double>() / (want.norm().item<double>() + 1.0);
}

// A value and its gradients with respect to `leaves`.
std::vector<at::Tensor> with_grads(const at::Tensor& y,
                                   const std::vector<at::Tensor>& leaves,
                                   const at::Tensor& grad_y) {
  std::vector<at::Tensor> all = torch::autograd::grad({y}, leaves, {grad_y.to(y.scalar_type())});
  all.insert(all.begin(), y.detach());
  return all;
}

struct Operands {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor grad_y;
};

Operands operands_of(const Shape& s, int64_t S) {
  const at::Generator g = generator_of(11);
  return {at::randn({s.B, s.T, s.H, s.E}, g),
          at::randn({s.B, S, s.K, s.E}, g),
          at::randn({s.B, S, s.K, s.E}, g),
          at::randn({s.B, s.T, s.H, s.E}, g)};
}

std::vector<at::Tensor> run(const Operands& x,
                            const AttentionOptions& o,
                            at::ScalarType dtype,
                            decltype(&attention) function) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& operand : {x.query, x.key, x.value}) {
    leaves.push_back(operand.to(dtype, /*non_blocking=*/false, /*copy=*/true).requires_grad_());
  }
  return with_grads(function(leaves[0], leaves[1], leaves[2], o), leaves, x.grad_y);
}

std::vector<at::Tensor> run_packed(const Operands& x,
                                   const AttentionOptions& o,
                                   at::ScalarType dtype) {
  const int64_t H = x.query.size(2);
  const int64_t K = x.key.size(2);
  const at::Tensor qkv =
      at::cat({x.query, x.key, x.value}, 2).flatten(2).to(dtype).requires_grad_();
  std::vector<at::Tensor> both =
      with_grads(packed_attention(qkv, H, K, o), {qkv}, x.grad_y.flatten(2));
  const std::vector<at::Tensor> grads =
      both[1].unflatten(2, {H + 2 * K, -1}).split_with_sizes({H, K, K}, 2);
  return {both[0].unflatten(2, {H, -1}), grads[0], grads[1], grads[2]};
}

void check_near(const std::vector<at::Tensor>& got,
                const std::vector<at::Tensor>& want,
                double most) {
  const std::vector<std::string> names = {"y", "grad_query", "grad_key", "grad_value"};
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(names[i]);
    CHECK(relative_difference(got[i], want[i]) < most);
  }
}

struct Case {
  std::string name;
  AttentionOptions options;
};

std::vector<Case> causal_cases(const Shape& s) {
  const at::Tensor table = table_of(s.T + 3, s.E);  // longer than needed
  const at::Tensor segments = segments_of(s.B, s.T);
  return {
      {"causal", {}},
      {"rotary", {.rotary = table}},
      {"segments", {.segments = segments}},
      {"window 1", {.window = 1}},
      {"window 20", {.window = 20}},
      {"window 1000", {.window = 1000}},
      {"softcap", {.softcap = 1.5}},
      {"scale", {.scale = 0.3}},
      {"rotary, window, softcap, scale",
       {.rotary = table, .window = 70, .softcap = 2.0, .scale = -0.2}},
      {"rotary, segments, window",
       {.rotary = table, .segments = segments.to(at::kInt), .window = 33}},
      {"all", {.rotary = table, .segments = segments, .window = 40, .softcap = 3.0, .scale = 0.4}}};
}

const std::vector<Shape> kShapes = {{2, 1, 2, 2, 2},
                                    {2, 5, 1, 1, 6},
                                    {3, 37, 4, 2, 6},
                                    {1, 65, 3, 1, 40},
                                    {2, 130, 4, 1, 64},
                                    {1, 300, 2, 2, 128},
                                    {2, 300, 2, 1, 2},
                                    {1, 700, 1, 1, 40}};

class PlainKernels {
 public:
  PlainKernels() { set_kernel_policy({.mode = KernelPolicy::Mode::kPlain, .forced = {}}); }
  ~PlainKernels() { set_kernel_policy({}); }
  PlainKernels(const PlainKernels&) = delete;
  PlainKernels& operator=(const PlainKernels&) = delete;
};

}  // namespace

TEST_CASE("attention equals the formula with every mask", "[kernels]") {
  const Shape s = kShapes[GENERATE(range<size_t>(0, kShapes.size()))];
  const Operands x = operands_of(s, s.T);
  for (const auto& [name, options] : causal_cases(s)) {
    CAPTURE(s.B, s.T, s.H, s.K, s.E, name);
    const std::vector<at::Tensor> want = run(x, options, at::kDouble, by_formula);
    check_near(run(x, options, at::kFloat, attention), want, 4e-6);
    check_near(run_packed(x, options, at::kFloat), want, 4e-6);
    // The plain path, in fp64.
    check_near(run(x, options, at::kDouble, attention), want, 1e-12);
    check_near(run_packed(x, options, at::kDouble), want, 1e-12);
  }
}

TEST_CASE("attention without a causal mask equals the formula", "[kernels]") {
  const Shape s = kShapes[GENERATE(range<size_t>(0, kShapes.size()))];
  const std::vector<int64_t> keys = {1, 5, 37, s.T, 2 * s.T + 1};
  const std::vector<Case> cases = {
      {"none", {.is_causal = false}},
      {"softcap and scale", {.softcap = 2.0, .scale = 0.25, .is_causal = false}},
      {"rotary", {.rotary = table_of(s.T, s.E), .is_causal = false}}};
  for (const int64_t S : keys) {
    const Operands x = operands_of(s, S);
    for (const auto& [name, options] : cases) {
      if (options.rotary && S != s.T) {
        continue;
      }
      CAPTURE(s.B, s.T, S, s.H, s.K, s.E, name);
      const std::vector<at::Tensor> want = run(x, options, at::kDouble, by_formula);
      check_near(run(x, options, at::kFloat, attention), want, 4e-6);
      check_near(run(x, options, at::kDouble, attention), want, 1e-12);
      if (S == s.T) {
        check_near(run_packed(x, options, at::kFloat), want, 4e-6);
      }
    }
  }
}

TEST_CASE("attention has the same bits for any number of threads", "[kernels]") {
  // The last two shapes have fewer heads than tasks: the backward is cut by heads and by keys.
  const Shape s = GENERATE(Shape{3, 65, 4, 2, 16},
                           Shape{1, 130, 3, 3, 32},
                           Shape{1, 1200, 4, 1, 8},
                           Shape{1, 1500, 1, 1, 32});
  CAPTURE(s.B, s.T, s.H, s.K, s.E);
  const int threads = at::get_num_threads();
  const Operands x = operands_of(s, s.T);
  const AttentionOptions options{.rotary = table_of(s.T, s.E), .segments = segments_of(s.B, s.T)};
  for (const AttentionOptions& o : {AttentionOptions{}, options}) {
    at::set_num_threads(1);
    const std::vector<at::Tensor> one = run(x, o, at::kFloat, attention);
    const std::vector<at::Tensor> packed = run_packed(x, o, at::kFloat);
    for (const int more : {2, 3}) {
      at::set_num_threads(more);
      const std::vector<at::Tensor> several = run(x, o, at::kFloat, attention);
      const std::vector<at::Tensor> packed_several = run_packed(x, o, at::kFloat);
      for (size_t i = 0; i < one.size(); ++i) {
        CHECK(several[i].equal(one[i]));
        CHECK(packed_several[i].equal(packed[i]));
        CHECK(packed[i].equal(one[i]));
      }
    }
  }
  at::set_num_threads(threads);
}

TEST_CASE("long attention that is cut into tasks equals the formula", "[kernels]") {
  const Shape s = GENERATE(Shape{1, 1200, 4, 1, 40}, Shape{1, 1100, 1, 1, 64});
  CAPTURE(s.T, s.H);
  const Operands x = operands_of(s, s.T);
  const AttentionOptions full{.rotary = table_of(s.T, s.E)};
  const AttentionOptions window{.rotary = full.rotary, .window = 100};
  const AttentionOptions segments{.rotary = full.rotary, .segments = segments_of(s.B, s.T)};
  for (const AttentionOptions& o : {full, window, segments}) {
    const std::vector<at::Tensor> want = run(x, o, at::kDouble, by_formula);
    check_near(run(x, o, at::kFloat, attention), want, 4e-6);
    check_near(run_packed(x, o, at::kFloat), want, 4e-6);
  }
}

TEST_CASE("attention takes strided operands", "[kernels]") {
  const Shape s{2, 37, 4, 2, 6};
  const Operands x = operands_of(s, s.T);
  const AttentionOptions o{.rotary = table_of(s.T, s.E)};
  const std::vector<at::Tensor> want = run(x, o, at::kDouble, by_formula);
  // [B, heads, T, E] in memory; values also with a last axis that is not dense.
  const std::vector<at::Tensor> leaves = {
      x.query.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_(),
      x.key.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_(),
      x.value.transpose(2, 3).contiguous().transpose(2, 3).requires_grad_()};
  check_near(with_grads(attention(leaves[0], leaves[1], leaves[2], o),
                        leaves,
                        x.grad_y.transpose(1, 2).contiguous().transpose(1, 2)),
             want,
             4e-6);
  // A gradient without memory of its own.
  const at::Tensor y = attention(leaves[0], leaves[1], leaves[2], o);
  const std::vector<at::Tensor> dense =
      torch::autograd::grad({y}, leaves, {at::ones_like(y)}, /*retain_graph=*/true);
  const std::vector<at::Tensor> expanded =
      torch::autograd::grad({y}, leaves, {at::ones({1}).expand(y.sizes())});
  for (size_t i = 0; i < leaves.size(); ++i) {
    CHECK(dense[i].equal(expanded[i]));
  }
  // Every second position of a packed tensor.
  const at::Tensor qkv = at::cat({x.query, x.key, x.value}, 2).flatten(2);
  at::Tensor wide = at::zeros({s.B, 2 * s.T, qkv.size(2)});
  wide.slice(1, 0, 2 * s.T, 2).copy_(qkv);
  const at::Tensor strided = wide.slice(1, 0, 2 * s.T, 2);
  CHECK(packed_attention(strided, s.H, s.K, o).equal(packed_attention(qkv, s.H, s.K, o)));
}

TEST_CASE("a query that sees one key has no gradient of its score", "[kernels]") {
  const Shape s{2, 101, 2, 1, 40};
  const Operands x = operands_of(s, s.T);
  const std::vector<at::Tensor> got =
      run(x, {.rotary = table_of(s.T, s.E), .window = 1}, at::kFloat, attention);
  CHECK(got[0].equal(x.value.expand(x.query.sizes())));
  CHECK(got[1].count_nonzero().item<int64_t>() == 0);
  CHECK(got[2].count_nonzero().item<int64_t>() == 0);
}

TEST_CASE("attention stays finite for large scores and shows NaN", "[kernels]") {
  const Shape s{1, 65, 1, 1, 16};
  Operands x = operands_of(s, s.T);
  x.query *= 300.0;
  const std::vector<at::Tensor> want = run(x, {}, at::kDouble, by_formula);
  check_near(run(x, {}, at::kFloat, attention), want, 2e-4);
  x.query[0][40].fill_(std::nan(""));
  const std::vector<at::Tensor> got = run(x, {}, at::kFloat, attention);
  CHECK(got[0][0][40].isnan().all().item<bool>());
  CHECK(got[0][0].narrow(0, 0, 40).isfinite().all().item<bool>());
  CHECK(got[2].isnan().any().item<bool>());
}

TEST_CASE("the gradient of plain attention equals finite differences", "[kernels]") {
  const Shape s{1, 5, 2, 1, 4};
  const Operands x = operands_of(s, s.T);
  const AttentionOptions o{
      .rotary = table_of(s.T, s.E), .segments = segments_of(s.B, s.T), .window = 3, .softcap = 1.5};
  const std::vector<at::Tensor> got = run(x, o, at::kDouble, attention);
  const at::Tensor grad_y = x.grad_y.to(at::kDouble);
  constexpr double kStep = 1e-5;
  for (size_t operand = 0; operand < 3; ++operand) {
    std::vector<at::Tensor> in = {
        x.query.to(at::kDouble), x.key.to(at::kDouble), x.value.to(at::kDouble)};
    const at::Tensor flat = in[operand].view(-1);
    at::Tensor want = at::empty_like(flat);
    for (int64_t i = 0; i < flat.size(0); ++i) {
      flat[i] += kStep;
      const at::Tensor above = attention(in[0], in[1], in[2], o);
      flat[i] -= 2 * kStep;
      const at::Tensor below = attention(in[0], in[1], in[2], o);
      flat[i] += kStep;
      want[i] = ((above - below) * grad_y).sum() / (2 * kStep);
    }
    CHECK(relative_difference(got[operand + 1].flatten(), want) < 1e-7);
  }
}

TEST_CASE("a recipe can ask for plain attention, and dropout has no other", "[kernels]") {
  const Shape s{2, 37, 4, 2, 16};
  const Operands x = operands_of(s, s.T);
  const AttentionOptions o{.rotary = table_of(s.T, s.E), .window = 9};
  const std::vector<at::Tensor> want = run(x, o, at::kDouble, by_formula);
  const PlainKernels plain;
  check_near(run(x, o, at::kFloat, attention), want, 4e-6);
  check_near(run_packed(x, o, at::kFloat), want, 4e-6);
}

TEST_CASE("dropout drops whole weights", "[kernels]") {
  // With one visible key, a result is its value or 0.
  const Shape s{2, 37, 2, 2, 8};
  const Operands x = operands_of(s, s.T);
  const at::Tensor y =
      attention(x.query, x.key, x.value, {.window = 1, .softcap = 2.0, .dropout = 0.25});
  const at::Tensor kept = x.value / 0.75;
  const at::Tensor is_zero = y.eq(0).all(-1);
  CHECK(is_zero.any().item<bool>());
  CHECK(is_zero.logical_or((y - kept).abs().lt(1e-5).all(-1)).all().item<bool>());
}

TEST_CASE("attention rotates a part of heads, by given positions, and takes narrow values",
          "[kernels]") {
  const Shape s = GENERATE(Shape{2, 37, 4, 2, 6}, Shape{1, 130, 3, 1, 40}, Shape{3, 65, 2, 2, 64});
  CAPTURE(s.B, s.T, s.H, s.K, s.E);
  Operands x = operands_of(s, s.T);
  const int64_t value_width = s.E / 2 - 1;
  x.value = x.value.narrow(3, 0, value_width);
  x.grad_y = x.grad_y.narrow(3, 0, value_width);
  const int64_t rotated_width = s.E / 4 * 2;
  const at::Tensor table = table_of(s.T + 9, rotated_width);
  const at::Tensor positions =
      (at::arange(s.B * s.T, at::kLong) * 5).remainder(s.T + 9).view({s.B, s.T});
  const AttentionOptions o{
      .rotary = table, .positions = positions, .segments = segments_of(s.B, s.T)};
  // Rotates by position and concatenates, sample by sample; then no rotation is left.
  const auto formula = [&](const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const AttentionOptions& given) {
    const auto turned = [&](const at::Tensor& of) {
      std::vector<at::Tensor> samples;
      for (int64_t b = 0; b < s.B; ++b) {
        const at::Tensor rows = given.rotary->index_select(1, (*given.positions)[b]);
        samples.push_back(
            rotated(of[b].unsqueeze(0).narrow(3, 0, rotated_width).transpose(1, 2), rows)
                .transpose(1, 2));
      }
      return at::cat({at::cat(samples), of.narrow(3, rotated_width, s.E - rotated_width)}, 3);
    };
    return by_formula(turned(q), turned(k), v, {.segments = given.segments});
  };
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& operand : {x.query, x.key, x.value}) {
    leaves.push_back(operand.to(at::kDouble).detach().clone().requires_grad_());
  }
  const std::vector<at::Tensor> expected =
      with_grads(formula(leaves[0], leaves[1], leaves[2], o), leaves, x.grad_y);
  check_near(run(x, o, at::kFloat, attention), expected, 4e-6);
  check_near(run(x, o, at::kDouble, attention), expected, 1e-12);
  const PlainKernels plain;
  check_near(run(x, o, at::kFloat, attention), expected, 4e-6);
}

TEST_CASE("attention names the shapes that do not match", "[kernels]") {
  const Operands x = operands_of({2, 5, 4, 2, 6}, 5);
  const at::Tensor longer = at::zeros({2, 7, 2, 6});
  const auto fails = [](const Operands& in, const AttentionOptions& o, const std::string& message) {
    CHECK_THROWS_WITH(attention(in.query, in.key, in.value, o), contains_text(message));
  };
  fails({x.query, at::zeros({2, 5, 3, 6}), at::zeros({2, 5, 3, 6}), {}}, {}, "K divides H");
  fails({x.query, x.key, longer, {}}, {}, "must be [B, T, H, E]");
  fails({x.query[0], x.key, x.value, {}}, {}, "must be [B, T, H, E]");
  fails({x.query, longer, longer, {}}, {}, "needs as many keys as queries");
  fails(x, {.window = 3, .is_causal = false}, "need a causal mask");
  fails(x, {.window = -1}, "must not be negative");
  fails(x, {.softcap = -1.0}, "must not be negative");
  fails(x, {.dropout = 1.0}, "must be in [0, 1)");
  fails(x, {.segments = at::zeros({2, 6}, at::kLong)}, "must be [B, T]");
  fails(x, {.segments = at::zeros({2, 5})}, "integers");
  fails(x, {.rotary = at::zeros({2, 4, 3})}, "must be [2, at least T, at most E/2]");
  fails(x, {.rotary = at::zeros({2, 5, 4})}, "must be [2, at least T, at most E/2]");
  fails(x, {.positions = at::zeros({2, 5}, at::kLong)}, "positions need a rotation");
  fails(x,
        {.rotary = at::zeros({2, 5, 3}), .positions = at::zeros({2, 4}, at::kLong)},
        "positions [2, 4] of Long must be [2, 5], integers");
  fails(x,
        {.rotary = at::zeros({2, 5, 3}), .positions = at::full({2, 5}, 5, at::kLong)},
        "position 5 at [0, 0] is not in [0, 5)");
  CHECK_THROWS_WITH(packed_attention(at::zeros({2, 5, 47}), 4, 2, {}),
                    contains_text("(H + 2 K) E"));
  CHECK_THROWS_WITH(packed_attention(at::zeros({2, 5}), 4, 2, {}), contains_text("(H + 2 K) E"));
}

}  // namespace tenon
