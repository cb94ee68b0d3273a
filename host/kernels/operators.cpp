// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/operators.hpp"

#include "host/kernels/adamw_8bit.hpp"
#include "host/kernels/attention.hpp"
#include "host/kernels/embedding.hpp"
#include "host/kernels/expert_mlp.hpp"
#include "host/kernels/fused.hpp"
#include "host/kernels/gated_mlp.hpp"
#include "host/kernels/head_loss.hpp"
#include "host/kernels/linear.hpp"
#include "host/kernels/norm.hpp"
#include "host/kernels/optimizer_updates.hpp"
#include "host/kernels/rope.hpp"
#include "host/kernels/tensor_borders.hpp"

#include <torch/library.h>

#include <string>

namespace tenon {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

AttentionOptions attention_options(const OptionalTensor& rotary,
                                   const OptionalTensor& segments,
                                   int64_t window,
                                   double softcap,
                                   std::optional<double> scale,
                                   double dropout,
                                   bool causal,
                                   const OptionalTensor& positions) {
  return {.rotary = rotary,
          .positions = positions,
          .segments = segments,
          .window = window,
          .softcap = softcap,
          .scale = scale,
          .dropout = dropout,
          .is_causal = causal};
}

at::Tensor attention_op(const at::Tensor& query,
                        const at::Tensor& key,
                        const at::Tensor& value,
                        const OptionalTensor& rotary,
                        const OptionalTensor& segments,
                        int64_t window,
                        double softcap,
                        std::optional<double> scale,
                        double dropout,
                        bool causal,
                        const OptionalTensor& positions) {
  return attention(
      query,
      key,
      value,
      attention_options(rotary, segments, window, softcap, scale, dropout, causal, positions));
}

at::Tensor packed_attention_op(const at::Tensor& qkv,
                               int64_t num_heads,
                               int64_t num_kv_heads,
                               const OptionalTensor& rotary,
                               const OptionalTensor& segments,
                               int64_t window,
                               double softcap,
                               std::optional<double> scale,
                               double dropout,
                               bool causal,
                               const OptionalTensor& positions) {
  return packed_attention(
      qkv,
      num_heads,
      num_kv_heads,
      attention_options(rotary, segments, window, softcap, scale, dropout, causal, positions));
}

at::Tensor linear_op(const at::Tensor& x,
                     at::TensorList weights,
                     const OptionalTensor& bias,
                     c10::string_view activation) {
  return linear(x, weights, bias, activation);
}

at::Tensor gated_mlp_op(const at::Tensor& x,
                        const at::Tensor& gate,
                        const at::Tensor& up,
                        const at::Tensor& down,
                        c10::string_view activation) {
  return gated_mlp(x, gate, up, down, activation);
}

at::Tensor expert_mlp_op(const at::Tensor& x,
                         const at::Tensor& gate,
                         const at::Tensor& up,
                         const at::Tensor& down,
                         const at::Tensor& experts,
                         const at::Tensor& weights,
                         c10::string_view activation) {
  return expert_mlp(x, gate, up, down, experts, weights, activation);
}

bool is_fused_op(c10::string_view op, at::ScalarType dtype, at::Device device) {
  return is_fused(op, dtype, device);
}

constexpr char kMask[] =
    "Tensor? rotary=None, Tensor? segments=None, int window=0, float softcap=0.0, "
    "float? scale=None, float dropout=0.0, bool causal=True, Tensor? positions=None";

// Each operator calls differentiable ones, so that one kernel serves all dispatch keys.
class Library {
 public:
  Library() : library_(torch::Library::DEF, "tenon", std::nullopt, __FILE__, __LINE__) {
    add("linear(Tensor x, Tensor[] weights, Tensor? bias=None, str activation=\"none\") -> Tensor",
        linear_op);
    add(std::string("attention(Tensor query, Tensor key, Tensor value, ") + kMask + ") -> Tensor",
        attention_op);
    add(std::string("packed_attention(Tensor qkv, int num_heads, int num_kv_heads, ") + kMask +
            ") -> Tensor",
        packed_attention_op);
    add("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor", rms_norm);
    add("add_rms_norm(Tensor x, Tensor delta, Tensor weight, float eps) -> (Tensor, Tensor)",
        add_rms_norm);
    add("layer_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor", layer_norm);
    add("rope(Tensor x, Tensor table, Tensor? positions=None) -> Tensor", rope);
    add("gated_mlp(Tensor x, Tensor gate, Tensor up, Tensor down, str activation=\"silu\") -> "
        "Tensor",
        gated_mlp_op);
    add("expert_mlp(Tensor x, Tensor gate, Tensor up, Tensor down, Tensor experts, Tensor weights, "
        "str activation=\"silu\") -> Tensor",
        expert_mlp_op);
    add("embedding(Tensor weight, Tensor ids) -> Tensor", embedding);
    add("cross_entropy(Tensor x, Tensor weight, Tensor labels, Tensor? bias=None, int "
        "ignore_index=-100, float label_smoothing=0.0, float z_loss=0.0) -> Tensor",
        cross_entropy);
    add("token_logps(Tensor x, Tensor weight, Tensor labels, Tensor? bias=None, int "
        "ignore_index=-100, float temperature=1.0) -> Tensor",
        token_logps);
    add("adam_(Tensor(a!)[] parameters, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] "
        "exp_avg_sqs, Tensor(d!)[] max_exp_avg_sqs, Tensor[] steps, Tensor lr, float beta1, float "
        "beta2, float eps, float weight_decay, bool decoupled_decay, Tensor? found_inf=None) -> ()",
        adam_update);
    add("adagrad_(Tensor(a!)[] parameters, Tensor[] grads, Tensor(b!)[] sums, Tensor[] steps, "
        "Tensor lr, float lr_decay, float eps, float weight_decay, Tensor? found_inf=None) -> ()",
        adagrad_update);
    add("sgd_(Tensor(a!)[] parameters, Tensor[] grads, Tensor(b!)[] momentums, Tensor[] steps, "
        "Tensor lr, float momentum, float dampening, bool nesterov, float weight_decay, Tensor? "
        "found_inf=None) -> ()",
        sgd_update);
    add("adamw_8bit_(Tensor(a!)[] parameters, Tensor[] grads, Tensor(b!)[] mean_codes, "
        "Tensor(c!)[] "
        "mean_scales, Tensor(d!)[] square_codes, Tensor(e!)[] square_scales, Tensor[] steps, "
        "Tensor "
        "lr, float beta1, float beta2, float eps, float weight_decay, int block, Tensor? "
        "found_inf=None) -> ()",
        adamw_8bit_update);
    add("tensor_in(Tensor x) -> Tensor", tensor_in);
    add("tensor_out(Tensor x) -> Tensor", tensor_out);
    add("sum_over(Tensor x, int mine, int whole) -> Tensor", sum_over);
    add("embedding_over(Tensor weight, Tensor ids, int whole) -> Tensor", embedding_over);
    add("cross_entropy_over(Tensor x, Tensor weight, Tensor labels, int whole, Tensor? bias=None, "
        "int ignore_index=-100, float label_smoothing=0.0, float z_loss=0.0) -> Tensor",
        cross_entropy_over);
    add("token_logps_over(Tensor x, Tensor weight, Tensor labels, int whole, Tensor? bias=None, "
        "int ignore_index=-100, float temperature=1.0) -> Tensor",
        token_logps_over);
    add("max_over(Tensor x) -> Tensor", max_over);
    add("tensor_rank() -> int", tensor_rank);
    add("tensor_size() -> int", tensor_size);
    add("is_fused(str op, ScalarType dtype, Device device) -> bool", is_fused_op);
  }

 private:
  template <class Function>
  void add(const std::string& schema, Function function) {
    library_.def(schema.c_str(),
                 torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, function));
  }

  torch::Library library_;
};

}  // namespace

void register_operators() {
  static const auto* const library = new Library;  // operators live as long as the process
  static_cast<void>(library);
}

}  // namespace tenon
