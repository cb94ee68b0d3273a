// SPDX-License-Identifier: Apache-2.0
//
// Adam with decoupled weight decay, on the rows with a gradient in the step.
#include <tenon/cpp/plugin.hpp>

#include "../adam_rows.hpp"

ROW_CUDA_KERNEL(AdamSettings);

#include <tenon/simd/each_machine.hpp>

namespace {

struct AdamWOptions : AdamRowOptions {
  double weight_decay = 0.01;
  bool decay_by_rate = true;
};

class AdamW : public AdamRows {
 public:
  static constexpr const char* kType = "adamw";
  static constexpr const char* kSummary =
      "Adam with decoupled weight decay on the rows with a gradient in the step";
  using Options = AdamWOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_adam_rows(binder);
    binder.field("weight_decay", &Options::weight_decay)
        .min(0)
        .doc("decoupled weight decay: fraction of a row removed by each of its updates");
    binder.field("decay_by_rate", &Options::decay_by_rate)
        .doc("multiply weight_decay by lr; if false, apply it unscaled");
    bind_row_options(binder);
  }

  explicit AdamW(const Options& options) : AdamRows(options, settings_of(options)) {}

  void call_update(const tenon::Exec& exec, const tenon_sparse_update_args& args) override {
    run(exec, args, settings(), ROW_KERNELS(AdamFormula), kRowCudaKernel);
  }

 private:
  static AdamSettings settings_of(const Options& options) {
    AdamSettings settings = adam_settings(options);
    settings.decoupled_decay = options.weight_decay;
    settings.decay_by_rate = options.decay_by_rate;
    return settings;
  }
};

}  // namespace

TENON_PLUGIN(AdamW)
