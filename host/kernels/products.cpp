// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/products.hpp"

#include "host/kernels/kernel_choice.hpp"
#include "host/kernels/own_product.hpp"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// ---- oneDNN ----

std::optional<c10::OperatorHandle> find_one_dnn() {
  auto op = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
  const bool usable = op.has_value() && at::globalContext().hasMKLDNN() &&
                      op->hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
                      op->schema().arguments().size() == 6;
  return usable ? std::optional<c10::OperatorHandle>(*op) : std::nullopt;
}

const std::optional<c10::OperatorHandle>& one_dnn() {
  static const std::optional<c10::OperatorHandle> found = find_one_dnn();
  return found;
}

bool has_one_dnn() {
  return one_dnn().has_value() && at::globalContext().userEnabledMkldnn();
}

// y = x w^T + b for any strides. Copies its first operand if that is not dense.
at::Tensor by_one_dnn(const at::Tensor& x_MK,
                      const at::Tensor& w_NK,
                      const std::optional<at::Tensor>& b_N) {
  torch::jit::Stack stack;
  stack.reserve(6);
  stack.emplace_back(x_MK);
  stack.emplace_back(w_NK);
  stack.emplace_back(b_N);
  stack.emplace_back(std::string("none"));
  stack.emplace_back(c10::List<std::optional<at::Scalar>>());
  stack.emplace_back();
  one_dnn()->callBoxed(&stack);
  return std::move(stack[0]).toTensor();
}

// ---- classes of shapes ----

// Larger products behave as these, and take about a millisecond.
constexpr int64_t kMostRows = 256;
constexpr int64_t kMostWidth = 512;
// A oneDNN call costs some microseconds more than a BLAS call, and vectors gain nothing.
constexpr int64_t kLeastSide = 8;
constexpr int64_t kLeastProducts = 1 << 20;

// In the order of `Fp32`.
constexpr std::array<std::string_view, 4> kFp32 = {"mkl", "onednn", "tenon", "onednn_transposed"};
enum Fp32 : size_t { kMkl, kOneDnn, kOwn, kOneDnnTransposed };
constexpr std::span kForward = std::span(kFp32).first<3>();
// bf16: where the processor has no bf16 products, fp32 ones of wide copies are faster.
constexpr std::array<std::string_view, 2> kNarrow = {"native", "widened"};

at::Tensor widened(const at::Tensor& x) {
  return x.to(at::kFloat);
}

// ---- the products, by candidate ----

at::Tensor forward_by(size_t candidate,
                      const at::Tensor& x,
                      const at::Tensor& w,
                      const std::optional<at::Tensor>& b) {
  if (x.scalar_type() == at::kBFloat16) {
    if (candidate == 0) {
      return at::linear(x, w, b);
    }
    const std::optional<at::Tensor> bias = b ? std::optional(widened(*b)) : std::nullopt;
    return at::linear(widened(x), widened(w), bias).to(at::kBFloat16);
  }
  switch (candidate) {
    case kOneDnn:
      return by_one_dnn(x, w, b);
    case kOwn:
      return own_product(x, w.t(), b);
    default:
      return b ? at::addmm(*b, x, w.t()) : at::mm(x, w.t());
  }
}

at::Tensor grad_input_by(size_t candidate, const at::Tensor& g, const at::Tensor& w) {
  if (g.scalar_type() == at::kBFloat16) {
    return candidate == 0 ? at::mm(g, w) : at::mm(widened(g), widened(w)).to(at::kBFloat16);
  }
  switch (candidate) {
    case kOneDnn:
      return by_one_dnn(g, w.t(), std::nullopt);
    case kOwn:
      return own_product(g, w, std::nullopt);
    default:
      return at::mm(g, w);
  }
}

at::Tensor grad_weight_by(size_t candidate, const at::Tensor& g, const at::Tensor& x) {
  if (g.scalar_type() == at::kBFloat16) {
    return candidate == 0 ? at::mm(g.t(), x) : at::mm(widened(g).t(), widened(x)).to(at::kBFloat16);
  }
  switch (candidate) {
    case kOneDnn:
      return by_one_dnn(g.t(), x.t(), std::nullopt);
    case kOneDnnTransposed:
      return by_one_dnn(x.t(), g.t(), std::nullopt).t();
    case kOwn:
      return own_product(g.t(), x, std::nullopt);
    default:
      return at::mm(g.t(), x);
  }
}

// ---- the choice ----

struct Shape {
  int64_t M;
  int64_t N;
  int64_t K;
};

bool is_worth_a_choice(const Shape& s) {
  return std::min({s.M, s.N, s.K}) >= kLeastSide && s.M * s.N * s.K >= kLeastProducts;
}

// Products of few rows, as in generation, take as long as reading w. Libraries read it at a third
// of the memory's rate (MKL on AMD), and a small measurement would not show that, since it runs in
// cache. So these need no choice.
bool is_own_by_rule(const at::Tensor& x_MK, const at::Tensor& w_NK) {
  return x_MK.size(0) <= kFewRows && x_MK.device().is_cpu() && x_MK.scalar_type() == at::kFloat &&
         w_NK.scalar_type() == at::kFloat && !at::GradMode::is_enabled() && !is_plain("linear") &&
         !kernel_policy().forced.contains("linear") && x_MK.numel() > 0 && w_NK.numel() > 0 &&
         is_of_few_rows(x_MK, w_NK.t());
}

at::Tensor filled(int64_t rows, int64_t columns, at::ScalarType dtype) {
  return at::full({rows, columns}, 0.5, at::dtype(dtype));
}

using Operands = std::pair<at::Tensor, at::Tensor>;

