// SPDX-License-Identifier: Apache-2.0
//
// Adagrad on the rows with a gradient in the step.
#include <tenon/cpp/plugin.hpp>

#include "../adagrad_rows.hpp"

ROW_CUDA_KERNEL(AdagradSettings);

#include <tenon/simd/each_machine.hpp>

namespace {

class Adagrad : public AdagradRows {
 public:
  static constexpr const char* kType = "adagrad";
  static constexpr const char* kSummary =
      "Adagrad on rows: per-element learning rates from sums of squared gradients";

  explicit Adagrad(const Options& options) : AdagradRows(options) {}

  void describe(tenon::SparseOptimizerInfo& info) override {
    info.slot("sum", TENON_F32, initial_sum());
    describe_rows(info);
  }

  void call_update(const tenon::Exec& exec, const tenon_sparse_update_args& args) override {
    run(exec, args, settings(), ROW_KERNELS(AdagradFormula), kRowCudaKernel);
  }
};

}  // namespace

TENON_PLUGIN(Adagrad)
