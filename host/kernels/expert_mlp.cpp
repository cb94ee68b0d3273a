// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/expert_mlp.hpp"

#include "host/kernels/autocast.hpp"
#include "host/kernels/first_order.hpp"
#include "host/kernels/fused.hpp"
#include "host/kernels/kept_input.hpp"
#include "host/kernels/linear.hpp"
#include "host/kernels/products.hpp"
#include "host/kernels/row_math.hpp"
#include "host/kernels/swiglu.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Pairs of a token and one of its experts, grouped by expert. Pair p belongs to token p / k. Within
// an expert, pairs keep their order.
struct Groups {
  at::Tensor pairs;            // [N k], the pair at each position
  at::Tensor positions;        // [N k], the position of each pair
  std::vector<int64_t> begin;  // [X + 1], the first position of each expert
};

Groups group(const at::Tensor& experts_in, int64_t num_experts) {
  const at::Tensor experts = experts_in.to(at::kCPU, at::kLong).contiguous();
  const int64_t num_pairs = experts.numel();
  const int64_t per_token = experts.size(1);
  const int64_t* const expert = experts.const_data_ptr<int64_t>();
  Groups g{.pairs = at::empty({num_pairs}, at::kLong),
           .positions = at::empty({num_pairs}, at::kLong),
           .begin = std::vector<int64_t>(static_cast<size_t>(num_experts + 1))};
  for (int64_t p = 0; p < num_pairs; ++p) {
    TORCH_CHECK_INDEX(expert[p] >= 0 && expert[p] < num_experts,
                      "tenon::expert_mlp: expert ",
                      expert[p],
                      " at [",
                      p / per_token,
                      ", ",
                      p % per_token,
                      "] is not in [0, ",
                      num_experts,
                      ")");
    ++g.begin[static_cast<size_t>(expert[p] + 1)];
  }
  for (size_t i = 1; i < g.begin.size(); ++i) {
    g.begin[i] += g.begin[i - 1];
  }
  std::vector<int64_t> next = g.begin;
  auto* const pairs = g.pairs.mutable_data_ptr<int64_t>();
  auto* const positions = g.positions.mutable_data_ptr<int64_t>();
  for (int64_t p = 0; p < num_pairs; ++p) {
    const int64_t position = next[static_cast<size_t>(expert[p])]++;
    pairs[position] = p;
    positions[p] = position;
  }
  return g;
}

// Calls run(expert, first position, number of positions) for each expert that has tokens.
template <class Run>
void for_each_expert(const Groups& g, const Run& run) {
  for (size_t i = 0; i + 1 < g.begin.size(); ++i) {
    const int64_t num = g.begin[i + 1] - g.begin[i];
    if (num > 0) {
      run(static_cast<int64_t>(i), g.begin[i], num);
    }
  }
}

constexpr int64_t kGrain = 64;  // rows per task

// y[n] = sum of the rows of token n, which are at `positions`. The order is that of its experts.
at::Tensor sum_by_token(const at::Tensor& rows, const at::Tensor& positions, int64_t num_tokens) {
  const int64_t width = rows.size(1);
  const int64_t per_token = positions.numel() / num_tokens;
  at::Tensor y = at::empty({num_tokens, width}, rows.options());
  const float* const from = rows.const_data_ptr<float>();
  const int64_t* const position = positions.const_data_ptr<int64_t>();
  float* const out = y.mutable_data_ptr<float>();
  at::parallel_for(0, num_tokens, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      sum_selected_rows(from, position + n * per_token, per_token, width, out + n * width);
    }
  });
  return y;
}

