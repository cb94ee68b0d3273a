// SPDX-License-Identifier: Apache-2.0
//
// The frozen base of an adapter: a matrix that is stored as it is, in bf16, or quantized to 8 or 4
// bits. A quantized base is in buffers, and is dequantized for each product, never kept.
//
// Letters in names: N output width, K input width.
#pragma once

#include <tenon/torch/ops.hpp>
#include <tenon/torch/parametrization.hpp>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

namespace ops = tenon::ops;

enum class BaseKind : int64_t { kFull, kBf16, kInt8, kNf4 };

// ---- 4-bit NormalFloat ----

// Source   Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs (2023), appendix E: the 16
//          values; bitsandbytes rounds at their midpoints and stores the first of two values in the
//          high half of a byte
constexpr int64_t kNf4Block = 64;  // elements that share an absolute maximum
constexpr float kNf4Values[16] = {-1.0F,
                                  -0.6961928009986877F,
                                  -0.5250730514526367F,
                                  -0.39491748809814453F,
                                  -0.28444138169288635F,
                                  -0.18477343022823334F,
                                  -0.09105003625154495F,
                                  0.0F,
                                  0.07958029955625534F,
                                  0.16093020141124725F,
                                  0.24611230194568634F,
                                  0.33791524171829224F,
                                  0.44070982933044434F,
                                  0.5626170039176941F,
                                  0.7229568362236023F,
                                  1.0F};

inline int64_t num_nf4_blocks(int64_t numel) {
  return (numel + kNf4Block - 1) / kNf4Block;
}

inline at::Tensor nf4_values() {
  at::Tensor table = at::empty({16}, at::kFloat);
  std::copy(kNf4Values, kNf4Values + 16, table.mutable_data_ptr<float>());
  return table;
}

// Midpoints of neighbors, rounded to float. A value on one has the lower code.
inline at::Tensor nf4_bounds() {
  const at::Tensor values = nf4_values();
  return (values.narrow(0, 0, 15) + values.narrow(0, 1, 15)) / 2;
}

// Fills codes [blocks * 32] u8 and scales [blocks] f32.
inline void quantize_nf4(const at::Tensor& value, at::Tensor& codes, at::Tensor& scales) {
  const int64_t numel = value.numel();
  const int64_t blocks = num_nf4_blocks(numel);
  at::Tensor padded = at::zeros({blocks * kNf4Block}, at::kFloat);
  padded.narrow(0, 0, numel).copy_(value.reshape(-1));
  const at::Tensor by_block = padded.view({blocks, kNf4Block});
  scales.copy_(by_block.abs().amax(1));
  const at::Tensor factor = scales.reciprocal().nan_to_num(0.0, 0.0, 0.0).unsqueeze(1);
  const at::Tensor index = at::bucketize(by_block * factor, nf4_bounds(), /*out_int32=*/true)
                               .to(at::kByte)
                               .view({-1, 2});
  codes.copy_(index.select(1, 0) * 16 + index.select(1, 1));
}

inline at::Tensor dequantize_nf4(const at::Tensor& codes,
                                 const at::Tensor& scales,
                                 at::IntArrayRef shape) {
  // Both halves of each byte by one table of 256 pairs.
  const at::Tensor values = nf4_values();
  const at::Tensor pairs =
      at::stack({values.repeat_interleave(16), values.repeat({16})}, 1).to(codes.device());
  at::Tensor by_block =
      at::index_select(pairs, 0, codes.to(at::kInt)).view({scales.size(0), kNf4Block});
  by_block.mul_(scales.unsqueeze(1));
  return by_block.view(-1).narrow(0, 0, c10::multiply_integers(shape)).view(shape);
}

// ---- 8-bit integers with a scale for each row ----

// Fills codes [N, K] i8 and scales [N] f32.
inline void quantize_int8(const at::Tensor& value_NK, at::Tensor& codes, at::Tensor& scales) {
  const at::Tensor wide = value_NK.to(at::kFloat);
  scales.copy_(wide.abs().amax(1) / 127.0);
  const at::Tensor factor = scales.reciprocal().nan_to_num(0.0, 0.0, 0.0).unsqueeze(1);
  codes.copy_((wide * factor).round().clamp(-127, 127));
}

inline at::Tensor dequantize_int8(const at::Tensor& codes, const at::Tensor& scales) {
  return codes.to(at::kFloat).mul_(scales.unsqueeze(1));
}

