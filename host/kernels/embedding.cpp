// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/embedding.hpp"

#include "host/kernels/first_order.hpp"
#include "host/kernels/fused.hpp"
#include "host/kernels/region_call.hpp"
#include "host/kernels/row_math.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tenon {
namespace {

// Elements per task.
constexpr int64_t kEmbeddingPiece = 1 << 15;

int64_t rows_per_task(int64_t width) {
  return std::max<int64_t>(1, kEmbeddingPiece / std::max<int64_t>(1, width));
}

// `ids` are dense 64-bit integers on a CPU.
void check_ids(const at::Tensor& ids, int64_t num_rows) {
  const int64_t* const values = ids.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    TORCH_CHECK_INDEX(values[i] >= 0 && values[i] < num_rows,
                      "tenon::embedding: id ",
                      values[i],
                      " at position ",
                      i,
                      " of ids ",
                      ids.sizes(),
                      " is not in [0, ",
                      num_rows,
                      "), the rows of weight");
  }
}

// Positions sorted by id, stable: those of id v are positions[starts[v]] to positions[starts[v +
// 1]].
struct PositionsById {
  std::vector<int64_t> starts;
  std::vector<int64_t> positions;
};

PositionsById sorted_by_id(const at::Tensor& ids, int64_t num_rows) {
  const int64_t* const values = ids.const_data_ptr<int64_t>();
  const int64_t num = ids.numel();
  PositionsById out{.starts = std::vector<int64_t>(static_cast<size_t>(num_rows) + 1),
                    .positions = std::vector<int64_t>(static_cast<size_t>(num))};
  int64_t* const starts = out.starts.data();
  for (int64_t i = 0; i < num; ++i) {
    ++starts[values[i]];
  }
  int64_t sum = 0;
  for (int64_t v = 0; v <= num_rows; ++v) {
    sum += starts[v];
    starts[v] = sum;
  }
  // starts[v] is now where the positions of v end, and sinks to where they begin.
  for (int64_t i = num; i-- > 0;) {
    out.positions[static_cast<size_t>(--starts[values[i]])] = i;
  }
  return out;
}

class Embedding : public torch::autograd::Function<Embedding> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& weight,
                            const at::Tensor& ids) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor w = weight.contiguous();
    const int64_t width = w.size(1);
    std::vector<int64_t> shape = ids.sizes().vec();
    shape.push_back(width);
    at::Tensor y = at::empty(shape, w.options());
    const int64_t* const values = ids.const_data_ptr<int64_t>();
    const float* const from = w.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    at::parallel_for(0, ids.numel(), rows_per_task(width), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(
            to + i * width, from + values[i] * width, static_cast<size_t>(width) * sizeof(float));
      }
    });
    context->save_for_backward({ids});
    context->saved_data["num_rows"] = w.size(0);
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("embedding");
    const at::Tensor ids = context->get_saved_variables()[0];
    const at::Tensor g = grads[0].contiguous();
    const int64_t num_rows = context->saved_data["num_rows"].toInt();
    const int64_t width = g.size(-1);
    const PositionsById by_id = sorted_by_id(ids, num_rows);
    const int64_t* const starts = by_id.starts.data();
    at::Tensor dw = at::empty({num_rows, width}, g.options());
    const float* const from = g.const_data_ptr<float>();
    float* const to = dw.mutable_data_ptr<float>();
    // Row v begins at work v + starts[v], so that tasks have equal numbers of rows to read or
    // write.
    at::parallel_for(
        0, num_rows + ids.numel(), rows_per_task(width), [&](int64_t begin, int64_t end) {
          int64_t v = first_row_at(starts, num_rows, begin);
          for (; v < num_rows && v + starts[v] < end; ++v) {
            const int64_t num = starts[v + 1] - starts[v];
            if (num > 0) {
              sum_selected_rows(
                  from, by_id.positions.data() + starts[v], num, width, to + v * width);
            } else {
              std::memset(to + v * width, 0, static_cast<size_t>(width) * sizeof(float));
            }
          }
        });
    return {dw, at::Tensor()};
  }

 private:
  // The first row that begins at `work` or later.
  static int64_t first_row_at(const int64_t* starts, int64_t num_rows, int64_t work) {
    int64_t low = 0;
    int64_t high = num_rows;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (middle + starts[middle] < work) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

// 64-bit, and checked on a CPU.
at::Tensor checked_ids(const at::Tensor& weight, const at::Tensor& ids, int64_t num_rows) {
  TORCH_CHECK(weight.dim() == 2,
              "tenon::embedding: weight ",
              weight.sizes(),
              " is not a matrix; expected [V, D]");
  TORCH_CHECK(at::isIntegralType(ids.scalar_type(), /*includeBool=*/false),
              "tenon::embedding: ids are ",
              ids.scalar_type(),
              "; expected integers");
  at::Tensor wide = ids.to(at::kLong);
  if (ids.device().is_cpu()) {
    wide = wide.contiguous();
    check_ids(wide, num_rows);
  }
  return wide;
}

at::Tensor rows_of_ids(const at::Tensor& weight, const at::Tensor& ids) {
  const bool is_own = ids.device().is_cpu() && ids.numel() > 0 && is_fused("embedding", weight);
  return is_own ? Embedding::apply(weight, ids) : at::embedding(weight, ids);
}

}  // namespace

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids) {
  return rows_of_ids(weight, checked_ids(weight, ids, weight.size(0)));
}

at::Tensor embedding_over(const at::Tensor& weight, const at::Tensor& ids, int64_t whole) {
  const at::Tensor all = checked_ids(weight, ids, whole);
  const int64_t num_rows = weight.size(0);
  const int64_t copies = num_copies("embedding_over", num_rows, whole);
  const TensorRegionPtr& region = tensor_region();
  if (!region) {
    return rows_of_ids(weight, all);
  }
  if (all.is_cuda()) {  // as libtorch's lookup: it sees ids of this rank only
    at::_assert_async(all.ge(0).logical_and(all.lt(whole)).all(), "an id is not a row of weight");
  }
  const int64_t rank = region->ranks->rank();
  const at::Tensor own = all - rank / copies * num_rows;
  const at::Tensor is_elsewhere =
      rank % copies == 0 ? own.lt(0).logical_or(own.ge(num_rows)) : at::ones_like(own, at::kBool);
  return rows_of_ids(weight, own.masked_fill(is_elsewhere, 0))
      .masked_fill(is_elsewhere.unsqueeze(-1), 0);
}

}  // namespace tenon
