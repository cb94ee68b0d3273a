// SPDX-License-Identifier: Apache-2.0
//
// Gradient descent on the rows with a gradient in the step, with optional momentum. A row's
// momentum decays only in its own updates.
#include <tenon/cpp/plugin.hpp>

#include "../row_optimizer.hpp"

ROW_CUDA_KERNEL(SgdSettings);

#include <tenon/simd/each_machine.hpp>

namespace {

struct SgdOptions : RowOptions {
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;
};

class Sgd : public RowOptimizer {
 public:
  static constexpr const char* kType = "sgd";
  static constexpr const char* kSummary =
      "SGD on the rows with a gradient in the step, with optional momentum";
  using Options = SgdOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_row_rate(binder);
    binder.field("momentum", &Options::momentum)
        .min(0)
        .exclusive_max(1)
        .doc(
            "decay factor of a row's running sum of gradients, applied in its updates; 0: no "
            "momentum");
    binder.field("nesterov", &Options::nesterov)
        .doc("Nesterov momentum; requires momentum above 0");
    bind_row_l2_decay(binder);
    bind_row_options(binder);
  }

  explicit Sgd(const Options& options)
      : RowOptimizer(options), settings_{options.momentum, options.nesterov, options.weight_decay} {
    TENON_CHECK(!options.nesterov || options.momentum > 0,
                "`nesterov` requires `momentum` above 0, found 0");
  }

  void describe(tenon::SparseOptimizerInfo& info) override {
    if (settings_.momentum > 0) {
      info.slot("momentum");
    }
    describe_rows(info);
  }

  void call_update(const tenon::Exec& exec, const tenon_sparse_update_args& args) override {
    run(exec,
        args,
        settings_,
        settings_.momentum > 0 ? ROW_KERNELS(MomentumFormula) : ROW_KERNELS(SgdFormula),
        kRowCudaKernel);
  }

 private:
  SgdSettings settings_;
};

}  // namespace

TENON_PLUGIN(Sgd)