// Returns the candidate for a product with the dtype and device of x. `operands(shape)` makes
// operands to measure with; `compute(candidate, first, second)` is the product.
template <class MakeOperands, class Compute>
size_t choose(std::string_view op,
              std::span<const std::string_view> candidates,
              const at::Tensor& x,
              const Shape& s,
              const MakeOperands& operands,
              const Compute& compute) {
  const at::ScalarType dtype = x.scalar_type();
  if (!x.device().is_cpu() || at::GradMode::is_enabled() || std::min({s.M, s.N, s.K}) == 0) {
    return 0;
  }
  if (dtype == at::kBFloat16) {
    candidates = kNarrow;
  } else if (dtype != at::kFloat || !has_one_dnn() || is_plain("linear") || !is_worth_a_choice(s)) {
    return 0;
  }
  const Shape of_class{
      size_class(s.M, kMostRows), size_class(s.N, kMostWidth), size_class(s.K, kMostWidth)};
  const KernelQuestion question{.op = op,
                                .dtype = dtype,
                                .sizes = {of_class.M, of_class.N, of_class.K},
                                .candidates = candidates};
  std::optional<Operands> made;
  return choose_kernel(question, [&](size_t candidate) {
    if (!made) {
      made = operands(of_class);
    }
    compute(candidate, made->first, made->second);
  });
}

}  // namespace

namespace {

// Below this number of rows, as in generation or for each of many experts, a product takes about as
// long as a copy of its weights.
constexpr int64_t kLeastRowsToJoin = 128;

}  // namespace

at::Tensor as_rows(const at::Tensor& x) {
  return x.dim() == 2 ? x : x.reshape({-1, x.size(-1)});
}

at::Tensor with_axes_of(const at::Tensor& y_MN, const at::Tensor& x) {
  if (x.dim() == 2) {
    return y_MN;
  }
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = y_MN.size(1);
  return y_MN.view(shape);
}

at::Tensor product_forward(const at::Tensor& x_MK,
                           const at::Tensor& w_NK,
                           const std::optional<at::Tensor>& b_N) {
  if (is_own_by_rule(x_MK, w_NK)) {
    return own_product(x_MK, w_NK.t(), b_N);
  }
  const size_t candidate = choose(
      "linear.forward",
      kForward,
      x_MK,
      {x_MK.size(0), w_NK.size(0), x_MK.size(1)},
      [dtype = x_MK.scalar_type()](const Shape& s) {
        return Operands(filled(s.M, s.K, dtype), filled(s.N, s.K, dtype));
      },
      [](size_t i, const at::Tensor& x, const at::Tensor& w) {
        return forward_by(i, x, w, std::nullopt);
      });
  return forward_by(candidate, x_MK, w_NK, b_N);
}

at::Tensor product_forward(const at::Tensor& x_MK,
                           at::TensorList weights,
                           const std::optional<at::Tensor>& bias) {
  if (weights.size() == 1 || x_MK.size(0) >= kLeastRowsToJoin) {
    return product_forward(x_MK, joined(weights), bias);
  }
  std::vector<at::Tensor> parts;
  int64_t column = 0;
  for (const at::Tensor& weight : weights) {
    const int64_t width = weight.size(0);
    const auto part = bias ? std::optional(bias->narrow(0, column, width)) : std::nullopt;
    parts.push_back(product_forward(x_MK, weight, part));
    column += width;
  }
  return at::cat(parts, 1);
}

at::Tensor joined(at::TensorList weights) {
  return weights.size() == 1 ? weights[0] : at::cat(weights);
}

at::Tensor product_grad_input(const at::Tensor& g_MN, const at::Tensor& w_NK) {
  const size_t candidate = choose(
      "linear.grad_input",
      kForward,
      g_MN,
      {g_MN.size(0), g_MN.size(1), w_NK.size(1)},
      [dtype = g_MN.scalar_type()](const Shape& s) {
        return Operands(filled(s.M, s.N, dtype), filled(s.N, s.K, dtype));
      },
      grad_input_by);
  return grad_input_by(candidate, g_MN, w_NK);
}

at::Tensor product_grad_input(const at::Tensor& g_MN, at::TensorList weights) {
  if (weights.size() == 1 || g_MN.size(0) >= kLeastRowsToJoin) {
    return product_grad_input(g_MN, joined(weights));
  }
  at::Tensor sum;
  int64_t column = 0;
  for (const at::Tensor& weight : weights) {
    const at::Tensor part = product_grad_input(g_MN.narrow(1, column, weight.size(0)), weight);
    sum = sum.defined() ? sum.add_(part) : part;
    column += weight.size(0);
  }
  return sum;
}

at::Tensor product_grad_weight(const at::Tensor& g_MN, const at::Tensor& x_MK) {
  const size_t candidate = choose(
      "linear.grad_weight",
      kFp32,
      g_MN,
      {g_MN.size(0), g_MN.size(1), x_MK.size(1)},
      [dtype = g_MN.scalar_type()](const Shape& s) {
        return Operands(filled(s.M, s.N, dtype), filled(s.M, s.K, dtype));
      },
      grad_weight_by);
  return grad_weight_by(candidate, g_MN, x_MK);
}

int64_t product_bytes(int64_t M, int64_t N, int64_t K, int64_t threads, bool has_gradient) {
  const auto& forced = kernel_policy().forced;
  const auto of_layer = forced.find("linear");
  const bool is_own = of_layer == forced.end() || of_layer->second == kFp32[kOwn];
  if (!is_own || !has_one_dnn() || is_plain("linear") || !is_worth_a_choice({M, N, K})) {
    return 0;
  }
  const int64_t of_input =
      std::max(own_product_bytes(M, N, K, threads), own_product_bytes(M, K, N, threads));
  return has_gradient ? std::max(of_input, own_product_bytes(N, K, M, threads)) : of_input;
}

}  // namespace tenon