inline at::Tensor dequantized(BaseKind kind,
                              const at::Tensor& codes,
                              const at::Tensor& scales,
                              at::IntArrayRef shape,
                              at::ScalarType dtype) {
  if (kind == BaseKind::kInt8) {
    return dequantize_int8(codes, scales).to(dtype);
  }
  if (kind == BaseKind::kNf4) {
    return dequantize_nf4(codes, scales, shape).to(dtype);
  }
  return codes.to(dtype);  // narrow: `codes` are the values
}

// x W^T of a frozen W that is stored in another form. Both directions make W and drop it.
class FrozenProduct : public torch::autograd::Function<FrozenProduct> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& codes,
                            const at::Tensor& scales,
                            int64_t kind,
                            const std::vector<int64_t>& shape) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({codes, scales});
    context->saved_data["kind"] = kind;
    context->saved_data["shape"] = shape;
    const at::Tensor w_NK =
        dequantized(static_cast<BaseKind>(kind), codes, scales, shape, x.scalar_type());
    return ops::linear(x, {w_NK});
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    torch::autograd::variable_list out(5);
    if (context->needs_input_grad(0)) {
      const torch::autograd::variable_list saved = context->get_saved_variables();
      const at::Tensor w_NK =
          dequantized(static_cast<BaseKind>(context->saved_data["kind"].toInt()),
                      saved[0],
                      saved[1],
                      context->saved_data["shape"].toIntVector(),
                      grads[0].scalar_type());
      out[0] = ops::linear(grads[0], {w_NK.t()});
    }
    return out;
  }
};

// Declares, fills and reads the base of one adapter. A base that is not quantized is real 0, a
// quantized one is buffers 0 and 1.
class StoredBase {
 public:
  void describe(BaseKind kind, const tenon::EffectiveParameter& effective, tenon::RealSet& reals) {
    kind_ = kind;
    shape_ = effective.shape;
    const int64_t numel = shape_[0] * shape_[1];
    switch (kind) {
      case BaseKind::kFull:
        reals.base(effective, TENON_PARAM_FROZEN);
        break;
      case BaseKind::kBf16:
        reals.base(effective, TENON_PARAM_FROZEN, TENON_BF16);
        break;
      case BaseKind::kInt8:
        reals.buffer(".codes", shape_, TENON_I8).buffer(".scales", {shape_[0]}, TENON_F32);
        break;
      case BaseKind::kNf4:
        reals.buffer(".codes", {num_nf4_blocks(numel) * kNf4Block / 2}, TENON_U8)
            .buffer(".scales", {num_nf4_blocks(numel)}, TENON_F32);
        break;
    }
  }

  // Number of reals that the base takes: other reals follow.
  size_t num_reals() const { return is_quantized() ? 0 : 1; }
  bool is_quantized() const { return kind_ == BaseKind::kInt8 || kind_ == BaseKind::kNf4; }

  void start(const tenon::RealsToStart& reals) const {
    if (kind_ == BaseKind::kInt8) {
      quantize_int8(reals.value(), reals.buffer(0), reals.buffer(1));
    } else if (kind_ == BaseKind::kNf4) {
      quantize_nf4(reals.value(), reals.buffer(0), reals.buffer(1));
    }
  }

  // Returns what the base is at the start: after rounding.
  at::Tensor value_at_start(const tenon::RealsToStart& reals) const {
    return is_quantized() ? dequantized(kind_, reals.buffer(0), reals.buffer(1), shape_, at::kFloat)
                          : reals.real(0).to(at::kFloat);
  }

  at::Tensor matrix(const tenon::Reals& reals, at::ScalarType dtype) const {
    return is_quantized() ? dequantized(kind_, reals.buffer(0), reals.buffer(1), shape_, dtype)
                          : reals.real(0).to(dtype);
  }

  at::Tensor product(const at::Tensor& x, const tenon::Reals& reals) const {
    return kind_ == BaseKind::kFull
               ? ops::linear(x, {reals.real(0)})
               : FrozenProduct::apply(
                     x, codes(reals), scales(reals), static_cast<int64_t>(kind_), shape_);
  }

  // The stored tensors: the matrix itself, twice, if it is not quantized.
  const at::Tensor& codes(const tenon::Reals& reals) const {
    return is_quantized() ? reals.buffer(0) : reals.real(0);
  }
  const at::Tensor& scales(const tenon::Reals& reals) const {
    return is_quantized() ? reals.buffer(1) : reals.real(0);
  }

 private:
  BaseKind kind_ = BaseKind::kFull;
  std::vector<int64_t> shape_;  // of the whole matrix
};

}  // namespace
