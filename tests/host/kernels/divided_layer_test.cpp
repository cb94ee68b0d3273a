// SPDX-License-Identifier: Apache-2.0
//
// Whole layers, divided among ranks that are threads, against the same layer on one rank in fp64:
// outputs, gradients of inputs and of all parameters.
#include "tests/host/kernels/divided_layer.hpp"

#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/op_service.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/host/kernels/operator_run.hpp"
#include "tests/host/kernels/region_rig.hpp"

namespace tenon {
namespace {

// The ranges of the split axis that a rank of `size` has, by part.
struct Range {
  int64_t begin, size;
};

std::vector<Range> ranges_of(const LayerParameter& p, int64_t rank, int64_t size) {
  std::vector<Range> ranges;
  int64_t begin = 0;
  for (size_t i = 0; i < p.parts.size(); ++i) {
    const int64_t n = p.parts[i];
    const int64_t u = p.units[i];
    expect(u % size == 0 || size % u == 0, "ranks divide units");
    ranges.push_back(u >= size ? Range{begin + n / size * rank, n / size}
                               : Range{begin + n / u * (rank * u / size), n / u});
    begin += n;
  }
  return ranges;
}

at::Tensor part_of(const at::Tensor& x, const LayerParameter& p, const TensorRegionPtr& region) {
  if (p.axis < 0) {
    return x;
  }
  Tensors parts;
  for (const Range& r : ranges_of(p, rank_of(region), region->ranks->size())) {
    parts.push_back(x.narrow(p.axis, r.begin, r.size));
  }
  return at::cat(parts, p.axis);
}

struct Case {
  LayerInputs in;
  at::Tensor grad_y;
  Parameters parameters;
};

// B = 2 samples of T positions in fp64; a long sample has two documents.
Case case_of(const LayerOptions& o, int64_t T) {
  Case c;
  c.in.x_BTD = made(1, {2, T, o.D});
  c.grad_y = made(2, {2, T, o.D});
  c.in.positions_BT = at::arange(T, at::kLong).expand({2, T}).clone();
  c.in.segments_BT = at::zeros({2, T}, at::kLong);
  if (T > 4) {
    c.in.segments_BT.select(0, 0).narrow(0, 4, T - 4).fill_(1);
    c.in.positions_BT.select(0, 0).narrow(0, 4, T - 4).sub_(4);
  }
  const at::Tensor angles = made(3, {16, o.E / 2});
  c.in.table = at::stack({angles.cos(), angles.sin()});
  uint64_t seed = 10;
  for (const LayerParameter& p : layer_parameters(o)) {
    const at::Tensor values = made(++seed, p.shape);
    c.parameters[p.name] = p.is_norm ? 1.0 + 0.2 * values : 0.3 * values;
  }
  return c;
}

struct Setting {
  uint32_t ranks = 1;
  bool has_pieces = false;
  bool has_autocast = false;
  bool is_recomputed = false;
  bool is_backward_elsewhere = false;
  at::ScalarType dtype = at::kDouble;
};

// As even as possible, longer pieces first.
Lengths pieces_of(int64_t T, uint32_t ranks) {
  Lengths pieces;
  for (int64_t r = 0; r < ranks; ++r) {
    pieces.push_back(T / ranks + (r < T % ranks ? 1 : 0));
  }
  return pieces;
}

at::Tensor layer_output(const LayerOptions& o,
                        const Parameters& p,
                        const LayerInputs& in,
                        bool has_autocast) {
  std::optional<Autocast> autocast;
  if (has_autocast) {
    autocast.emplace();
  }
  return decoder_layer(o, p, in);
}

// What a rank computes: the output, the gradient of x, and those of the parameters in order.
Tensors run_rank(const LayerOptions& o,
                 const Case& c,
                 const Setting& s,
                 const TensorRegionPtr& region) {
  const auto held = [&](const at::Tensor& x) { return held_by(region, x); };
  LayerInputs in{held(c.in.x_BTD).to(s.dtype).detach().clone().requires_grad_(),
                 held(c.in.positions_BT),
                 held(c.in.segments_BT),
                 c.in.table.to(s.dtype)};
  Parameters parameters;
  Tensors leaves = {in.x_BTD};
  for (const LayerParameter& p : layer_parameters(o)) {
    leaves.push_back(part_of(c.parameters.at(p.name), p, region).to(s.dtype).detach().clone());
    parameters[p.name] = leaves.back().requires_grad_();
  }
  at::Tensor first;
  if (s.is_recomputed) {
    const at::NoGradGuard no_grad;
    first = layer_output(o, parameters, in, s.has_autocast);
  }
  const at::Tensor y = layer_output(o, parameters, in, s.has_autocast);
  expect(!first.defined() || first.equal(y), "the same output is computed again");
  Tensors out = {y.detach()};
  const auto backward = [&] {
    for (at::Tensor& grad :
         torch::autograd::grad({y}, leaves, {held(c.grad_y).to(y.scalar_type())})) {
      out.push_back(std::move(grad));
    }
  };
  if (s.is_backward_elsewhere) {
    std::jthread(backward).join();
  } else {
    backward();
  }
  return out;
}

// The gradient of a parameter as its optimizer sees it on `rank`.
at::Tensor whole_gradient(const LayerParameter& p,
                          const Tensors& of_ranks,
                          const Setting& s,
                          size_t rank) {
  if (p.axis < 0 && !p.is_inside && !s.has_pieces) {
    return of_ranks[rank];
  }
  at::Tensor sum = at::zeros(p.shape, of_ranks[0].options());
  for (size_t r = 0; r < of_ranks.size(); ++r) {
    if (p.axis < 0) {
      sum.add_(of_ranks[r]);
      continue;
    }
    int64_t from = 0;
    for (const Range& range : ranges_of(p, static_cast<int64_t>(r), s.ranks)) {
      sum.narrow(p.axis, range.begin, range.size)
          .add_(of_ranks[r].narrow(p.axis, from, range.size));
      from += range.size;
    }
  }
  return sum;
}

Tensors run_layer(TensorBoard& board, const LayerOptions& o, const Case& c, const Setting& s) {
  const Lengths pieces = s.has_pieces ? pieces_of(c.in.x_BTD.size(1), board.size()) : Lengths{};
  const std::vector<Tensors> got = in_regions(
      board, pieces, [&](const TensorRegionPtr& region) { return run_rank(o, c, s, region); });
  const auto at_rank = [&](size_t i) {
    Tensors all;
    for (const Tensors& of_rank : got) {
      all.push_back(of_rank[i]);
    }
    return all;
  };
  Tensors out;
  for (size_t i = 0; i < 2; ++i) {  // the output, and the gradient of x
    out.push_back(s.has_pieces ? at::cat(at_rank(i), 1) : got[0][i]);
    for (size_t r = 1; r < got.size() && !s.has_pieces; ++r) {
      CHECK(got[r][i].equal(out.back()));
    }
  }
  const std::vector<LayerParameter> parameters = layer_parameters(o);
  for (size_t i = 0; i < parameters.size(); ++i) {
    out.push_back(whole_gradient(parameters[i], at_rank(2 + i), s, 0));
    for (size_t r = 1; r < got.size(); ++r) {
      CHECK(whole_gradient(parameters[i], at_rank(2 + i), s, r).equal(out.back()));
    }
  }
  return out;
}

Tensors run_layer(const LayerOptions& o, const Case& c, const Setting& s) {
  TensorBoard board(s.ranks);
  return run_layer(board, o, c, s);
}

// Kinds of layers that any of these numbers of ranks divides.
std::vector<LayerOptions> layers_for(uint32_t ranks) {
  std::vector<LayerOptions> all = {
      {.name = "as many key heads as ranks", .K = ranks},
      {.name = "a key head for each query head", .K = 12},
      {.name = "one key head", .K = 1},
      {.name = "fused", .K = 1, .is_fused = true},
      {.name = "fused, 12 key heads", .K = 12, .is_fused = true},
      {.name = "biases, gelu", .K = 1, .is_gated = false},
      {.name = "norms by head", .K = 1, .norm = QkNorm::kHead},
      {.name = "norms by width", .K = 12, .norm = QkNorm::kWidth},
      {.name = "shared head, norms by width", .K = 1, .norm = QkNorm::kWidth},
      {.name = "latent", .is_latent = true}};
  if (ranks == 4) {
    all.push_back({.name = "fewer key heads than ranks", .K = 2, .norm = QkNorm::kWidth});
    all.push_back({.name = "fused, fewer key heads", .K = 2, .is_fused = true});
  }
  return all;
}

double bound_of(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-12 : 2e-5;  // 170 epsilons of fp32
}

}  // namespace

TEST_CASE("a divided layer equals the layer on one rank", "[parity]") {
  const uint32_t ranks = GENERATE(2u, 3u, 4u);
  const bool has_pieces = GENERATE(false, true);
  for (const LayerOptions& o : layers_for(ranks)) {
    for (const int64_t T : {8, 7, 3, 1}) {  // with pieces, some ranks have no positions
      const Case c = case_of(o, T);
      const Tensors want = run_layer(o, c, {.ranks = 1});
      for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
        CAPTURE(ranks, has_pieces, o.name, T, dtype);
        const Setting s{.ranks = ranks,
                        .has_pieces = has_pieces,
                        .is_recomputed = T == 7,
                        .is_backward_elsewhere = T == 3,
                        .dtype = dtype};
        check_near(run_layer(o, c, s), want, bound_of(dtype));
      }
    }
  }
}

