// SPDX-License-Identifier: Apache-2.0
//
// Adam on the rows with a gradient in the step, as PyTorch's SparseAdam, with optional weight decay
// as L2 regularization.
#include <tenon/cpp/plugin.hpp>

#include "../adam_rows.hpp"

ROW_CUDA_KERNEL(AdamSettings);

#include <tenon/simd/each_machine.hpp>

namespace {

struct AdamOptions : AdamRowOptions {
  double weight_decay = 0.0;
};

class Adam : public AdamRows {
 public:
  static constexpr const char* kType = "adam";
  static constexpr const char* kSummary = "Adam on the rows with a gradient in the step";
  using Options = AdamOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_adam_rows(binder);
    bind_row_l2_decay(binder);
    bind_row_options(binder);
  }

  explicit Adam(const Options& options) : AdamRows(options, settings_of(options)) {}

  void call_update(const tenon::Exec& exec, const tenon_sparse_update_args& args) override {
    run(exec, args, settings(), ROW_KERNELS(AdamFormula), kRowCudaKernel);
  }

 private:
  static AdamSettings settings_of(const Options& options) {
    AdamSettings settings = adam_settings(options);
    settings.weight_decay = options.weight_decay;
    return settings;
  }
};

}  // namespace

TENON_PLUGIN(Adam)
