// SPDX-License-Identifier: Apache-2.0
//
// Lion on the rows with a gradient in the step.
#include <tenon/cpp/plugin.hpp>

#include <vector>

#include "../row_optimizer.hpp"

ROW_CUDA_KERNEL(LionSettings);

#include <tenon/simd/each_machine.hpp>

namespace {

struct LionOptions : RowOptions {
  LionOptions() { lr = 1e-4; }

  std::vector<double> betas = {0.9, 0.99};
  double weight_decay = 0.0;
};

class Lion : public RowOptimizer {
 public:
  static constexpr const char* kType = "lion";
  static constexpr const char* kSummary = "Lion on rows: sign of interpolated momentum";
  using Options = LionOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_row_rate(binder);
    bind_row_betas(
        binder, "weight of the momentum in the update direction, and decay factor of the momentum");
    binder.field("weight_decay", &Options::weight_decay)
        .min(0)
        .doc(
            "decoupled weight decay: fraction of a row, multiplied by lr, removed by each of its "
            "updates");
    bind_row_options(binder);
  }

  explicit Lion(const Options& options)
      : RowOptimizer(options),
        settings_{options.betas[0], options.betas[1], options.weight_decay} {}

  void describe(tenon::SparseOptimizerInfo& info) override {
    info.slot("momentum");
    describe_rows(info);
  }

  void call_update(const tenon::Exec& exec, const tenon_sparse_update_args& args) override {
    run(exec, args, settings_, ROW_KERNELS(LionFormula), kRowCudaKernel);
  }

 private:
  LionSettings settings_;
};

}  // namespace

TENON_PLUGIN(Lion)
