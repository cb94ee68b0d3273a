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

// `table` has dense rows; `positions` may be undefined. The result is dense.
at::Tensor rotated(const at::Tensor& x_in,
                   const at::Tensor& table,
                   const at::Tensor& positions,
                   Turn turn) {
  const at::Tensor x = x_in.stride(3) == 1 ? x_in : x_in.contiguous();
  at::Tensor y = at::empty(x.sizes(), x.options());
  const int64_t T = x.size(1);
  const int64_t H = x.size(2);
  const int64_t E = x.size(3);
  const int64_t R = 2 * table.size(2);
  const float* const x_data = x.const_data_ptr<float>();
  const float* const table_data = table.const_data_ptr<float>();
  const int64_t* const position =
      positions.defined() ? positions.const_data_ptr<int64_t>() : nullptr;
  float* const y_data = y.mutable_data_ptr<float>();
  const int64_t step = std::max<int64_t>(1, kRopePiece / (H * E));
  at::parallel_for(0, x.size(0) * T, step, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t t = at % T;
      const int64_t row = position == nullptr ? t : position[at];
      const float* const cos = table_data + row * table.stride(1);
      const RopeHeads heads{.x = x_data + at / T * x.stride(0) + t * x.stride(1),
                            .x_stride = x.stride(2),
                            .cos = cos,
                            .sin = cos + table.stride(0),
                            .y = y_data + at * H * E,
                            .y_stride = E};
      rope_heads(heads, H, R / 2, turn == Turn::kBack);
      for (int64_t h = 0; h < H && R < E; ++h) {
        const float* const rest = heads.x + h * heads.x_stride;
        std::copy(rest + R, rest + E, heads.y + h * E + R);
      }
    }
  });
  return y;
}

class Rope : public torch::autograd::Function<Rope> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& table_in,
                            const std::optional<at::Tensor>& given) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor table = table_in.stride(2) == 1 ? table_in : table_in.contiguous();
    const at::Tensor positions = given.value_or(at::Tensor());
    context->save_for_backward({table, positions});
    return rotated(x, table, positions, Turn::kForward);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("rope");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    return {rotated(grads[0], saved[0], saved[1], Turn::kBack), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rotary_positions(std::string_view op,
                            const std::optional<at::Tensor>& positions,
                            int64_t num_samples,
                            int64_t num_positions,
                            int64_t num_rows) {
  if (!positions.has_value() || !positions->defined()) {
    return {};
  }
  TORCH_CHECK(positions->dim() == 2 && positions->size(0) == num_samples &&
                  positions->size(1) == num_positions &&
                  at::isIntegralType(positions->scalar_type(), /*includeBool=*/false),
              "tenon::",
              op,
              ": positions ",
              positions->sizes(),
              " of ",
              positions->scalar_type(),
              " must be [",
              num_samples,
              ", ",
              num_positions,
              "], integers");
  at::Tensor found = positions->to(at::kLong).contiguous();
  if (found.is_cpu()) {
    const int64_t* const data = found.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < found.numel(); ++i) {
      TORCH_CHECK_INDEX(data[i] >= 0 && data[i] < num_rows,
                        "tenon::",
                        op,
                        ": position ",
                        data[i],
                        " at [",
                        i / num_positions,
                        ", ",
                        i % num_positions,
                        "] is not in [0, ",
                        num_rows,
                        "), the rows of the table");
    }
  }
  return found;
}

at::Tensor rope(const at::Tensor& x,
                const at::Tensor& table,
                const std::optional<at::Tensor>& positions) {
  const bool is_given = positions.has_value() && positions->defined();
  TORCH_CHECK(x.dim() == 4 && table.dim() == 3 && table.size(0) == 2 &&
                  (is_given || table.size(1) >= x.size(1)) && 2 * table.size(2) <= x.size(3),
              "tenon::rope: x is ",
              x.sizes(),
              " and the table ",
              table.sizes(),
              "; expected [B, T, H, E] and [2, at least T, at most E/2]");
  const at::Tensor rows = rotary_positions("rope", positions, x.size(0), x.size(1), table.size(1));
  if (is_fused("rope", x) && table.scalar_type() == at::kFloat && table.device().is_cpu() &&
      !table.requires_grad()) {
    // Autograd takes no undefined tensor.
    return Rope::apply(x, table, rows.defined() ? std::optional(rows) : std::nullopt);
  }
  const int64_t R = 2 * table.size(2);
  const at::Tensor turn =  // [2, B or 1, T, 1, R/2]
      (rows.defined()
           ? table.index_select(1, rows.flatten()).view({2, x.size(0), x.size(1), table.size(2)})
           : table.narrow(1, 0, x.size(1)).unsqueeze(1))
          .to(x.scalar_type())
          .unsqueeze(3);
  const at::Tensor cos = turn.select(0, 0);
  const at::Tensor sin = turn.select(0, 1);
  const std::vector<at::Tensor> half = x.narrow(-1, 0, R).chunk(2, -1);
  std::vector<at::Tensor> parts = {half[0] * cos - half[1] * sin, half[1] * cos + half[0] * sin};
  if (R < x.size(3)) {
    parts.push_back(x.narrow(-1, R, x.size(3) - R));
  }
  return at::cat(parts, -1);
}

}  // namespace tenon
