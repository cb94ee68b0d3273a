// SPDX-License-Identifier: Apache-2.0
//
// AdamW with 8-bit state, of the form of torchao's AdamW8bit. All parameters have 8-bit state, also
// small ones; the last block of a parameter may be shorter.
//
// Source: Dettmers et al., 8-bit Optimizers via Block-wise Quantization (ICLR 2022), section 2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/ops.hpp>
#include <tenon/torch/optimizer.hpp>

#include <vector>

#include "../lr_option.hpp"

namespace {

struct AdamW8bitOptions : LrOptions {
  AdamW8bitOptions() { weight_decay = 0.01; }

  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  int64_t block_size = 256;
};

enum Slot { kMeans = 0, kMeanScales = 1, kSquares = 2, kSquareScales = 3 };

class AdamW8bit : public tenon::TorchOptimizer {
 public:
  static constexpr const char* kType = "adamw8bit";
  static constexpr const char* kSummary = "AdamW with two bytes of state per element";
  using Options = AdamW8bitOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_lr(binder);
    binder.field("betas", &Options::betas)
        .min(0)
        .exclusive_max(1)
        .min_items(2)
        .max_items(2)
        .doc("decay factors of the running means of gradient and squared gradient");
    binder.field("eps", &Options::eps).min(0).doc("added to the square root of the mean square");
    binder.field("weight_decay", &Options::weight_decay)
        .min(0)
        .doc(
            "decoupled weight decay, multiplied by lr; not applied to parameters that the model "
            "exempts (norms, biases)");
    binder.field("block_size", &Options::block_size)
        .min(16)
        .max(4096)
        .doc("elements that share a scale; a power of two");
  }

  explicit AdamW8bit(const Options& options) : options_(options) {
    TENON_CHECK((options.block_size & (options.block_size - 1)) == 0,
                "`block_size` is ",
                options.block_size,
                "; choose a power of two, such as 256");
  }

  // Code 127 stands for 0: the host does not save the gaps between parameters, which share the
  // scale of a block.
  void describe(tenon::OptimizerInfo& info) override {
    info.block(options_.block_size)
        .slot("exp_avg", TENON_U8, 127)
        .block_slot("exp_avg_scale")
        .slot("exp_avg_sq", TENON_U8)
        .block_slot("exp_avg_sq_scale");
  }

  void update(const tenon::Exec&, const tenon::TorchUpdate& update) override {
    tenon::ops::adamw_8bit_(
        {update.parameters, update.grads, update.steps, update.lr, update.found_inf},
        update.slots[kMeans],
        update.slots[kMeanScales],
        update.slots[kSquares],
        update.slots[kSquareScales],
        {.beta1 = options_.betas[0],
         .beta2 = options_.betas[1],
         .eps = options_.eps,
         .weight_decay = options_.weight_decay,
         .block = options_.block_size});
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(AdamW8bit)
