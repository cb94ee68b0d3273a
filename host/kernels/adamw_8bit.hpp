// SPDX-License-Identifier: Apache-2.0
//
// AdamW whose means are stored in 8 bits. fp32 and bf16 parameters on a CPU run the kernels of
// adamw_8bit_blocks.hpp; all others run libtorch's operators.
//
// Source: Dettmers et al., 8-bit Optimizers via Block-wise Quantization (ICLR 2022), section 2, in
// the form of torchao's AdamW8bit.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tenon {

// <tenon/torch/ops.hpp> has its contract.
void adamw_8bit_update(at::TensorList parameters,
                       at::TensorList grads,
                       at::TensorList mean_codes,
                       at::TensorList mean_scales,
                       at::TensorList square_codes,
                       at::TensorList square_scales,
                       at::TensorList steps,
                       const at::Tensor& lr,
                       double beta1,
                       double beta2,
                       double eps,
                       double weight_decay,
                       int64_t block,
                       const std::optional<at::Tensor>& found_inf);

}  // namespace tenon