TEST_CASE("a divided layer with libtorch's kernels equals the layer on one rank", "[parity]") {
  const PolicyScope plain(all_kernels("plain"));
  const bool has_pieces = GENERATE(false, true);
  for (const LayerOptions& o : layers_for(4)) {
    CAPTURE(has_pieces, o.name);
    const Case c = case_of(o, 7);
    const Setting s{.ranks = 4, .has_pieces = has_pieces, .dtype = at::kFloat};
    check_near(run_layer(o, c, s), run_layer(o, c, {.ranks = 1}), bound_of(at::kFloat));
  }
}

TEST_CASE("under autocast, a divided layer errs as on one rank", "[parity]") {
  const uint32_t ranks = GENERATE(2u, 4u);
  const bool has_pieces = GENERATE(false, true);
  const LayerOptions o{.name = "wide", .D = 64, .H = 8, .K = 2, .E = 16, .F = 128};
  const Case c = case_of(o, 13);
  const Tensors want = run_layer(o, c, {.ranks = 1});
  const Setting one{.ranks = 1, .has_autocast = true, .dtype = at::kFloat};
  Setting many = one;
  many.ranks = ranks;
  many.has_pieces = has_pieces;
  const Tensors whole = run_layer(o, c, one);
  const Tensors got = run_layer(o, c, many);
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(ranks, has_pieces, i);
    CHECK(relative_difference(got[i], want[i]) < 1.5 * relative_difference(whole[i], want[i]));
  }
}

