// SPDX-License-Identifier: Apache-2.0
//
// Adagrad with one sum of squares per row.
#include <tenon/cpp/plugin.hpp>

#include "../adagrad_rows.hpp"

ROW_CUDA_KERNEL(AdagradSettings);

#include <tenon/simd/each_machine.hpp>

namespace {

class RowwiseAdagrad : public AdagradRows {
 public:
  static constexpr const char* kType = "rowwise_adagrad";
  static constexpr const char* kSummary =
      "row-wise Adagrad: one learning rate per row, from mean squared gradients";

  explicit RowwiseAdagrad(const Options& options) : AdagradRows(options) {}

  void describe(tenon::SparseOptimizerInfo& info) override {
    info.scalar_slot("sum", TENON_F32, initial_sum());
    describe_rows(info);
  }

  void call_update(const tenon::Exec& exec, const tenon_sparse_update_args& args) override {
    run(exec, args, settings(), ROW_KERNELS(RowwiseAdagradFormula), kRowCudaKernel);
  }
};

}  // namespace

TENON_PLUGIN(RowwiseAdagrad)
