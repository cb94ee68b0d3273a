// SPDX-License-Identifier: Apache-2.0
//
// FTRL-Proximal on the rows with a gradient in the step. Its l1 makes weights exactly 0.
#include <tenon/cpp/plugin.hpp>

#include "../row_optimizer.hpp"

ROW_CUDA_KERNEL(FtrlSettings);

#include <tenon/simd/each_machine.hpp>

namespace {

struct FtrlOptions : RowOptions {
  double l1 = 0.0;
  double l2 = 0.0;
  double beta = 1.0;
  double initial_accumulator_value = 0.0;
};

class Ftrl : public RowOptimizer {
 public:
  static constexpr const char* kType = "ftrl";
  static constexpr const char* kSummary = "FTRL-Proximal on rows: l1 makes weights exactly 0";
  using Options = FtrlOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_row_rate(binder);
    binder.field("l1", &Options::l1)
        .min(0)
        .doc("L1 regularization; small weights become exactly 0");
    binder.field("l2", &Options::l2).min(0).doc("L2 regularization; shrinks weights");
    binder.field("beta", &Options::beta)
        .min(0)
        .doc("added to the square root of the sum of squares that divides the learning rate");
    binder.field("initial_accumulator_value", &Options::initial_accumulator_value)
        .min(0)
        .doc("initial value of the sums of squares");
    bind_row_options(binder);
  }

  explicit Ftrl(const Options& options)
      : RowOptimizer(options),
        settings_{options.l1, options.l2, options.beta},
        initial_(options.initial_accumulator_value) {}

  void describe(tenon::SparseOptimizerInfo& info) override {
    info.slot("z").slot("n", TENON_F32, initial_);
    describe_rows(info);
  }

  void call_update(const tenon::Exec& exec, const tenon_sparse_update_args& args) override {
    run(exec, args, settings_, ROW_KERNELS(FtrlFormula), kRowCudaKernel);
  }

 private:
  FtrlSettings settings_;
  double initial_;
};

}  // namespace

TENON_PLUGIN(Ftrl)
