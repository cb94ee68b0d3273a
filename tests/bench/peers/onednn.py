# SPDX-License-Identifier: Apache-2.0
"""Linear layers whose products, forward and backward, are computed by oneDNN instead of the BLAS.

PyTorch has no setting that makes fp32 training do this on x86: `torch.backends.mkldnn.matmul.fp32_precision` lowers the
precision, freezing is for inference, and `mkldnn_linear` needs tensors in oneDNN's own layout. These
layers therefore call the operator that PyTorch's own compiler uses for inference. The host calls the same operator, in the
same order of factors.
"""
import torch
from torch import library, nn


def eager_product(x_MK, w_NK):
    return torch.ops.mkldnn._linear_pointwise(x_MK, w_NK, None, "none", [], "")


@library.custom_op("bench::onednn_product", mutates_args=())
def compiled_product(x_MK: torch.Tensor, w_NK: torch.Tensor) -> torch.Tensor:
    """For torch.compile, which cannot trace the operator itself (torch 2.11.0). Eager code avoids the wrapper's cost."""
    return eager_product(x_MK, w_NK)


@compiled_product.register_fake
def product_shape(x_MK, w_NK):
    return x_MK.new_empty(x_MK.shape[0], w_NK.shape[0])


def product(x_MK, w_NK):
    """x w^T; both may have any strides."""
    return compiled_product(x_MK, w_NK) if torch.compiler.is_compiling() else eager_product(x_MK, w_NK)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x_MK, w_NK):
        ctx.save_for_backward(x_MK, w_NK)
        return product(x_MK, w_NK)

    @staticmethod
    def backward(ctx, g_MN):
        x_MK, w_NK = ctx.saved_tensors
        if g_MN.shape[1] >= 2 * x_MK.shape[1]:
            grad_NK = product(x_MK.t(), g_MN.t()).t()
        else:
            grad_NK = product(g_MN.t(), x_MK.t())
        return product(g_MN, w_NK.t()), grad_NK


class Linear(nn.Linear):
    def forward(self, x):
        y_MN = Product.apply(x.reshape(-1, x.shape[-1]), self.weight)
        if self.bias is not None:
            y_MN = y_MN + self.bias
        return y_MN.view(*x.shape[:-1], y_MN.shape[1])
