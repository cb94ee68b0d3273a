// SPDX-License-Identifier: Apache-2.0
//
// What the low-rank adapters share: their options, their parameters, and their form in PEFT
// folders.
//
// Letters in names: N output width, K input width, R rank.
//
// Source   Hu et al., LoRA: Low-Rank Adaptation of Large Language Models (ICLR 2022), section 4.1
#pragma once

#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/weights_layout.hpp>
#include <tenon/torch/ops.hpp>
#include <tenon/torch/parametrization.hpp>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "stored_base.hpp"

namespace {

enum class LowRankInit { kUniform, kGaussian };

struct LowRankOptions {
  int64_t rank = 8;
  double alpha = 8.0;
  double dropout = 0.0;
  LowRankInit init = LowRankInit::kUniform;
  BaseKind base = BaseKind::kFull;

  static void bind(tenon::OptionBinder<LowRankOptions>& b) {
    b.field("rank", &LowRankOptions::rank)
        .min(1)
        .max(65536)
        .doc("rank of the update of the matrix");
    b.field("alpha", &LowRankOptions::alpha)
        .exclusive_min(0)
        .doc("numerator of the factor of the update");
    b.field("dropout", &LowRankOptions::dropout)
        .min(0)
        .exclusive_max(1)
        .doc("dropout probability of the update's input, in training");
    b.choice("init",
             &LowRankOptions::init,
             {{"uniform", LowRankInit::kUniform}, {"gaussian", LowRankInit::kGaussian}})
        .doc("initial lora_a: uniform in 1/sqrt(input width), or normal with deviation 1/rank");
    b.choice("base",
             &LowRankOptions::base,
             {{"full", BaseKind::kFull},
              {"bf16", BaseKind::kBf16},
              {"int8", BaseKind::kInt8},
              {"nf4", BaseKind::kNf4}})
        .doc("storage of the frozen matrix: full: as the run's parameters; bf16, int8 or nf4");
  }
};

// y + scale low B^T, in the memory of y, which nothing else may need. Returns no second
// derivatives. Letters in names: M rows.
class AddedUpdate : public torch::autograd::Function<AddedUpdate> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            at::Tensor y_MN,
                            const at::Tensor& low_MR,
                            const at::Tensor& b_NR,
                            double scale) {
    const at::AutoDispatchBelowADInplaceOrView below;
    y_MN.addmm_(low_MR, b_NR.t(), 1.0, scale);
    context->mark_dirty({y_MN});
    context->save_for_backward({low_MR, b_NR});
    context->saved_data["scale"] = scale;
    return y_MN;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "low-rank adapters have no second derivatives (create_graph)");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& low_MR = saved[0];
    const at::Tensor& b_NR = saved[1];
    const double scale = context->saved_data["scale"].toDouble();
    const at::Tensor& g_MN = grads[0];
    torch::autograd::variable_list out(4);
    out[0] = g_MN;
    if (context->needs_input_grad(1)) {
      out[1] = ops::linear(g_MN, {b_NR.t()}).mul_(scale);
    }
    if (context->needs_input_grad(2)) {
      // g^T low as a product with a weight, for the host's choice of kernels.
      out[2] = ops::linear(low_MR.t(), {g_MN.t()}).mul_(scale).t();
    }
    return out;
  }
};

// An adapter of one matrix W: reals lora_a [R, K] and lora_b [N, R] beside the frozen base.
class LowRank : public tenon::TorchLinearParametrization, public tenon::WeightsLayout {
 public:
  using Options = LowRankOptions;
  static void bind(tenon::OptionBinder<Options>& b) { Options::bind(b); }

  explicit LowRank(const Options& options) : o_(options) {}

  void describe(const tenon::EffectiveParameter& effective, tenon::RealSet& reals) override {
    if (effective.shape.size() != 2) {
      TENON_FAIL(TENON_UNSUPPORTED,
                 "lora.shape",
                 "it has ",
                 effective.shape.size(),
                 " axes, and a low-rank adapter needs a matrix");
    }
    const int64_t N = effective.shape[0];
    const int64_t K = effective.shape[1];
    base_.describe(o_.base, effective, reals);
    const double bound = 1.0 / std::sqrt(static_cast<double>(K));
    const tenon::Init init = o_.init == LowRankInit::kUniform
                                 ? tenon::Init::uniform(-bound, bound)
                                 : tenon::Init::normal(0.0, 1.0 / static_cast<double>(o_.rank));
    reals.real(".lora_a", {o_.rank, K}, init).follows(1, 1);
    reals.real(".lora_b", {N, o_.rank}, tenon::Init::zeros()).follows(0, 0);
    describe_more(N, K, reals);
    if (base_.is_quantized()) {
      return;  // scales of blocks or rows are in buffers, which ranks do not divide
    }
    reals.divisible(0);
    if (o_.dropout == 0.0) {
      reals.divisible(1);  // ranks with parts of the input would draw other numbers than one rank
    }
  }

  void start(const tenon::Exec&, const tenon::RealsToStart& reals) override { base_.start(reals); }

  const void* extension(const char* id) override {
    const void* const layout = tenon::WeightsLayoutCalls<LowRank>::find(id);
    return layout != nullptr ? layout : TorchLinearParametrization::extension(id);
  }

  // Names of PEFT, relative to the module of the matrix.
  void describe_layout(const std::string& layout,
                       uint32_t /*dtype*/,
                       tenon::LayoutBuilder& builder) override {
    check_layout(layout);
    builder.tensor("lora_A.weight", ".lora_a");
    builder.tensor("lora_B.weight", ".lora_b");
    layout_more(builder);
    builder.file("adapter_config.json", config_text());
  }

  void compare_layout(const std::string& layout,
                      const tenon::OptionReader& config,
                      tenon::LayoutDifferences& differences) override;

