// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/rope.hpp"

#include "host/kernels/first_order.hpp"
#include "host/kernels/fused.hpp"
#include "host/kernels/row_math.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tenon {
namespace {

// Elements per task.
constexpr int64_t kRopePiece = 1 << 15;

enum class Turn { kForward, kBack };

// `table` has dense rows. The result is dense.
at::Tensor rotated(const at::Tensor& x_in, const at::Tensor& table, Turn turn) {
  const at::Tensor x = x_in.stride(3) == 1 ? x_in : x_in.contiguous();
  at::Tensor y = at::empty(x.sizes(), x.options());
  const int64_t T = x.size(1);
  const int64_t H = x.size(2);
  const int64_t E = x.size(3);
  const float* const x_data = x.const_data_ptr<float>();
  const float* const table_data = table.const_data_ptr<float>();
  float* const y_data = y.mutable_data_ptr<float>();
  const int64_t step = std::max<int64_t>(1, kRopePiece / (H * E));
  at::parallel_for(0, x.size(0) * T, step, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t t = at % T;
      const float* const cos = table_data + t * table.stride(1);
      const RopeHeads heads{.x = x_data + at / T * x.stride(0) + t * x.stride(1),
                            .x_stride = x.stride(2),
                            .cos = cos,
                            .sin = cos + table.stride(0),
                            .y = y_data + at * H * E};
      rope_heads(heads, H, E / 2, turn == Turn::kBack);
    }
  });
  return y;
}

class Rope : public torch::autograd::Function<Rope> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& table_in) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor table = table_in.stride(2) == 1 ? table_in : table_in.contiguous();
    context->save_for_backward({table});
    return rotated(x, table, Turn::kForward);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("rope");
    return {rotated(grads[0], context->get_saved_variables()[0], Turn::kBack), at::Tensor()};
  }
};

}  // namespace

at::Tensor rope(const at::Tensor& x, const at::Tensor& table) {
  TORCH_CHECK(x.dim() == 4 && x.size(3) % 2 == 0 && table.dim() == 3 && table.size(0) == 2 &&
                  table.size(1) >= x.size(1) && 2 * table.size(2) == x.size(3),
              "tenon::rope: x is ",
              x.sizes(),
              " and the table ",
              table.sizes(),
              "; expected [B, T, H, E] with even E and [2, at least T, E/2]");
  if (is_fused("rope", x) && table.scalar_type() == at::kFloat && table.device().is_cpu() &&
      !table.requires_grad()) {
    return Rope::apply(x, table);
  }
  const at::Tensor turn =
      table.narrow(1, 0, x.size(1)).to(x.scalar_type()).unsqueeze(2);  // [2, T, 1, E/2]
  const at::Tensor cos = turn.select(0, 0);
  const at::Tensor sin = turn.select(0, 1);
  const std::vector<at::Tensor> half = x.chunk(2, -1);
  return at::cat({half[0] * cos - half[1] * sin, half[1] * cos + half[0] * sin}, -1);
}

}  // namespace tenon