TEST_CASE("a divided layer sends what enters and leaves, in one order", "[kernels]") {
  const LayerOptions o{.name = "plain", .K = 2};
  const Case c = case_of(o, 7);
  TensorBoard board(2);
  run_layer(board, o, c, {.ranks = 2});
  const std::string block = "block 'layers.3', ";
  CHECK(board.calls() == std::vector<std::string>{block + "tensor_out 4",
                                                  block + "tensor_out 6",
                                                  block + "backward of tensor_in 5",
                                                  block + "backward of tensor_in 3"});
  CHECK(board.elements() == 4 * 2 * 7 * o.D);
}

// ---- the lane of C: operators by the service `tenon.op/1`, with a backward by hand ----

namespace {

tenon_any argument(const at::Tensor& x) {
  tenon_any any = {};
  any.tag = TENON_ANY_TENSOR;
  any.v.tensor = const_cast<tenon_tensor*>(borrow(x));
  return any;
}

at::Tensor call(const char* name, const Tensors& tensors) {
  const tenon_op* op = nullptr;
  throw_if_failed(op_service()->find(nullptr, name, &op));
  std::vector<tenon_any> in;
  for (const at::Tensor& x : tensors) {
    in.push_back(argument(x));
  }
  tenon_any result = {};
  size_t num = 1;
  throw_if_failed(op_service()->call(nullptr, op, in.data(), in.size(), &result, &num));
  return take_handle(result.v.tensor);
}

}  // namespace

TEST_CASE("a backward by hand calls the other border", "[kernels]") {
  const Lengths pieces = GENERATE(values<Lengths>({{}, {3, 2}, {5, 0}}));
  CAPTURE(pieces);
  const Tensors values = {made(1, {1, 5, 4}), made(2, {6, 4}), made(3, {4, 6})};
  const at::Tensor grad_y = made(4, {1, 5, 4});
  // y = (x up^T)^2 down^T
  const Tensors leaves = leaves_of(values, at::kDouble);
  const at::Tensor want = at::linear(at::linear(leaves[0], leaves[1]).square(), leaves[2]);
  const Tensors grads = torch::autograd::grad({want}, leaves, {grad_y});
  const auto got = in_regions(2, pieces, [&](const TensorRegionPtr& region) -> Tensors {
    const at::NoGradGuard no_grad;
    const at::Tensor up = values[1].narrow(0, 3 * rank_of(region), 3);
    const at::Tensor down = values[2].narrow(1, 3 * rank_of(region), 3);
    const at::Tensor h = call("tenon::tensor_in", {held_by(region, values[0])});
    const at::Tensor a = call("aten::linear", {h, up});
    const at::Tensor y =
        call("tenon::tensor_out", {call("aten::linear", {call("aten::square", {a}), down})});
    const at::Tensor grad_out = call("tenon::tensor_in", {held_by(region, grad_y)});
    const at::Tensor grad_a =
        2.0 * call("aten::mul.Tensor", {a, call("aten::matmul", {grad_out, down})});
    const at::Tensor grad_x = call("tenon::tensor_out", {call("aten::matmul", {grad_a, up})});
    return {y,
            grad_x,
            grad_a.flatten(0, 1).t().mm(h.flatten(0, 1)),
            grad_out.flatten(0, 1).t().mm(a.square().flatten(0, 1)),
            held_by(region, want.detach()),
            held_by(region, grads[0])};
  });
  for (size_t r = 0; r < 2; ++r) {
    const auto rank = static_cast<int64_t>(r);
    check_near(
        {got[r].begin(), got[r].begin() + 4},
        {got[r][4], got[r][5], grads[1].narrow(0, 3 * rank, 3), grads[2].narrow(1, 3 * rank, 3)},
        1e-12);
  }
}

}  // namespace tenon