 protected:
  // Declares reals after lora_b, for a matrix [N, K].
  virtual void describe_more(int64_t /*N*/, int64_t /*K*/, tenon::RealSet& /*reals*/) {}
  virtual void layout_more(tenon::LayoutBuilder& /*builder*/) {}
  // Factor of the update.
  virtual double scale() const { return o_.alpha / static_cast<double>(o_.rank); }
  virtual bool is_rank_stabilized() const { return false; }
  virtual bool is_decomposed() const { return false; }

  const Options& options() const { return o_; }
  const StoredBase& base() const { return base_; }
  const at::Tensor& a_RK(const tenon::Reals& reals) const { return reals.real(base_.num_reals()); }
  const at::Tensor& b_NR(const tenon::Reals& reals) const {
    return reals.real(base_.num_reals() + 1);
  }
  size_t next_real() const { return base_.num_reals() + 2; }

  at::Tensor dropped(const tenon::Exec& exec, const at::Tensor& x) const {
    return exec.is_train() && o_.dropout > 0.0 ? at::dropout(x, o_.dropout, /*train=*/true) : x;
  }

  // W + scale B A.
  at::Tensor updated_matrix(const tenon::Reals& reals) const {
    const at::Tensor& a = a_RK(reals);
    return at::addmm(base_.matrix(reals, a.scalar_type()), b_NR(reals), a, 1.0, scale());
  }

  // x W^T + scale (d A^T) B^T.
  at::Tensor updated_product(const at::Tensor& x,
                             const at::Tensor& d,
                             const tenon::Reals& reals) const {
    const at::Tensor& a = a_RK(reals);
    if (x.dim() < 2 || x.numel() == 0 || a.scalar_type() != x.scalar_type() ||
        at::autocast::is_autocast_enabled(x.device().type())) {
      return plus_update(base_.product(x, reals), d, reals);
    }
    // As two products, so that the host decides what each keeps of x.
    const at::Tensor y_MN = base_.product(x.reshape({-1, x.size(-1)}), reals);
    const at::Tensor low_MR = ops::linear(d.reshape({-1, d.size(-1)}), {a});
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = y_MN.size(1);
    return AddedUpdate::apply(y_MN, low_MR, b_NR(reals), scale()).view(shape);
  }

  // y + scale (x A^T) B^T, for y [..., N].
  at::Tensor plus_update(const at::Tensor& y,
                         const at::Tensor& x,
                         const tenon::Reals& reals) const {
    const at::Tensor low = ops::linear(x, {a_RK(reals)});
    const at::Tensor b = b_NR(reals).to(low.scalar_type());
    return at::addmm(
               y.reshape({-1, y.size(-1)}), low.reshape({-1, low.size(-1)}), b.t(), 1.0, scale())
        .view(y.sizes());
  }

 private:
  static void check_layout(const std::string& layout) {
    if (layout != "peft") {
      TENON_FAIL(TENON_UNSUPPORTED,
                 "lora.layout",
                 "unknown layout \"",
                 layout,
                 "\" of an adapter (available: \"peft\")");
    }
  }

  static std::string number(double x) {
    if (x == std::floor(x) && std::abs(x) < 1e15) {
      return std::to_string(static_cast<int64_t>(x));
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", x);
    return text;
  }

  std::string config_text() const {
    const auto truth = [](bool b) { return b ? "true" : "false"; };
    return std::string("{\"peft_type\": \"LORA\", \"r\": ") + std::to_string(o_.rank) +
           ", \"lora_alpha\": " + number(o_.alpha) + ", \"lora_dropout\": " + number(o_.dropout) +
           ", \"use_rslora\": " + truth(is_rank_stabilized()) +
           ", \"use_dora\": " + truth(is_decomposed()) + ", \"init_lora_weights\": " +
           (o_.init == LowRankInit::kGaussian ? "\"gaussian\"" : "true") +
           ", \"bias\": \"none\", \"fan_in_fan_out\": false}";
  }

  Options o_;
  StoredBase base_;
};

inline void LowRank::compare_layout(const std::string& layout,
                                    const tenon::OptionReader& config,
                                    tenon::LayoutDifferences& differences) {
  check_layout(layout);
  const auto compare = [&](const char* option, const std::string& here, const std::string& there) {
    if (here != there) {
      differences.add(option, here, there);
    }
  };
  const auto truth = [](bool b) { return std::string(b ? "true" : "false"); };
  const auto has = [&](const char* pointer) {
    const uint32_t kind = config.kind(pointer);
    return kind != TENON_OPTION_ABSENT && kind != TENON_OPTION_NULL;
  };
  const auto flag = [&](const char* pointer) {
    return truth(has(pointer) && config.get_bool(pointer));
  };
  // Missing keys have the defaults of PEFT.
  compare("rank", std::to_string(o_.rank), std::to_string(has("/r") ? config.get_int("/r") : 8));
  compare("alpha",
          number(o_.alpha),
          number(has("/lora_alpha") ? config.get_double("/lora_alpha") : 8.0));
  compare("use_rslora", truth(is_rank_stabilized()), flag("/use_rslora"));
  compare("use_dora", truth(is_decomposed()), flag("/use_dora"));
  compare("fan_in_fan_out", "false", flag("/fan_in_fan_out"));
}

// An adapter whose update is added to the base.
class AddedLowRank : public LowRank {
 public:
  using LowRank::LowRank;

  at::Tensor effective(const tenon::Exec&, const tenon::Reals& reals) override {
    return updated_matrix(reals);
  }
  at::Tensor product(const tenon::Exec& exec,
                     const at::Tensor& x,
                     const tenon::Reals& reals) override {
    return updated_product(x, dropped(exec, x), reals);
  }
};

}  // namespace