// With silu in fp32. Weights enter before the last product, so that the sum over the experts of a
// token is a sum of rows. Backward gathers the rows of x again instead of keeping them.
class ExpertMlp : public torch::autograd::Function<ExpertMlp> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x_in,
                            const at::Tensor& gate,
                            const at::Tensor& up,
                            const at::Tensor& down,
                            const at::Tensor& experts,
                            const at::Tensor& weights_in) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor x = x_in.contiguous();
    const at::Tensor weights = weights_in.contiguous();
    const Groups g = group(experts, gate.size(0));
    const int64_t num_tokens = x.size(0);
    const at::Tensor tokens = at::floor_divide(g.pairs, experts.size(1));
    const at::Tensor weight = weights.view({-1}).index_select(0, g.pairs).unsqueeze(1);
    const at::Tensor gate_up = at::empty({g.pairs.numel(), 2 * gate.size(1)}, x.options());
    const at::Tensor out = at::empty({g.pairs.numel(), down.size(1)}, x.options());
    for_each_expert(g, [&](int64_t i, int64_t first, int64_t num) {
      const at::Tensor rows = x.index_select(0, tokens.narrow(0, first, num));
      const at::Tensor h = gate_up.narrow(0, first, num);
      h.copy_(product_forward(rows, {gate[i], up[i]}, {}));
      const at::Tensor fed = swiglu(h).mul_(weight.narrow(0, first, num));
      out.narrow(0, first, num).copy_(product_forward(fed, down[i], {}));
    });
    torch::autograd::variable_list saved = {gate, up, down, experts, weights, gate_up};
    keep_input(*context, x, true, saved);
    context->save_for_backward(std::move(saved));
    return sum_by_token(out, g.positions, num_tokens);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("expert_mlp");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& gate = saved[0];
    const at::Tensor& up = saved[1];
    const at::Tensor& down = saved[2];
    const at::Tensor& experts = saved[3];
    const at::Tensor& gate_up = saved[5];
    const at::Tensor x = kept_input(*context, saved, 6);
    const at::Tensor grad_y = grads[0].contiguous();
    const Groups g = group(experts, gate.size(0));
    const int64_t inner = gate.size(1);
    const at::Tensor tokens = at::floor_divide(g.pairs, experts.size(1));
    const at::Tensor weight = saved[4].view({-1}).index_select(0, g.pairs).unsqueeze(1);
    // Experts without tokens have zero gradients.
    const at::Tensor grad_gate = at::zeros(gate.sizes(), gate.options());
    const at::Tensor grad_up = at::zeros(up.sizes(), up.options());
    const at::Tensor grad_down = at::zeros(down.sizes(), down.options());
    const at::Tensor grad_rows = at::empty({g.pairs.numel(), x.size(1)}, x.options());
    const at::Tensor grad_weight = at::empty({g.pairs.numel()}, x.options());
    for_each_expert(g, [&](int64_t i, int64_t first, int64_t num) {
      const at::Tensor of = tokens.narrow(0, first, num);
      const at::Tensor w = weight.narrow(0, first, num);
      const at::Tensor h = gate_up.narrow(0, first, num);
      const at::Tensor by_y = grad_y.index_select(0, of);
      const at::Tensor fed = swiglu(h);
      const at::Tensor by_fed = product_grad_input(by_y, down[i]);
      grad_weight.narrow(0, first, num).copy_((by_fed * fed).sum(1));
      grad_down[i].copy_(product_grad_weight(by_y, fed.mul_(w)));
      const at::Tensor by_h = swiglu_grad(h, by_fed.mul(w));
      grad_rows.narrow(0, first, num).copy_(product_grad_input(by_h, {gate[i], up[i]}));
      const at::Tensor both = product_grad_weight(by_h, x.index_select(0, of));
      grad_gate[i].copy_(both.narrow(0, 0, inner));
      grad_up[i].copy_(both.narrow(0, inner, inner));
    });
    return {sum_by_token(grad_rows, g.positions, x.size(0)),
            grad_gate,
            grad_up,
            grad_down,
            at::Tensor(),
            grad_weight.index_select(0, g.positions).view(experts.sizes())};
  }
};

// By libtorch's operators.
at::Tensor plain_expert_mlp(const at::Tensor& x,
                            const at::Tensor& gate,
                            const at::Tensor& up,
                            const at::Tensor& down,
                            const at::Tensor& experts,
                            const at::Tensor& weights,
                            std::string_view activation) {
  const Groups g = group(experts, gate.size(0));
  const at::Tensor pairs = g.pairs.to(x.device());
  const at::Tensor positions = g.positions.to(x.device());
  const at::Tensor tokens = at::floor_divide(pairs, experts.size(1));
  const at::Tensor weight = weights.reshape({-1}).index_select(0, pairs).unsqueeze(1);
  std::vector<at::Tensor> out;
  for_each_expert(g, [&](int64_t i, int64_t first, int64_t num) {
    const at::Tensor rows = x.index_select(0, tokens.narrow(0, first, num));
    const at::Tensor fed =
        activated(at::linear(rows, gate[i]), activation) * at::linear(rows, up[i]);
    out.push_back(at::linear(fed, down[i]) * weight.narrow(0, first, num).to(x.scalar_type()));
  });
  return at::cat(out)
      .index_select(0, positions)
      .view({x.size(0), experts.size(1), down.size(1)})
      .sum(1);
}

}  // namespace

at::Tensor expert_mlp(const at::Tensor& x_in,
                      const at::Tensor& gate_in,
                      const at::Tensor& up_in,
                      const at::Tensor& down_in,
                      const at::Tensor& experts,
                      const at::Tensor& weights,
                      std::string_view activation) {
  TORCH_CHECK(x_in.dim() == 2 && gate_in.dim() == 3 && gate_in.sizes() == up_in.sizes() &&
                  gate_in.size(2) == x_in.size(1) && down_in.dim() == 3 &&
                  down_in.size(0) == gate_in.size(0) && down_in.size(2) == gate_in.size(1),
              "tenon::expert_mlp: x ",
              x_in.sizes(),
              ", gate ",
              gate_in.sizes(),
              ", up ",
              up_in.sizes(),
              " and down ",
              down_in.sizes(),
              " must be [N, D], [X, F, D], [X, F, D] and [X, D2, F]");
  TORCH_CHECK(experts.dim() == 2 && experts.size(0) == x_in.size(0) && experts.size(1) > 0 &&
                  weights.sizes() == experts.sizes() &&
                  at::isIntegralType(experts.scalar_type(), /*includeBool=*/false),
              "tenon::expert_mlp: experts ",
              experts.sizes(),
              " of ",
              experts.scalar_type(),
              " and weights ",
              weights.sizes(),
              " must be [N, k] of x ",
              x_in.sizes(),
              ", with integers for experts");
  if (x_in.size(0) == 0) {
    return at::empty({0, down_in.size(1)}, x_in.options());
  }
  const AutocastCopies copies(x_in);
  const at::Tensor x = copies.of(x_in);
  const at::Tensor gate = copies.of(gate_in);
  const at::Tensor up = copies.of(up_in);
  const at::Tensor down = copies.of(down_in);
  if (activation == "silu" && is_fused("gated_mlp", x) && gate.scalar_type() == at::kFloat &&
      weights.scalar_type() == at::kFloat && gate.numel() > 0 && down.numel() > 0) {
    return ExpertMlp::apply(x, gate, up, down, experts, weights);
  }
  return plain_expert_mlp(x, gate, up, down, experts, weights, activation);
}

}  // namespace tenon
